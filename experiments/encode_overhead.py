"""What `rank-bert-encode` costs beside a bare loop that tokenises and runs the same batches: CPU seconds, in turns, on one thread.

    python experiments/encode_overhead.py EXPORT corpus.jsonl
    python experiments/encode_overhead.py EXPORT million.jsonl --turns 1 --alone

EXPORT is an exported sentence encoder, a small one, and the corpus has an id and a text a line. Each turn is a process of its own, whose clock leaves out what is
imported and the loading of the model. `ours` and `bare` go from the file to the vectors: the loop holds all texts, ours checks each row, puts it down until its turn comes, and
notes which documents they are of. Both must give the same bits. `alone` leaves out the loop, for the memory of a large file; `imported_mb` is the memory before a text was read."""
import json, os, platform, resource, subprocess, sys, tempfile, time
from pathlib import Path
import numpy as np
from embeddings import add_row
from fastcore.script import call_parse
import rank_bert.commands.encode as encode
import rank_bert.data.tables, rank_bert.ship.space, tqdm.auto # outside of the clock
from rank_bert.ship.runtime import Predictor, _batches, _input_arrays

def bare(export, corpus, out):
    "Tokenise and run the batches of the command, and nothing else."
    p, start = Predictor(export, 1), time.process_time()
    texts = [json.loads(o)['text'] for o in corpus.open(encoding='utf-8')]
    res = np.empty((len(texts), p.size), np.float32)
    for begin in range(0, len(texts), encode.PIECE):
        some = texts[begin:begin + encode.PIECE]
        coded = [o for i in range(0, len(some), 64) for o in p.tokenizer.encode_batch(some[i:i + 64])]
        rows = [np.array([o.ids, o.attention_mask, o.type_ids], np.int32) for o in coded]
        for b in _batches([o.shape[1] for o in rows], 32, encode.TOKENS):
            res[[begin + i for i in b]] = p._run_engine(_input_arrays([rows[i] for i in b], p.settings, p.step))
    np.save(out, res)
    return time.process_time() - start

def ours(export, corpus, out):
    "Run the command; its clock stands still while the model is loaded."
    opened, loading = encode.open_predictor, []
    def timed(*args):
        before = time.process_time()
        p = opened(*args)
        loading.append(time.process_time() - before)
        return p
    encode.open_predictor, start = timed, time.process_time()
    encode.encode(export, data=str(corpus), out=str(out), threads=1, overwrite=True)
    return time.process_time() - start - loading[0]

def peak_mb(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1e3

@call_parse
def main(
    export:Path, # Folder that rank-bert-export wrote
    corpus:Path, # JSON lines with `text`
    turns:int=2, # Runs of each
    out:Path=Path('experiments/encode_overhead.csv'), # File to add a row to
    alone:bool=False, # Leave out the bare loop
    only:str='', # Of this process: bare or ours
    place:Path=None, # Of this process: where vectors go
):
    "Compare both."
    if only:
        before = peak_mb()
        print(json.dumps([dict(bare=bare, ours=ours)[only](export, corpus, place), peak_mb(), before]))
        return
    took = dict(ours=[]) if alone else dict(bare=[], ours=[])
    with tempfile.TemporaryDirectory() as d:
        for _ in range(turns):
            for k, v in took.items():
                line = [sys.executable, __file__, str(export), str(corpus), '--only', k, '--place', f'{d}/{k}.npy']
                v.append(json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()[-1]))
        ours_, bare_ = (np.load(f'{d}/{k}.npy', mmap_mode='r') if k in took else None for k in ('ours', 'bare'))
        n, same = len(ours_), '' if alone else np.array_equal(ours_, bare_)
    seconds = {k: float(np.median([o[0] for o in v])) for k, v in took.items()}
    both = ['', round(seconds['ours'], 2), ''] if alone else [round(seconds['bare'], 2), round(seconds['ours'], 2), round(seconds['ours']/seconds['bare'], 3)]
    add_row(out, dict(texts=n) | dict(zip(('bare', 'ours', 'ratio'), both)) | dict(peak_mb=round(max(o[1] for o in took['ours'])), imported_mb=round(max(o[2] for o in took['ours'])),
        same_bits=same, turns=turns, load=round(os.getloadavg()[0], 1), machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
