"""A small model with a dense one behind it on SST-2: share sent on, time, and how often a promise is broken.

    python experiments/cascade.py DENSE TEXTS --smalls 'SMALL ...' --behind 'EXPORT ...'

DENSE is the folder of the dense model in PyTorch, whose answers are the truth, and TEXTS a file of sentences, one a line, that no model has learned from. `--smalls` and `--behind` are
exported folders. Each is asked once, one text at a time, by one thread, and what it says is kept beside the file of results. Then, for each pair and each promise, 200 splits of the texts (seeds 0 to
199): a quarter chooses, a quarter tests, and on the other half we count the answers that change. `broken` is the number of splits in which more change there than were promised; `none` that of
splits without a promise. `ms` is the CPU time of a text in the cascade, `alone` that of the small model, `dense_ms` that
of the dense one behind it, all means over texts."""
import time
from pathlib import Path
import numpy as np
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.models.kinds import KINDS
from rank_bert.ship.cascade import Seen, choose_share
from rank_bert.ship.check import opened
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.guarantee import changed_answers

def asked(place, texts, cache):
    "Ask a model one text at a time, once: outputs, and CPU seconds of each text."
    file = cache/f'{Path(place).name}.npz'
    if file.exists(): return (o := np.load(file))['z'], o['seconds']
    place = Path(place)
    p = Predictor(place, 1) if (place/'deploy.json').is_file() else opened(str(place))[0]
    z, seconds = [], []
    for o in [texts[0], *texts]:
        start = time.process_time()
        z.append(p.outputs([o], bs=1)[0])
        seconds.append(time.process_time() - start)
    np.savez(file, z=np.array(z[1:]), seconds=seconds[1:])
    return np.array(z[1:]), np.array(seconds[1:])

@call_parse
def main(
    dense:Path, # Folder of the dense model
    texts:Path, # File of sentences
    smalls:str='', # Exported folders of small models, and of dense ones in 8 bits
    behind:str='', # Exported folders of dense models
    promises:str='.005 .01 .02',
    splits:int=200,
    out:Path='experiments/cascade.csv', # File to add rows to
):
    "Measure cascades of all pairs."
    lines = texts.read_text(encoding='utf-8').splitlines()
    cache = out.with_suffix('')
    cache.mkdir(exist_ok=True)
    kind = KINDS['single_label_classification']
    truth = asked(dense, lines, cache)[0]
    for back in behind.split():
        z, slow = asked(back, lines, cache)
        wrong = changed_answers(truth, z, kind.name).astype(bool)
        for small in smalls.split():
            z, quick = asked(small, lines, cache)
            margins, changed = kind.margin(z), changed_answers(truth, z, kind.name).astype(bool)
            for promise in map(float, promises.split()):
                shares, broken, none, seen = [], 0, 0, []
                for seed in range(splits):
                    order = np.random.default_rng(seed).permutation(len(lines))
                    n = len(lines)//4
                    fit, aside, rest = ((margins[o], changed[o], wrong[o]) for o in (order[:n], order[n:2*n], order[2*n:]))
                    try: t = choose_share(Seen(*fit), Seen(*aside), promise).model
                    except ValueError:
                        none += 1
                        continue
                    lost = np.where(rest[0] < t, rest[2], rest[1])
                    seen.append(lost.mean())
                    shares.append((rest[0] < t).mean())
                    broken += lost.mean() > promise
                share = np.mean(shares) if shares else np.nan
                add_row(out, dict(small=Path(small).name, behind=Path(back).name, promise=promise, texts=len(lines), splits=splits, none=none, broken=int(broken),
                    share=round(share, 4), changed=round(np.mean(seen), 5) if seen else None, alone_changed=round(changed.mean(), 5), behind_changed=round(wrong.mean(), 5),
                    ms=round(1000*(quick.mean() + share*slow.mean()), 3), alone=round(1000*quick.mean(), 3), dense_ms=round(1000*slow.mean(), 3)))
