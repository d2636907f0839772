"""What a scale of its own for each token behind an activation brings to int8, and what it costs.

    python experiments/documents.py ../shared/data documents.csv --kept kept --model mpnet --searched 400 --budgets '1 .5 .3'
    python experiments/token_scales.py ../shared/data experiments/token_scales.csv --kept kept

For each model that documents.py left in `kept`, its graph in float32 becomes int8 as `quantize_onnx` does it, with one scale
for all tokens of a batch (`one`) and with one for each token (`token`). `divergence` is that of the embeddings of some abstracts of
Cranfield from the graph in float32 (1 - cosine, mean, and of the worst). `cpu_ms` is the processor time of an abstract in
batches of six, the least of three turns that the contenders take one after the other. nDCG@10 is over the documents
that documents.py searched (`searched`), in % of the dense model's, with a new index."""
import platform, tempfile, time
from pathlib import Path
from unittest.mock import patch
import numpy as np, onnx
from base_size import todo
from embeddings import add_row
from fastcore.script import call_parse
from search import cranfield
from tokenizers import Tokenizer
from rank_bert.ship.engines import ENGINES
from rank_bert.ship.export import lacking, this_processor
from rank_bert.ship.onnx import quantize_onnx

def batches_of(docs, folder, n=6):
    "Yield inputs of an engine."
    asked = {o.name for o in onnx.load(str(folder/'onnx'/'model.onnx')).graph.input}
    tok = Tokenizer.from_file(str(folder/'tokenizer.json'))
    tok.enable_truncation(256)
    tok.enable_padding()
    for i in range(0, len(docs), n):
        rows = tok.encode_batch(docs[i:i+n])
        yield {k: np.array([getattr(o, a) for o in rows]) for k, a in (('input_ids', 'ids'), ('attention_mask', 'attention_mask'), ('token_type_ids', 'type_ids')) if k in asked}

@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file, to which rows are added
    kept:str='kept', # Folder of documents.py
    n:int=48, # Abstracts
    turns:int=3, # Turns that count
):
    "Quantize in both ways, and compare."
    corpus = [*cranfield(Path(folder))[0].corpus.values()]
    docs = sorted(corpus[::len(corpus)//n][:n], key=len)
    for place in sorted(Path(kept).glob('*/*-onnx-fp32')):
        about = dict(encoder=place.parent.name, model=place.name.removesuffix('-onnx-fp32'))
        if not todo(Path(out), [about | dict(how=o) for o in ('fp32', 'one', 'token')]): continue
        source, batches = place/'onnx'/'model.onnx', [*batches_of(docs, place)]
        with tempfile.TemporaryDirectory() as d:
            quantize_onnx(source, f'{d}/token.onnx', bool(lacking('int8')))
            with patch('rank_bert.ship.onnx.scale_tokens'): quantize_onnx(source, f'{d}/one.onnx', bool(lacking('int8')))
            runs = {k: ENGINES['onnx'].load(f, 'sentence_embedding', p, 1) for k, f, p in
                (('fp32', source, 'fp32'), ('one', f'{d}/one.onnx', 'int8'), ('token', f'{d}/token.onnx', 'int8'))}
            found, took = {}, {k: [] for k in runs}
            for turn in range(turns + 1): # the first prepares
                for k, run in runs.items():
                    start = time.process_time()
                    found[k] = np.concatenate([run(x) for x in batches]).astype(float)
                    if turn: took[k].append(time.process_time() - start)
        unit = {k: z/np.linalg.norm(z, axis=1, keepdims=True) for k, z in found.items()}
        for k, z in unit.items():
            off = 1 - (z*unit['fp32']).sum(1)
            add_row(Path(out), about | dict(how=k, divergence=f'{off.mean():.5f}', worst=f'{off.max():.5f}', cpu_ms=round(1e3*min(took[k])/n, 1),
                texts=n, machine=f'{platform.machine()}, {this_processor()}', date=time.strftime('%Y-%m-%d')))
