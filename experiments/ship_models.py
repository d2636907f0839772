"""What a fine-tuned classifier costs in service, dense and shrunk: score, file, memory, start-up and latency.

    rank-bert-finetune sst2 --model ... --seed 0 --out sst2-0
    python experiments/ship_models.py sst2-0 sst2 --source ../glue --out experiments/ship_models.csv

Each row is a process of its own (`ship_process.py`). We start it several times, in turns with the other rows, and take
the median time to its first answer. Then the processes answer one text after another, again in turns. The rows of the
same model that are in the file already are replaced. `nbs/results.ipynb` draws the table from the file."""
import json, os, subprocess, sys, tempfile, time
from pathlib import Path
import numpy as np, pandas as pd, torch
from fastcore.script import call_parse
from rank_bert.commands.compress import compress
from rank_bert.commands.rows import validation_items
from rank_bert.ship.export import export, why_not
from rank_bert.models.kinds import KINDS
from rank_bert.data.facts import GLUE_TASKS
from rank_bert.train.scores import score

KIND = 'single_label_classification'
ROWS = [('dense', 'torch', 'fp32'), ('dense', 'onnx', 'int8'), ('shrunk', 'onnx', 'fp32'),
        ('shrunk', 'openvino', 'bf16'), ('shrunk', 'onnx', 'int8'), ('shrunk, small embeddings', 'onnx', 'int8')]


class Process:
    """Answers from a folder, or is what a list of a Python, a script and its arguments starts; `started` is the time
    from its start to its first answer, in seconds."""
    def __init__(self, folder, threads, first):
        start, env = time.perf_counter(), os.environ | dict(OMP_NUM_THREADS=str(threads))
        own = [sys.executable, Path(__file__).with_name('ship_process.py'), folder]
        command = [*(folder if isinstance(folder, list) else own), str(threads)]
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.ask([[first]])
        self.started = time.perf_counter() - start

    def ask(self, calls):
        self.p.stdin.write(json.dumps(calls) + '\n')
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def stop(self):
        self.p.stdin.close()
        self.p.wait()


def in_turns(folders, texts, threads, starts, turns, each, batch=0):
    "Start-up, latency and memory of each folder, and the outputs on all texts; `batch` texts at once are timed too."
    found, draw = {k: dict(started=[], ms=[], batch_ms=[]) for k in folders}, np.random.default_rng(0)
    for _ in range(starts):
        for k, f in folders.items():
            p = Process(f, threads, texts[0])
            found[k]['started'].append(p.started)
            p.stop()
    processes = {k: Process(f, threads, texts[0]) for k, f in folders.items()}
    for turn in range(turns + 1): # the first prepares
        calls = [[texts[i]] for i in draw.integers(len(texts), size=each)]
        if batch: calls.append([texts[i] for i in draw.integers(len(texts), size=batch)])
        for k, p in processes.items():
            time.sleep(.2) # until the threads of the one before have gone to sleep
            answer = p.ask(calls)
            if turn: found[k]['ms'] += answer['ms'][:each]
            if turn: found[k]['batch_ms'] += answer['ms'][each:]
            found[k]['resident'] = answer['VmRSS']
    for k, p in processes.items():
        answer = p.ask([texts])
        found[k] |= dict(outputs=torch.tensor(answer['outputs']).double(), peak=answer['VmHWM'])
        p.stop()
    return found


def graph_bytes(folder):
    "Bytes of the weights, and of the graph where there is one."
    parts = [o for k in ('onnx', 'openvino') for o in (folder/k).glob('*')] or list(folder.glob('*.safetensors'))
    return sum(o.stat().st_size for o in parts)


def write_folders(folder, task, source, budget, embeddings, place):
    "The folder of each row: the fine-tuned one, and exported ones of it and of the shrunk models."
    name = f'{folder.name}-{budget:g}'
    models = {'dense': folder, 'shrunk': place/name, 'shrunk, small embeddings': place/f'{name}-{embeddings:g}'}
    for k, e in dict(zip(list(models)[1:], (None, embeddings))).items():
        if not models[k].is_dir():
            compress(str(folder), budget, task=task, source=source, embeddings=e, out=str(models[k]))
    folders = {}
    for variant, engine, precision in ROWS:
        out = place/f'{models[variant].name}-{engine}-{precision}'
        if engine == 'torch': out = folder
        elif reason := why_not(engine, precision): print(reason)
        elif not out.is_dir(): export(models[variant], None, out, engine, precision)
        if out.is_dir(): folders[variant, engine, precision] = out
    return folders


def table(folders, found, labels, task):
    "One row a process."
    dense = ROWS[0]
    want, size = found[dense]['outputs'], graph_bytes(folders[dense])
    for (variant, engine, precision), o in found.items():
        z, mb = o['outputs'], graph_bytes(folders[variant, engine, precision])
        yield dict(variant=variant, engine=engine, precision=precision,
            **score(z, labels, ['accuracy', *(m for m in GLUE_TASKS[task].metrics if m != 'accuracy')], KIND),
            divergence=KINDS[KIND].divergence(want, z).mean().item(),
            changed=(want.argmax(-1) != z.argmax(-1)).double().mean().item(), mb=mb/1e6, share=mb/size,
            resident_mb=o['resident'], peak_mb=o['peak'], started=np.median(o['started']), ms=np.median(o['ms']),
            ms_low=np.quantile(o['ms'], .1), ms_high=np.quantile(o['ms'], .9))


@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    task:str, # GLUE task
    source:str=None, # Folder with the GLUE files (default: $RANK_BERT_GLUE)
    budget:float=.2, # Fraction of the encoder's linear weights to keep
    embeddings:float=.8, # Fraction of the word embedding to keep, in the last row
    threads:int=1, # Threads of each process
    starts:int=5, # Times that each process is started
    turns:int=10, # Turns
    each:int=20, # Texts that a process answers in a turn
    place:str=None, # Folder for the shrunk and exported models; those that are there are used again
    out:str='experiments/ship_models.csv', # File to write
):
    folder, source, out = Path(folder).resolve(), source or os.environ.get('RANK_BERT_GLUE'), Path(out)
    texts, labels = validation_items(dict(task=task, source=source))['validation']
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as d:
        place = Path(place or d)
        place.mkdir(parents=True, exist_ok=True)
        folders = write_folders(folder, task, source, budget, embeddings, place)
        found = in_turns(folders, list(texts), threads, starts, turns, each)
        about = dict(model=folder.name, task=task, budget=budget, embeddings=embeddings, threads=threads)
        rows = pd.DataFrame([about | o for o in table(folders, found, labels, task)])
    same = ['model', 'budget', 'embeddings', 'threads']
    old = pd.read_csv(out) if out.is_file() else rows[:0]
    old = old[~pd.MultiIndex.from_frame(old[same]).isin(pd.MultiIndex.from_frame(rows[same]))]
    pd.concat([old, rows]).to_csv(out, index=False, float_format='%.6g')
    print(rows.round(4).to_string(index=False))
