"""What the fusions of an exported graph and ranks that suit the kernels gain, at BERT-base's shape, engine by engine.

    python experiments/fusions.py
    python experiments/fusions.py --fixed --sizes '1x8 1x16 1x32 1x64' --out experiments/fixed_lengths.csv

The model has random weights and keeps a fifth of those of its linear layers at uniform ranks. The rows are: the graph as
the exporter writes it, with one fusion of `rank_bert.ship.fuse` at a time, and with all of them. Then, with all of them,
ranks that are multiples of 16 and 32, which rounds them down, each beside a model of any ranks that keeps as many weights.
With `--fixed` there are two rows: OpenVINO's graph for any shape, and one for one text of just so many tokens, as from
`Predictor(folder, lengths=...)`. All rows of an engine take turns. `nbs/ship/fuse.ipynb` shows the tables."""
import csv, tempfile
from functools import partial
from pathlib import Path
import numpy as np, torch
from fastcore.script import call_parse
from rank_bert.commands.bench import random_models
from rank_bert.ship.engines import ENGINES
from rank_bert.ship.export import why_not, write_graph
from rank_bert.ship.fuse import FUSIONS
from rank_bert.ship.onnx import TextGraph, to_onnx
from rank_bert.models.sizes import encoder_params
from rank_bert.shrink.latency import in_turns, timed_call
from rank_bert.settings import batch_shape

PAIRS = [('onnx', 'fp32'), ('onnx', 'int8'), ('openvino', 'fp32'), ('openvino', 'bf16')]
FIXED = 'one text of this length'


def milliseconds(f):
    "Take the median time of a call, over as many as fit into 0.2 seconds, after one to warm up."
    f() # others have had the cache since the last turn
    took = []
    while sum(took) < .2: took.append(timed_call(f))
    return 1e3*float(np.median(took))

def write_graphs(model, budget, place, fixed=False):
    "Write the ONNX graph of each row; return name -> (file, share of the linear weights kept)."
    found = {}
    def write(name, budget, multiple_of=1, fusions=None):
        torch.manual_seed(0)
        dense, small = random_models(model, [budget], multiple_of).values()
        file, kept = place/f'{len(found)}.onnx', encoder_params(small)['linear']/encoder_params(dense)['linear']
        to_onnx(TextGraph(small), file, fusions)
        found[name] = file, kept
        return kept
    if fixed:
        write('any shape', budget, 32)
        return found | {FIXED: found['any shape']}
    write('as exported', budget, fusions=())
    for k in FUSIONS: write(k, budget, fusions=(k,))
    write('all fusions', budget)
    for n in (16, 32): write(f'any ranks, as many weights as {n}', write(f'ranks of {n}', budget, n))
    return found


@call_parse
def main(
    model:str='base', # Size as for `bert_config`, or '6-layer'
    budget:float=.2, # Fraction of the linear weights to keep
    sizes:str='1x32 8x128 32x64', # Texts x tokens
    repeats:int=5, # Turns
    threads:int=1, # Threads of each engine
    fixed:bool=False, # Compare graphs for one length with those for any shape instead?
    out:str='experiments/fusions.csv', # File to write
):
    torch.set_num_threads(threads)
    rows = []
    with tempfile.TemporaryDirectory() as d:
        files = write_graphs(model, budget, Path(d), fixed)
        lengths = [batch_shape(o)[1] for o in sizes.split()]
        pairs = [('openvino', p) for p in ('fp32', 'bf16', 'int8')] if fixed else PAIRS
        for to, precision in (o for o in pairs if not why_not(*o)):
            runs = {}
            for name, (source, _) in files.items():
                file = Path(d)/f'{source.stem}-{to}-{precision}'/ENGINES[to].graph
                if not file.exists(): write_graph(source, file, to, precision)
                runs[name] = ENGINES[to].load(file, 'logits', precision, threads, *([lengths] if name == FIXED else []))
            for size in sizes.split():
                ids = np.random.default_rng(0).integers(5, 30000, batch_shape(size))
                x = dict(input_ids=ids, attention_mask=np.ones_like(ids), token_type_ids=np.zeros_like(ids))
                times = in_turns({k: partial(milliseconds, partial(f, x)) for k, f in runs.items()}, repeats, warmup=1)
                for k, t in times.items():
                    rows.append(dict(engine=to, precision=precision, input=size, graph=k, kept=round(files[k][1], 4),
                        median=round(float(np.median(t)), 3), least=round(min(t), 3), most=round(max(t), 3)))
                    print(rows[-1], flush=True)
    with open(out, 'w', newline='') as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)
