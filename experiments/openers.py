"""Open exported folders with other programs, and compare their answers with those of a `Predictor`.

    python openers.py --classifier A --pair B --encoder C --encoder-openvino D --python PYTHON --node FOLDER --csv openers.csv

PYTHON has optimum-onnx, optimum-intel, sentence-transformers and fastembed, and no rank_bert. In FOLDER somebody ran
`npm install --ignore-scripts @huggingface/transformers onnxruntime-node`.
"""
import argparse, datetime, json, subprocess
from pathlib import Path
import numpy as np, pandas as pd
from rank_bert.ship.runtime import Predictor

TEXTS = ['a gripping, beautifully acted film', 'The company said on Monday that its profit rose.', 'Rain in Spain, naïve café.']
LONG = ['a long text that goes on '*100]
POOLED = """x = tokenizer(texts, padding=True, truncation=True, return_tensors='np')
h, m = np.asarray(model(**x).last_hidden_state), x['attention_mask'][..., None]
z = (h*m).sum(1)/m.sum(1)
answer = z/np.linalg.norm(z, axis=1, keepdims=True)"""
LOGITS = """x = tokenizer(texts, padding=True, truncation=True, return_tensors='np')
answer = model(**x).logits"""

# opener -> package whose version counts, folder, program that leaves an `answer` to `texts` by `folder`
PYTHON = {
    "SentenceTransformer(backend='onnx')": ('sentence-transformers', 'encoder', """
from sentence_transformers import SentenceTransformer
answer = SentenceTransformer(folder, backend='onnx').encode(texts)"""),
    "SentenceTransformer(backend='openvino')": ('sentence-transformers', 'encoder_openvino', """
from sentence_transformers import SentenceTransformer
answer = SentenceTransformer(folder, backend='openvino').encode(texts)"""),
    "SentenceTransformer(backend='openvino'), float32": ('sentence-transformers', 'encoder_openvino', """
from sentence_transformers import SentenceTransformer
exact = dict(ov_config=dict(INFERENCE_PRECISION_HINT='f32'))
answer = SentenceTransformer(folder, backend='openvino', model_kwargs=exact).encode(texts)"""),
    "CrossEncoder(backend='onnx')": ('sentence-transformers', 'pair', """
import torch
from sentence_transformers import CrossEncoder
answer = CrossEncoder(folder, backend='onnx').predict(texts, activation_fn=torch.nn.Identity())"""),
    'ORTModelForSequenceClassification': ('optimum-onnx', 'classifier', """
from optimum.onnxruntime import ORTModelForSequenceClassification
from transformers import AutoTokenizer
model, tokenizer = ORTModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
""" + LOGITS),
    'ORTModelForFeatureExtraction': ('optimum-onnx', 'encoder', """
from optimum.onnxruntime import ORTModelForFeatureExtraction
from transformers import AutoTokenizer
model, tokenizer = ORTModelForFeatureExtraction.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
""" + POOLED),
    'fastembed, custom model': ('fastembed', 'encoder', """
import json
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
size = json.load(open(f'{folder}/1_Pooling/config.json'))
TextEmbedding.add_custom_model('me/model', pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf='me/model'),
    dim=size.get('embedding_dimension') or size['word_embedding_dimension'], model_file='onnx/model.onnx')
answer = list(TextEmbedding('me/model', specific_model_path=folder).embed(texts))"""),
}
NODE = {
    'transformers.js, text-classification': ('@huggingface/transformers', 'classifier', """
const { env, pipeline } = await import('@huggingface/transformers')
env.localModelPath = path.dirname(folder) + '/'
const p = await pipeline('text-classification', path.basename(folder))
answer = []
for (const o of await p(texts, { top_k: null })) answer.push(p.model.config.id2label ? Object.entries(p.model.config.id2label)
  .sort((a, b) => a[0] - b[0]).map(([, k]) => Math.log(o.find(v => v.label == k).score)) : [])"""),
    'transformers.js, feature-extraction': ('@huggingface/transformers', 'encoder', """
const { env, pipeline } = await import('@huggingface/transformers')
env.localModelPath = path.dirname(folder) + '/'
const p = await pipeline('feature-extraction', path.basename(folder))
answer = (await p(texts, { pooling: 'mean', normalize: true })).tolist()"""),
    'onnxruntime-node and tokenizers.js': ('onnxruntime-node', 'encoder', """
const ort = await import('onnxruntime-node'), { Tokenizer } = await import('@huggingface/tokenizers')
const read = f => JSON.parse(fs.readFileSync(`${folder}/${f}`))
const tokenizer = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json')), m = read('deploy.json')
const session = await ort.InferenceSession.create(`${folder}/${m.model}`)
answer = []
for (const t of texts) {
  const e = tokenizer.encode(t, { return_token_type_ids: true }), x = { ...e, input_ids: e.ids }
  for (const k in x) if (x[k].length > m.max_length) x[k] = [...x[k].slice(0, m.max_length - 1), x[k].at(-1)]
  const tensor = k => new ort.Tensor('int64', BigInt64Array.from(x[k], BigInt), [1, x[k].length])
  answer.push([...(await session.run(Object.fromEntries(m.inputs.map(k => [k, tensor(k)])), [m.output]))[m.output].data])
}"""),
}

def run_python(code, package, python, **given):
    program = f"""import json, sys, importlib.metadata, numpy as np
folder, texts = json.load(sys.stdin)
{code}
print(json.dumps([importlib.metadata.version({package!r}), np.asarray(answer).tolist()]))"""
    return subprocess.run([python, '-W', 'ignore', '-c', program], **given)

def run_node(code, package, place, **given):
    program = f"""import fs from 'fs'
import path from 'path'
const [folder, texts] = JSON.parse(fs.readFileSync(0)), package_ = 'node_modules/{package}/package.json'
let answer
{code}
console.log(JSON.stringify([JSON.parse(fs.readFileSync(package_)).version, answer]))"""
    return subprocess.run(['node', '--input-type=module', '-e', program], cwd=place, **given)

def main():
    args = argparse.ArgumentParser()
    for o in ('classifier', 'pair', 'encoder', 'encoder-openvino', 'python', 'node', 'csv'): args.add_argument(f'--{o}')
    args, rows = args.parse_args(), []
    for table, run, place in ((PYTHON, run_python, args.python), (NODE, run_node, args.node)):
        for name, (package, kind, code) in table.items():
            if not place or not (folder := getattr(args, kind)): continue
            folder, p = str(Path(folder).resolve()), Predictor(folder)
            row = dict(opener=name, package=package, model=kind.split('_')[0], precision=p.settings['precision'])
            for what, some in dict(gap=TEXTS, gap_long=LONG).items():
                some = [*zip(some, some[::-1])] if kind == 'pair' else some
                done = run(code, package, place, input=json.dumps([folder, some]), capture_output=True, text=True)
                if done.returncode:
                    row[what], row['error'] = None, done.stderr.strip().splitlines()[-1][:200]
                    continue
                row['version'], got = json.loads(done.stdout.splitlines()[-1])
                want = p.outputs(some, bs=1)
                if 'text-classification' in name: want = np.log(p.predict_proba(some, bs=1))
                row[what] = float(abs(np.array(got) - want).max())
            rows.append(row | dict(date=f'{datetime.date.today():%Y-%m}'))
            print(rows[-1], flush=True)
    if args.csv: pd.DataFrame(rows).to_csv(args.csv, index=False, float_format='%.1e')

if __name__ == '__main__': main()
