"""What a model that any BERT loader opens would cost beside the default recipe, at the same milliseconds.

    python plain.py FOLDER --data ../shared/data/glue --csv plain.csv    # FOLDER: a classifier fine-tuned on SST-2

A plain model has whole heads, no factors, and as many neurons in each layer. `neurons+refit` may choose how many each layer
keeps, and so bears more than a plain one could: a bound from above. All models are exported to ONNX in fp32, and take turns.
"""
import argparse, tempfile
from functools import partial
from pathlib import Path
import numpy as np, pandas as pd, torch
from rank_bert.data.glue import load_glue
from rank_bert.models.answers import KINDS
from rank_bert.models.opener import open_model
from rank_bert.ship.export import export
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.compress import compress
from rank_bert.shrink.latency import in_turns, timed_call

KEPT = {'neurons+kfac+refit': (.7, .5, .3, .2), 'neurons+refit': (.8, .7, .6, .5, .4)}

def main():
    args = argparse.ArgumentParser()
    args.add_argument('folder')
    args.add_argument('--data')
    args.add_argument('--csv')
    args = args.parse_args()
    torch.set_num_threads(1)
    sst2, (model, tok, _) = load_glue('sst2', args.data), open_model(args.folder)
    model.tokenizer = tok
    texts, rows, runs = sst2['train']['sentence'][:1024], {}, {}
    held, y = sst2['validation']['sentence'], np.array(sst2['validation']['label'])
    with tempfile.TemporaryDirectory() as d:
        def add(recipe, kept, m):
            out = Path(d)/f'{recipe}-{kept}'
            export(m, tok, out, to='onnx', precision='fp32', max_length=64)
            p = Predictor(out, threads=1)
            z = torch.as_tensor(p.outputs(held))
            far = KINDS[p.kind].divergence(rows['dense', 1.]['z'] if rows else z, z).mean().item()
            rows[recipe, kept] = dict(recipe=recipe, kept=kept, accuracy=(z.argmax(1).numpy() == y).mean(), divergence=far, z=z)
            feed = {k: np.ones((1, 32), np.int64) for k in p.settings['inputs']}
            runs[recipe, kept] = partial(timed_call, partial(p._run_engine, feed))
        add('dense', 1., model)
        for recipe, shares in KEPT.items():
            for kept in shares: add(recipe, kept, compress(model, kept, texts, recipe, progress=False))
        for k, t in in_turns(runs, repeats=60, warmup=3).items(): rows[k]['ms'] = 1e3*min(t)
    table = pd.DataFrame(rows.values()).drop(columns='z')
    table['times as fast'] = table.ms[0]/table.ms
    print(table.round(4).to_string())
    if args.csv: table.to_csv(args.csv, index=False, float_format='%.4g')

if __name__ == '__main__': main()
