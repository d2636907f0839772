"""How often a gate lets through a model that stands exactly at its limit: coverage of the bounds of `check`, and what they cost.

    python experiments/gate.py --out experiments/gate.csv            4,000 draws a cell, a quarter of an hour on one core
    python experiments/gate.py --draws 200 --seed 7 --out trial.csv   a look

For each score we make populations whose real change is known, draw 50, 200 or 1,000 texts (or queries) from them, and set the limit to the real
change. The small model loses 1, 5 or 30 % of the texts (or of the positives, for `f1 of a class of 5 %`). `passed` is how often the verdict would be
"holds" although the change is not below the limit, and `refused` how often it would be "broken" although it is not above it: both should be
at most .05. `above` is the median distance from the real change to the upper bound, and `width` that
from the lower to the upper one, of 400 draws.

The methods were fixed before these populations were drawn: exact binomial for changed answers, betting (`tested_mean`) for means of
losses of a text or query, resampling beside one text of the worst kind (`tested_score`) for F1, Matthews
and Spearman. One text, two and three were tried on other populations and seeds; one was enough, and its bounds are the shortest. Spearman takes
long: there we resample 200 times instead of 1,000, and draw 1,000 times of 1,000 texts."""
import csv, time
from functools import cache
from pathlib import Path
import numpy as np
from fastcore.script import call_parse
from rank_bert.see.bounds import Tested, mean_p, tested_mean
from rank_bert.see.drops import SCORES, class_counts, class_extremes, spearman_extremes, tested_score

RANKS = np.arange(1, 201) # of the one relevant document of a query; beyond 100 nobody finds it
GAINS = {'ndcg@10': np.where(RANKS <= 10, 1/np.log2(RANKS + 1), 0), 'mrr@10': np.where(RANKS <= 10, 1/RANKS, 0),
    'recall@10': (RANKS <= 10)*1., 'recall@100': (RANKS <= 100)*1.}

def ranks(n, lost, rng):
    "Draw where the dense and the small model find a document: the small one often nearby, and sometimes nowhere."
    dense = np.minimum(rng.geometric(.3, n), 199)
    near = np.clip(dense + rng.choice([-1, 0, 0, 0, 0, 0, 0, 0, 0, 1], n), 1, 199)
    return dense, np.where(rng.random(n) < lost, 200, near)

def labels(n, lost, rng, positive, noise, of_positives, gained=.0):
    "Draw labels of two classes, and two answers: the small model loses some of those, or of all texts, that the dense one has right."
    y = (rng.random(n) < positive)*1
    a = np.where(rng.random(n) < noise, 1 - y, y)
    loses = (rng.random(n) < lost) & (a == y)
    if of_positives: loses &= y == 1
    gains = (rng.random(n) < gained) & (a != y)
    return y, a, np.where(loses | gains, 1 - a, a)

def numbers(n, lost, rng):
    "Draw labels of a regression, and predictions: the small model answers some texts at random."
    y = rng.normal(size=n)
    a = y + .5*rng.normal(size=n)
    b = np.where(rng.random(n) < lost, rng.normal(size=n)*1.1, a + .05*rng.normal(size=n))
    return y, a, b

def one_hot(y, a, b): return class_counts(*(np.eye(2)[o] for o in (y, a, b)))

def changed(n, lost, rng): return (rng.random(n) < lost)*1.

def accuracy(n, lost, rng):
    y, a, b = labels(n, lost, rng, .5, .1, False, .05)
    return (a == y)*1. - (b == y)

def gain(name):
    def draw(n, lost, rng):
        a, b = ranks(n, lost, rng)
        return GAINS[name][a - 1] - GAINS[name][b - 1]
    return draw

def classes(positive, of_positives):
    return lambda n, lost, rng: one_hot(*labels(n, lost, rng, positive, .02 if of_positives else .1, of_positives))

# name -> how to draw, and least loss of a text, or the score and its extremes
CELLS = dict(changed=(changed, 0), accuracy=(accuracy, -1)) | {k: (gain(k), -1) for k in GAINS} | {
    'f1': (classes(.4, False), 'f1'), 'f1 of a class of 5 %': (classes(.05, True), 'f1'), 'f1_macro': (classes(.4, False), 'f1_macro'),
    'f1_macro with a class of 5 %': (classes(.05, True), 'f1_macro'), 'matthews_correlation': (classes(.4, False), 'matthews_correlation'),
    'matthews_correlation with a class of 5 %': (classes(.05, True), 'matthews_correlation'),
    'spearman': (lambda n, lost, rng: np.stack(numbers(n, lost, rng), 1), 'spearman')}

@cache
def real_change(name, lost):
    "Compute the change of the whole population, from four million texts."
    draw, how = CELLS[name]
    rng = np.random.default_rng(12345)
    parts = [draw(400_000, lost, rng) for _ in range(10)]
    if not isinstance(how, str): return float(np.mean([o.mean() for o in parts]))
    if how == 'spearman': return float(np.mean([SCORES[how](np.ones((1, len(o))), o)[0] for o in parts]))
    return float(SCORES[how](np.ones((1, 1)), sum(o.sum(0) for o in parts)[None])[0])

def tested(x, how, limit, seed, bounds):
    "Test a limit on what was drawn; the bounds of a mean take as long as forty tests."
    if how == 'spearman': return tested_score(x, SCORES[how], spearman_extremes, limit, seed=seed, draws=200)
    if isinstance(how, str): return tested_score(x, SCORES[how], class_extremes, limit, seed=seed)
    if bounds: return tested_mean(x, limit, least=how)
    x, most = (x - how)/(1 - how), (limit - how)/(1 - how)
    return Tested(np.nan, np.nan, mean_p(x, most), mean_p(1 - x, 1 - most))

def cell(name, n, lost, draws, seed):
    draw, how = CELLS[name]
    limit = lost if name == 'changed' else real_change(name, lost)
    rng = np.random.default_rng([seed, n, round(1000*lost), [*CELLS].index(name)])
    start = time.process_time()
    rows = [tested(draw(n, lost, rng), how, limit, i, i < 400) for i in range(draws)]
    upper, lower = np.array([o.upper for o in rows[:400]]), np.array([o.lower for o in rows[:400]])
    return dict(score=name, texts=n, lost=lost, draws=draws, change=round(limit, 6), passed=float(np.mean([o.holds <= .05 for o in rows])),
        refused=float(np.mean([o.broken <= .05 for o in rows])), above=round(float(np.median(upper)) - limit, 4),
        width=round(float(np.median(upper - lower)), 4), seconds=round(time.process_time() - start))

@call_parse
def main(
    out:str='experiments/gate.csv', # File to write; cells that are in it are not drawn again
    draws:int=4000, # Of each cell
    seed:int=2026, # Of the populations
    scores:str='', # Names in `CELLS`, with commas (default: all)
):
    "Draw all cells, the quick ones first."
    file = Path(out)
    done = {(o['score'], int(o['texts']), float(o['lost'])) for o in csv.DictReader(file.open())} if file.exists() else set()
    for n in (50, 200, 1000):
        for name in (scores.split(',') if scores else CELLS):
            for lost in (.01, .05, .3):
                if (name, n, lost) in done: continue
                row = cell(name, n, lost, draws//4 if name == 'spearman' and n == 1000 else draws, seed)
                new = not file.exists()
                with file.open('a', newline='') as f:
                    w = csv.DictWriter(f, list(row))
                    if new: w.writeheader()
                    w.writerow(row)
                print(row, flush=True)
