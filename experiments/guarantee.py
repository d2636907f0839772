"""What a guarantee gives on real data: the budget it chooses, what really changes on other rows, and what it costs.

    python experiments/guarantee.py MODEL_FOLDER GLUE_FOLDER --seeds 0,1,2
    python experiments/guarantee.py MODEL_FOLDER GLUE_FOLDER --tasks sst2 --seeds 0 --level-only

We fine-tune on a part of the training rows. The other texts are divided into those that `compress` gets, which sets
half of them aside, and those that took no part, on which we count what changed. Texts need no labels, so those of the
test file serve too. The training file of SST-2 has phrases and its dev file has sentences, so we count both apart.

With `--level-only` we compute the answers of eight budgets on 16,000 other phrases once (`--phrases`), draw the texts
set aside from them 200 times, and look what changes on all of them. The guarantees of one model share the decomposition
and the refits; the seconds are those that each would take alone. A row that is in a file already is not measured again.
`nbs/howto/small.ipynb` shows both files."""
import csv, subprocess, time
from dataclasses import replace
from pathlib import Path
import numpy as np, pandas as pd, torch
from fastcore.script import call_parse
from scipy import stats
from transformers import AutoModelForSequenceClassification
from rank_bert.data.glue import glue_task, load_glue
from rank_bert.models.batches import batches_of_texts
from rank_bert.see.bounds import clopper_pearson
from rank_bert.shrink.guarantee import changed_answers, outputs_on
from rank_bert.shrink.recipe import Job, Result, Step, parse, run
from rank_bert.shrink.search import search
from rank_bert.settings import CompressConfig

SIZES = dict(sst2=(3000, 4000, 10_000), mrpc=(1600, 2600, 2000), rte=(1500, 2600, 2000)) # to train, to fit, to check


class Data:
    "Rows of a task, divided at random."
    def __init__(self, task, source, seed):
        data, self.cols = load_glue(task, source), list(glue_task(task).text_cols)
        train, test, dev = (data[k].to_pandas() for k in ('train', 'test', 'validation'))
        n, pool, check = SIZES[task]
        rows = train.sample(frac=1, random_state=seed)
        self.train, self.dev = rows[:n], dev
        rest = [*dict.fromkeys(self.texts(rows[n:]) + (self.texts(test) if task != 'sst2' else []))]
        seen = {*self.texts(self.train), *self.texts(dev)}
        rest = [o for o in rest if o not in seen]
        order = np.random.default_rng(seed).permutation(len(rest))
        rest = [rest[i] for i in order]
        self.pool, self.others = rest[:pool], rest[pool:]
        self.checks = {'other texts': self.others[:check], 'dev': self.texts(dev)}

    def texts(self, frame):
        cols = [frame[c].astype(str) for c in self.cols]
        return list(cols[0]) if len(cols) == 1 else list(zip(*cols))

def tuned(data, task, model, seed, epochs, place):
    "Fine-tune a model with the command, unless its folder is there."
    out = place/f'{task}-{seed}'
    if not out.exists():
        place.mkdir(parents=True, exist_ok=True)
        for k in ('train', 'dev'): getattr(data, k).to_csv(place/f'{task}-{seed}-{k}.csv', index=False)
        command = ['rank-bert-finetune', '--data', place/f'{task}-{seed}-train.csv', '--valid',
            place/f'{task}-{seed}-dev.csv', '--text-cols', ','.join(data.cols), '--label-col', 'label', '--model', model,
            '--pretrained', '--epochs', epochs, '--seed', seed, '--out', out, '--quiet']
        subprocess.run([*map(str, command)], check=True)
    return AutoModelForSequenceClassification.from_pretrained(out).eval()

def changed_of(dense, small, texts):
    batches = batches_of_texts(dense, texts)
    (a, kind), (b, _) = outputs_on(dense, batches), outputs_on(small, batches)
    return int(changed_answers(a, b, kind).sum()), len(texts)

def interval(k, n):
    "Exact two-sided 95 % interval of a share."
    o = stats.binomtest(k, n).proportion_ci()
    return o.low, o.high

def append(file, row):
    new = not file.exists()
    with open(file, 'a', newline='') as f:
        w = csv.DictWriter(f, list(row))
        if new: w.writeheader()
        w.writerow(row)

def shared(parts):
    "Let what stands behind the choice of ranks be computed once for each budget, and note the seconds."
    made, used = {}, []
    def once(p):
        def f(step, *args, **kwargs):
            if (key := step.config.budget) not in made:
                start = time.time()
                made[key] = p.f(step, *args, **kwargs), time.time() - start
            else: used.append(made[key][1])
            return made[key][0]
        return f
    return [p if p.shrinks else replace(p, f=once(p)) for p in parts], made, used

def guarantees(dense, data, task, seed, recipe, shares, file, n_samples):
    "Search a budget for each guarantee, and count what changes on rows that took no part."
    about = dict(task=task, seed=seed, recipe=recipe, n_samples=n_samples)
    done = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=[*about, 'max_changed'])
    have = {*zip(done.task, done.seed, done.recipe, done.n_samples, done.max_changed)}
    if not (todo := [o for o in shares if (*about.values(), o) not in have]): return
    config = CompressConfig(max_changed=todo[0], n_samples=n_samples, seed=seed)
    parts, made, used = shared(parse(recipe))
    job, start = Job(dense, data.pool, config, progress=False), time.time()
    parts[0].apply(Step(job, Result(dense), replace(config, max_changed=None, budget=1.))) # all guarantees share the decomposition
    first = time.time() - start
    for share in todo:
        row, start = about | dict(max_changed=share), time.time()
        used.clear()
        try: small = search(job, parts, replace(config, max_changed=share)).model
        except ValueError as e:
            print(task, seed, share, e, flush=True)
            small = None
        # what it takes alone: the decomposition, and the budgets that an earlier guarantee had tried
        row |= dict(seconds=round(first + time.time() - start + sum(used)), once=None, budget=None, aside=len(job.aside),
            changed=None, upper=None, tried=None)
        for k in data.checks: row |= {f'{k}: {o}': None for o in ('changed', 'texts', 'low', 'high')}
        if small is not None:
            p = small.compression.guarantee
            row |= dict(once=round(first + made[p.budget][1]), budget=p.budget, changed=p.changed, upper=round(p.upper, 5),
                tried=' '.join(f'{o.budget:g}:{o.changed}' for o in p.tried))
            for k, texts in data.checks.items():
                c, n = changed_of(dense, small, texts)
                row |= dict(zip((f'{k}: {o}' for o in ('changed', 'texts', 'low', 'high')), (c, n, *interval(c, n))))
        append(file, row)
        print(row, flush=True)

def level(dense, data, recipe, file, n_samples, phrases, n=2000, repeats=200, budgets=(.9, .8, .7, .6, .5, .4, .3, .2)):
    "Repeat the choice with random texts set aside, the answers of all budgets computed once."
    texts, moved = data.others[:phrases], {}
    batches = batches_of_texts(dense, texts)
    before, kind = outputs_on(dense, batches)
    parts, config = parse(recipe), CompressConfig(max_changed=.01, n_samples=n_samples, seed=0)
    job = Job(dense, data.pool, replace(config, max_changed=None), progress=False)
    for b in budgets: # they share the calibration and the decomposition
        small = run(job, parts, replace(job.config, budget=b)).model
        moved[b] = changed_answers(before, outputs_on(small, batches)[0], kind)
        print(b, moved[b].mean(), flush=True)
    rows, rng = [], np.random.default_rng(0)
    for share in (.01, .02, .05):
        for repeat in range(repeats):
            at, chosen = rng.choice(len(texts), n, replace=False), None
            for b in budgets:
                if clopper_pearson(moved[b][at].sum(), n) > share: break
                chosen = b
            others = np.setdiff1d(np.arange(len(texts)), at)
            rows.append(dict(max_changed=share, repeat=repeat, budget=chosen,
                real=moved[chosen].mean() if chosen else 0., others=moved[chosen][others].mean() if chosen else 0.))
    pd.DataFrame(rows).to_csv(file, index=False)

@call_parse
def main(
    model:str, # Folder or name of a pretrained encoder
    source:str, # Folder with the GLUE tasks
    tasks:str='sst2,mrpc,rte', # With commas
    seeds:str='0', # With commas
    shares:str='0.01,0.02,0.05', # Guarantees, with commas
    recipe:str='kfac+refit',
    epochs:int=3, # Of the fine-tuning
    n_samples:int=1024, # Texts to fit to
    phrases:int=16_000, # For the level
    place:str='runs/guarantee', # Where the fine-tuned models are
    out:str='experiments/guarantee.csv',
    level_out:str='experiments/guarantee_level.csv',
    level_only:bool=False, # Measure the level instead
):
    "Measure what guarantees give."
    torch.set_num_threads(1)
    for seed in map(int, seeds.split(',')):
        for task in tasks.split(','):
            data = Data(task, source, seed)
            dense = tuned(data, task, model, seed, epochs, Path(place))
            if level_only: level(dense, data, recipe, Path(level_out), n_samples, phrases)
            else: guarantees(dense, data, task, seed, recipe, [*map(float, shares.split(','))], Path(out), n_samples)
