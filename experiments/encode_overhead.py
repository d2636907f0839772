"""What `rank-bert-encode` costs beside a bare loop that tokenises and runs the same batches: CPU seconds, in turns, on one thread.

    python experiments/encode_overhead.py EXPORT corpus.jsonl

EXPORT is an exported sentence encoder, a small one, and the corpus has a text a line. Each turn is a process of its own, and both clocks begin when the texts are read and the model is
loaded. Ours also writes the vectors, and notes which documents they are of. Both must give the same bits."""
import json, os, platform, resource, subprocess, sys, tempfile, time
from pathlib import Path
import numpy as np
from embeddings import add_row
from fastcore.script import call_parse
import rank_bert.commands.encode as encode
from rank_bert.ship.runtime import Predictor, _batches, _input_arrays

def bare(export, corpus, out):
    "Tokenise and run the batches of the command, and nothing else."
    p, texts = Predictor(export, 1), [json.loads(o)['text'] for o in corpus.open(encoding='utf-8')]
    start, res = time.process_time(), np.empty((len(texts), p.size), np.float32)
    for begin in range(0, len(texts), encode.PIECE):
        some = texts[begin:begin + encode.PIECE]
        coded = [o for i in range(0, len(some), 64) for o in p.tokenizer.encode_batch(some[i:i + 64])]
        rows = [np.array([o.ids, o.attention_mask, o.type_ids], np.int32) for o in coded]
        for b in _batches([o.shape[1] for o in rows], 32, encode.TOKENS):
            res[[begin + i for i in b]] = p._run_engine(_input_arrays([rows[i] for i in b], p.settings, p.step))
    np.save(out, res)
    return time.process_time() - start

def ours(export, corpus, out):
    "Run the command; its clock begins when the model is loaded."
    opened, began = encode.open_predictor, []
    def timed(*args):
        p = opened(*args)
        began.append(time.process_time())
        return p
    encode.open_predictor = timed
    encode.encode(export, data=str(corpus), out=str(out), threads=1, overwrite=True)
    return time.process_time() - began[0]

@call_parse
def main(
    export:Path, # Folder that rank-bert-export wrote
    corpus:Path, # JSON lines with `text`
    turns:int=2, # Runs of each
    out:Path=Path('experiments/encode_overhead.csv'), # File to add a row to
    only:str='', # Of this process: bare or ours
    place:Path=None, # Of this process: where vectors go
):
    "Compare both."
    if only:
        print(json.dumps([dict(bare=bare, ours=ours)[only](export, corpus, place), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1e3]))
        return
    took = dict(bare=[], ours=[])
    with tempfile.TemporaryDirectory() as d:
        for _ in range(turns):
            for k, v in took.items():
                line = [sys.executable, __file__, str(export), str(corpus), '--only', k, '--place', f'{d}/{k}.npy']
                v.append(json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()[-1]))
        same = np.array_equal(np.load(f'{d}/bare.npy'), np.load(f'{d}/ours.npy'))
        n = len(np.load(f'{d}/ours.npy', mmap_mode='r'))
    seconds = {k: float(np.median([o[0] for o in v])) for k, v in took.items()}
    add_row(out, dict(texts=n, bare=round(seconds['bare'], 2), ours=round(seconds['ours'], 2), ratio=round(seconds['ours']/seconds['bare'], 3), peak_mb=round(max(o[1] for o in took['ours'])),
        same_bits=same, turns=turns, load=round(os.getloadavg()[0], 1), machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
