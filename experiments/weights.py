"""Write the weights of exported classifiers in fewer bits, and measure megabytes, milliseconds and divergence.

    python weights.py FOLDER ... --texts FILE --csv weights.csv    # FOLDER: in fp32, of `rank-bert-export --to web`

`skip` says whether ONNX Runtime fuses a residual sum with the LayerNorm behind it (SkipLayerNormFusion).
"""
import argparse, gzip, shutil, tempfile
from functools import partial
from pathlib import Path
import numpy as np, onnx, onnxruntime as ort, pandas as pd, torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from browser import CHROMIUM, in_browser
from rank_bert.models.answers import KINDS
from rank_bert.ship.onnx import quantize_onnx
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.latency import in_turns, timed_call

def fp16_weights(source, file):
    "Keep matrices in float16, and cast them where they are used: half the file, sums in float32."
    m = onnx.load(source)
    for t in [t for t in m.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) == 2]:
        half = numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float16), f'{t.name}_half')
        m.graph.node.insert(0, helper.make_node('Cast', [half.name], [t.name], to=TensorProto.FLOAT))
        m.graph.initializer.remove(t)
        m.graph.initializer.append(half)
    onnx.save(m, file)

def four_bits(source, file, block=32):
    "Products in 4 bits by blocks, and the table of words too."
    config = DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=True, accuracy_level=4,
        op_types_to_quantize=('MatMul', 'Gather'), quant_axes=(('MatMul', 0), ('Gather', 1)))
    q = MatMulNBitsQuantizer(onnx.load(source), algo_config=config)
    q.process()
    q.model.save_model_to_file(str(file), False)

FORMS = dict(fp32=shutil.copyfile, int8=quantize_onnx, fp16=fp16_weights, int4=four_bits)

WEB = """const pages = {}, least = {}, text = 'a quiet and lovely film '.repeat(6)
for (const k of KEYS) { pages[k] = await opened(k); least[k] = Infinity }
for (let i = 0; i < 40; i++) for (const k of KEYS) {
  await pages[k].outputs(text)
  least[k] = Math.min(least[k], pages[k].times.at(-1))
}
return least"""

def measure(f, texts, place):
    "One row for each form of a model, with that fusion and without it; all of them take turns."
    p = Predictor(f, threads=1)
    m, kind, want = p.settings, KINDS[p.kind], torch.as_tensor(p.outputs(texts))
    feed, runs, folders, rows = {k: np.ones((1, 32), np.int64) for k in m['inputs']}, {}, {}, {}
    for form, skip in [(form, skip) for form in FORMS for skip in (True, False)]:
        key = f'{form}-{skip}'
        folders[key] = new = place/key
        shutil.copytree(f, new)
        FORMS[form](f/m['model'], new/m['model'])
        page, known = (f/'index.html').read_text(), "if (m.precision == 'int8') options"
        assert known in page
        (new/'index.html').write_text(page.replace(known, f'if ({int(not skip)}) options'))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(str(new/m['model']), options, ['CPUExecutionProvider'],
            disabled_optimizers=[] if skip else ['SkipLayerNormFusion'])
        p._run_engine = lambda x: session.run([m['output']], x)[0]
        got, data = torch.as_tensor(p.outputs(texts, bs=1)), (new/m['model']).read_bytes()
        runs[key] = partial(timed_call, partial(session.run, [m['output']], feed))
        rows[key] = dict(model=f.name, form=form, skip=skip, mb=len(data)/1e6, mb_gzip=len(gzip.compress(data))/1e6,
            divergence=kind.divergence(want.double(), got.double()).mean().item(),
            changed=(want.argmax(1) != got.argmax(1)).double().mean().item())
    for k, t in in_turns(runs, repeats=100, warmup=3).items(): rows[k]['ms'] = 1e3*min(t)
    if CHROMIUM:
        for k, t in in_browser(WEB.replace('KEYS', str(list(folders))), folders).items(): rows[k]['ms_wasm'] = t
    return [*rows.values()]

def main():
    args = argparse.ArgumentParser()
    args.add_argument('folders', nargs='+')
    args.add_argument('--texts')
    args.add_argument('--csv')
    args, rows = args.parse_args(), []
    texts = Path(args.texts).read_text().splitlines()[:400]
    for f in map(Path, args.folders):
        with tempfile.TemporaryDirectory() as d: rows += measure(f, texts, Path(d))
        print(pd.DataFrame(rows).round(4).to_string(), flush=True)
        if args.csv: pd.DataFrame(rows).to_csv(args.csv, index=False, float_format='%.4g')

if __name__ == '__main__': main()
