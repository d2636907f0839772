"""Which learning rate heals layers of which width: one for all parameters, or one by the inputs of each.

    python experiments/heal_rates.py ../shared/data minilm --seeds '0 1 2'
    python experiments/heal_rates.py ../shared/data mpnet --texts 1024

The models and the folder of data are those of `wide.py`, and so are the texts and the scores: `cosine` is the mean and `p5` the
fifth percentile over 500 sentences, `wiki` and `wiki_p5` over 200 of WikiText-2, from which nothing learns. `rate` is the largest
one for all parameters; with `/fan_in` a matrix has 384/n times as much, where n are the inputs that each of its rows sums (muP,
arXiv 2203.03466), so that a factor behind few ranks moves faster. No rate is the model before healing. Each run takes the same
steps on the same texts, 16 in each. Seconds are those of one core. A row that is in the file already is not measured again."""
import csv, platform, time
from pathlib import Path
import torch
import embeddings
from base_size import load
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.models.hooks import set_attr
from rank_bert.settings import CompressConfig
from rank_bert.shrink import heal as package
from rank_bert.shrink.heal import Healing, heal
from rank_bert.shrink.recipe import parse, run
from wide import Bench

class ByInputs(Healing):
    "Healing with a rate for each number of inputs."
    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        groups = {}
        for p in self.params: groups.setdefault(384/p.shape[1] if p.ndim == 2 else 1., []).append(p)
        self.opt = torch.optim.AdamW([dict(params=ps, share=k) for k, ps in groups.items()], self.lr, weight_decay=0., fused=True)
        def scale(opt, *args): # `train` sets the rate of all groups before each step
            for g in opt.param_groups: g['lr'] *= g['share']
        self.opt.register_step_pre_hook(scale)

@call_parse
def main(
    folder:str, # Folder with glue and wikitext-2
    model:str, # 'minilm', or a folder
    out:str='experiments/heal_rates.csv', # File of the results, which grows
    rates:str='1e-4 2.5e-4 5e-4 1e-3 2.5e-4/fan_in 5e-4/fan_in 1e-3/fan_in', # Rates to try
    budgets:str='.3', # Fractions of the linear weights to keep
    seeds:str='0', # Draws of texts
    texts:int=512, # Texts to compress by; healing sees others, too
    steps:int=200, # Steps of healing
):
    "Measure what healing gives."
    torch.set_num_threads(1)
    out, recipe = Path(out), 'neurons+kfac+refit'
    dense, wanted = embeddings.load('mean') if model == 'minilm' else load(model), None
    done = list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []
    for seed in map(int, seeds.split()):
        bench = None
        for budget in budgets.split():
            about = dict(model=Path(model).name, recipe=recipe, seed=seed, texts=texts, steps=steps, budget=budget)
            known = {o['rate'] for o in done if all(o[k] == str(v) for k, v in about.items())}
            if not (todo := [o for o in ['', *rates.split()] if o not in known]): continue
            bench = bench or Bench(dense, Path(folder), seed, recipe, wanted)
            wanted, config = bench.wanted, CompressConfig(float(budget), n_samples=texts)
            job = bench.job(texts)
            job.cache.put('calibration', ((), None), bench.calibration(texts, 1)[0])
            small = run(job, parse(recipe), config).model
            for o in todo:
                lr, _, by = o.partition('/')
                start = time.process_time()
                with set_attr([package], 'Healing', ByInputs if by else Healing):
                    new = heal(dense, small, bench.learn, steps=steps, lr=float(lr), seed=seed, progress=False) if o else small
                scores = {k.rstrip('_'): v for k, v in bench.scores(new, '').items()}
                add_row(out, about | dict(rate=o) | scores | dict(seconds=round(time.process_time() - start, 1),
                    machine=f'{platform.machine()}, 1 thread', date=time.strftime('%Y-%m-%d')))
