"""What makes `heal` better? Each variant trains the same small all-MiniLM-L6-v2 for as long on one processor core.

    python experiments/heal_ideas.py ../shared/data

The folder, the texts and the scores are those of `embeddings.py`. A row that is in the file already is not measured
again. Short runs tell variants apart by how fast they learn. More texts than a run gets to see tell nothing, so for
those:

    python experiments/heal_ideas.py ../shared/data --budgets .3 --minutes 20 --variants 'four times as many texts'
"""
import csv
from pathlib import Path
import torch
from embeddings import Bench, add_row # its clock is that of a processor core
from fastcore.script import call_parse
from rank_bert.shrink.heal import heal

VARIANTS = {'as it is': {}, 'lr=1e-3': dict(lr=1e-3), 'lr=2.5e-4': dict(lr=2.5e-4), 'bs=8': dict(bs=8),
    'bs=32': dict(bs=32), 'embeddings only': dict(tokens=0), 'tokens=3': dict(tokens=3), 'four times as many texts': dict(all_texts=True)}


@call_parse
def main(
    folder:str, # Folder with glue and wikitext-2
    out:str='experiments/heal_ideas.csv', # File of the results, which grows
    budgets:str='.5 .3', # Fractions of the linear weights to keep
    variants:str='', # Names in `VARIANTS`, separated by commas; default: all
    recipe:str='neurons+kfac+refit', # What comes before healing
    minutes:float=3, # Minutes of a processor core
    seed:int=0, # Seed of the texts
    n_test:int=500, # Texts of each corpus to measure on
):
    torch.set_num_threads(1)
    out, left_out = Path(out), 'wikitext'
    settings = dict(pooling='mean', left_out=left_out, seed=seed, n_texts=2048, n_test=n_test, choice='random')
    done = list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []
    known = {(float(o['budget']), o['variant']) for o in done if float(o['minutes']) == minutes}
    bench = Bench(folder, per_corpus=4600, **settings)
    more = Bench(folder, per_corpus=10**6, **settings).pool
    for budget in map(float, budgets.split()):
        for variant, options in VARIANTS.items():
            if (budget, variant) in known or variant not in (variants.split(',') if variants else VARIANTS): continue
            options, small = dict(options), bench.model(budget, recipe)[0]
            texts = more if options.pop('all_texts', False) else bench.pool
            model = heal(bench.dense, small, texts, minutes, **options, seed=seed, progress=False)
            for corpus, scores in bench.scores(model):
                row = dict(budget=budget, variant=variant, minutes=minutes, texts=model.heal.texts, steps=model.heal.steps,
                    corpus=corpus, left_out=corpus == left_out) | {k: round(v, 4) for k, v in scores.items()}
                add_row(out, row)
