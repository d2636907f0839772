"""A small model with a dense one behind it: share sent on, time, and how often a promise is broken.

    python experiments/cascade.py sst2 DENSE TEXTS --smalls 'SMALL ...' --behind EXPORT --score 'accuracy .870'

DENSE is the folder of the dense model in PyTorch, whose answers are the truth, and TEXTS a file that no model has learned from: sentences, one a line, or a .jsonl file of lists of
words, or of pairs if its name begins with `pairs`. `--smalls` are exported folders, and `--behind` that of the dense model. One thread asks each of them once, one text (of a reranker, one query with its candidates) at a time, in turns of 32
texts, and what they say is kept beside the file of results. Then, for each promise, 200 splits of the texts (seeds 0 to 199): of `parts` the first chooses, the second tests, and on the rest we count
the answers that change. `broken` is the number of splits in which more change there than were promised; `none` that of splits without a promise, which takes 598, 299 and 149 texts to test for .5,
1 and 2 %. `ms` is the CPU time of a text in the cascade, `p95` the 95th percentile, `alone` that of the small model, `dense_ms` that of the dense one behind it (`dense_p95`, too): all times are of one run and one text.

SST-2 is the model `sst2-0` of classifiers.py; MRPC and WNUT-17 are those of draw_texts.py, of three layers. They are compressed by the default recipe with texts or pairs that they were trained on (1,024 for
SST-2, 512 else), and exported for ONNX Runtime. Unseen are: of SST-2 the dev sentences and 4,000 phrases of the training file that no model was given, of MRPC the pairs of dev and test, of WNUT-17 dev and
test. A reranker's file has the pairs of a query one after the other; no reranker has been measured yet."""
import json, platform, time
from pathlib import Path
import numpy as np
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.models.kinds import KINDS
from rank_bert.ship.cascade import Seen, choose_share, in_units
from rank_bert.ship.check import opened
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.guarantee import changed_answers

def read_texts(file):
    "Sentences, pairs or lists of words, one a line."
    lines = file.read_text(encoding='utf-8').splitlines()
    if file.suffix != '.jsonl': return lines
    rows = [json.loads(o) for o in lines]
    return [tuple(o) if len(o) == 2 and file.name.startswith('pairs') else o for o in rows]

def open_one(place):
    "An exported folder with one thread, or a model in PyTorch."
    return Predictor(place, 1) if (place/'deploy.json').is_file() else opened(str(place))[0]

def ask_in_turns(places, units, kind, cache, turn=32):
    "Ask models one text at a time, in turns, once: name -> outputs of each text, and CPU seconds."
    files = {o: cache/f'{o.name}.npz' for o in places}
    models = {o: open_one(o) for o, f in files.items() if not f.exists()}
    found = {o: ([], []) for o in models}
    for start in range(0, len(units), turn):
        for place, p in models.items():
            z, seconds = found[place]
            p.outputs(units[start]) # the first of a turn takes longer
            for o in units[start:start + turn]:
                begin = time.process_time()
                z.append(p.outputs(o))
                seconds.append(time.process_time() - begin)
    for place, (z, seconds) in found.items():
        rows = [o[:, 0] if kind == 'ranking' else o[0] for o in z]
        out = np.full((len(rows), max(map(len, rows)), *rows[0].shape[1:]), KINDS[kind].fill)
        for row, o in zip(out, rows): row[:len(o)] = o
        np.savez(files[place], z=out, seconds=seconds)
    return {o.name: np.load(f) for o, f in files.items()}

@call_parse
def main(
    task:str, # Name for the rows
    dense:Path, # Folder of the dense model
    texts:Path, # File of texts
    smalls:str='', # Exported folders of small models, and of dense ones in 8 bits
    behind:Path=None, # Exported folder of the dense model
    score:str='', # Name and score of the dense model
    promises:str='.005 .01 .02',
    parts:str='.25 .25', # Shares of the texts that choose, and that test
    splits:int=200,
    first:int=None, # Use so many texts, or queries
    cache:Path=None, # Folder of what models said; default: beside the file of results
    out:Path=Path('experiments/cascade.csv'), # File to add rows to
):
    "Measure cascades of all pairs."
    cache = cache or out.with_suffix('')/task
    cache.mkdir(exist_ok=True, parents=True)
    kind = open_one(behind).kind
    units = in_units(kind, read_texts(texts))[:first]
    smalls = [Path(o) for o in smalls.split()]
    said = ask_in_turns([dense, behind, *smalls], units, kind, cache)
    truth, slow = said[dense.name]['z'], said[behind.name]['seconds']
    wrong = changed_answers(truth, said[behind.name]['z'], kind).astype(bool)
    n, (chosen, tested) = len(units), (int(len(units)*float(o)) for o in parts.split())
    for small in smalls:
        quick, margins = said[small.name]['seconds'], KINDS[kind].margin(said[small.name]['z'])
        changed = changed_answers(truth, said[small.name]['z'], kind).astype(bool)
        for promise in map(float, promises.split()):
            broken, none, seen = 0, 0, []
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(n)
                fit, aside, rest = np.split(order, [chosen, chosen + tested])
                try: t = choose_share(*(Seen(margins[o], changed[o], wrong[o]) for o in (fit, aside)), promise).model
                except ValueError:
                    none += 1
                    continue
                sent = margins[rest] < t
                lost = np.where(sent, wrong[rest], changed[rest])
                took = 1000*(quick[rest] + sent*slow[rest])
                seen.append((sent.mean(), lost.mean(), took.mean(), np.quantile(took, .95)))
                broken += lost.mean() > promise
            share, change, ms, p95 = np.mean(seen, 0) if seen else [np.nan]*4
            told = lambda x, digits: None if np.isnan(x) else round(float(x), digits)
            add_row(out, dict(task=task, score=score, small=small.name, behind=behind.name, promise=promise, texts=n, aside=tested, splits=splits, none=none, broken=int(broken),
                share=told(share, 4), changed=told(change, 5), alone_changed=round(changed.mean(), 5), behind_changed=round(wrong.mean(), 5), ms=told(ms, 3), p95=told(p95, 3),
                alone=round(1000*quick.mean(), 3), dense_ms=round(1000*slow.mean(), 3), dense_p95=round(1000*np.quantile(slow, .95), 3), machine=f'{platform.machine()}, 1 thread, no VNNI', date=time.strftime('%Y-%m-%d')))
