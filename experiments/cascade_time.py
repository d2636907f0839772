"""The time of a cascade, end to end: saved folders, opened again, asked in turns in one run.

    python experiments/cascade_time.py DENSE TEXTS 'SMALL ...' INT8 FP32

DENSE is the dense model in PyTorch, TEXTS a file of sentences that no model has learned from, and the others are exported folders: small ones, and the dense model in 8 bits and in float32. All texts but
the last `n` make two cascades with float32 behind, of the small ones and of 8 bits, with a promise; each is saved, and opened by `Predictor` with one thread. The last `n`, in random order as all are, are
then asked one at a time, in `repeats` rounds: the models take turns, the first another each time, of `turn` texts. With one text a turn, each model finds the caches of the processor full of the others'
weights; with 25 it finds its own, as where it runs alone. A text's time is the median of its rounds; `wall` and `cpu` are mean, median and 95th percentile over the texts, in ms.
`changed` is the share of these texts whose answer is not that of DENSE, and `load` how many processes wanted to run in the last five minutes, this one among them: where that is more than the two cores, only `cpu` compares with other runs."""
import os, platform, tempfile, time
from pathlib import Path
import numpy as np
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.ship.cascade import cascade
from rank_bert.ship.check import opened
from rank_bert.ship.runtime import Predictor

def ask_once(p):
    "Let a predictor remember what it said of each text."
    known, own = {}, p.outputs
    def outputs(texts, *args, **kwargs):
        for o in texts:
            if o not in known: known[o] = own([o])[0]
        return np.array([known[o] for o in texts])
    p.outputs = outputs
    return p

def timed(p, text):
    "Ask once: wall and CPU milliseconds, and the answer."
    wall, cpu = time.perf_counter(), time.process_time()
    z = p.outputs([text])
    return 1e3*(time.perf_counter() - wall), 1e3*(time.process_time() - cpu), int(z.argmax())

@call_parse
def main(
    dense:Path, # Folder of the dense model
    texts:Path, # File of sentences
    smalls:str, # Exported folders of small models: the fastest that keeps the promise is taken
    int8:Path, # Exported folder of the dense model in 8 bits
    fp32:Path, # Exported folder of the dense model in float32
    promise:float=.005, # Share of the answers that may change
    n:int=800, # Texts to time
    repeats:int=3, # Rounds
    seed:int=0, # Which texts
    out:Path=Path('experiments/cascade_time.csv'), # File to add rows to
):
    "Time two cascades, and the dense model in 8 bits and in float32."
    lines = texts.read_text(encoding='utf-8').splitlines()
    lines = [lines[i] for i in np.random.default_rng(seed).permutation(len(lines))]
    made_of, asked = lines[:-n], lines[-n:]
    truth, back = ask_once(opened(str(dense))[0]), Predictor(fp32, 1)
    pairs = dict(small=[Predictor(o, 1) for o in smalls.split()], int8=[Predictor(int8, 1)])
    with tempfile.TemporaryDirectory() as d:
        runs = {}
        for k, first in pairs.items():
            made = cascade(first, back, made_of, promise, truth=truth, progress=False)
            print(made, flush=True)
            made.save(f'{d}/{k}')
            p = Predictor(f'{d}/{k}', 1)
            runs[f"{p.settings['cascade']['small']}, {fp32.name} behind it"] = p
        runs |= {int8.name: pairs['int8'][0], fp32.name: back}
        times = {o: np.zeros((repeats, len(asked), len(runs), 2)) for o in (1, 25)}
        answers = np.zeros((len(asked), len(runs)), int)
        for turn, took in times.items():
            for r in range(repeats):
                for start in range(0, len(asked), turn):
                    for k in np.roll(range(len(runs)), start//turn + r):
                        for i in range(start, min(start + turn, len(asked))):
                            *took[r, i, k], answers[i, k] = timed([*runs.values()][k], asked[i])
        meant = truth.outputs(asked, bs=1).argmax(-1)
        shares = [p.predict_proba(asked, bs=1, who=True)[1] == 'dense' if hasattr(p, 'small') else np.zeros(len(asked)) for p in runs.values()]
    when = time.strftime('%H:%M')
    for turn, took in times.items():
        for k, (name, p) in enumerate(runs.items()):
            row = dict(when=when, load=round(os.getloadavg()[1], 1), turn=turn, run=name, made_of=len(made_of), promise=promise if hasattr(p, 'small') else '', texts=len(asked), repeats=repeats,
                share=round(float(np.mean(shares[k])), 4), changed=round(float((answers[:, k] != meant).mean()), 4))
            for j, clock in enumerate(('wall', 'cpu')):
                z = np.median(took, 0)[:, k, j]
                row |= {clock: round(z.mean(), 3), f'{clock}_median': round(np.median(z), 3), f'{clock}_p95': round(np.quantile(z, .95), 3)}
            add_row(out, row | dict(machine=f'{platform.machine()}, 1 thread, no VNNI', date=time.strftime('%Y-%m-%d')))
