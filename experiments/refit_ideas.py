"""Ideas on top of `rank_bert.shrink.refit`, each by itself and with the refit: what they do to the divergence.

    rank-bert-finetune sst2 --model ... --seed 0 --out sst2-0
    python experiments/refit_ideas.py sst2-0 sst2 --source ../shared/data/glue --out experiments/refit_ideas.csv

A row that is in the file already is not measured again. `nbs/results_methods.ipynb` draws the table from the file."""
import copy, csv, time, warnings
from pathlib import Path
import torch
from embeddings import longest_texts
from fastai.torch_core import set_seed
from fastcore.script import call_parse
from rank_bert.data.glue import glue_task, load_glue
from rank_bert.data.loaders import text_dls
from rank_bert.models.encoder import linears
from rank_bert.models.encoder import Encoder
from rank_bert.shrink import refit as refit_module
from rank_bert.shrink.allocate import allocate
from rank_bert.models.kinds import KINDS, prediction_of
from rank_bert.models.batches import buckets_for
from rank_bert.models.hooks import frozen
from rank_bert.shrink.compress import compress
from rank_bert.shrink.calibrate import calibrate, fingerprint
from rank_bert.models.sizes import dense_size
from rank_bert.shrink.recipe import Job, parse, run
from rank_bert.settings import CompressConfig
from rank_bert.shrink.decomposition import Decomposition
from rank_bert.shrink.heads import truncate_heads
from rank_bert.lowrank.layers import LowRankLinear, replace_layers
from rank_bert.lowrank.linalg import damped_root, to_float64, truncated_svd
from rank_bert.lowrank.plan import to_dense
from rank_bert.shrink.refit import fit_low_rank, refit
from rank_bert.shrink.statistics import cotangents
from rank_bert.train.distill import DistilCallback
from rank_bert.train.glue_learner import glue_learner
from rank_bert.train.learner import encoder_learner


class Bench:
    "A fine-tuned model, sentences to calibrate on, and the dense model's predictions on the validation rows."
    def __init__(self, folder, task, source, n, seed, among):
        self.learn = glue_learner(task, folder, source=source, seed=seed)
        self.model, self.name, self.n = self.learn.hf_model.eval(), Path(folder).name, n
        self.folder, self.task, self.source, self.among = folder, task, source, among
        set_seed(seed)
        self.batches = longest_texts(self.learn.dls.train.new(), n, among)
        self.valid = [(x, y) for x, y in buckets_for(self.model, self.learn.dls.valid)]
        self.wanted = self.logits(self.model)
        self.calibration = calibrate(self.model, self.batches, n, progress=False)
        self.decomposed = Decomposition(self.model, 'kfac', self.calibration, progress=False)

    def logits(self, model):
        with frozen(model):
            return [prediction_of(model, x)[0].double() for x, _ in self.valid]

    def measure(self, model):
        "Divergence from the dense model in nats a sentence, and score, on the validation rows."
        got, kind = self.logits(model), 'regression' if self.learn.kind == 'regression' else 'single_label_classification'
        ds = torch.cat([KINDS[kind].divergence(a, b) for a, b in zip(self.wanted, got)])
        right = torch.cat([z.argmax(-1) == y for z, (_, y) in zip(got, self.valid)]).double()
        return dict(divergence=ds.mean().item(), accuracy=right.mean().item())

    def calibrated(self, model): return calibrate(model, self.batches, self.n, progress=False)

    def refit(self, small, dense=None, calibration=None, **kwargs):
        return refit(dense or self.model, small, self.batches, calibration or self.calibration, n_samples=self.n,
            progress=False, **kwargs)


IDEAS = {}
def idea(f):
    IDEAS[f.__name__] = f
    return f

# The models to compare with

@idea
def dense(b, budget): yield '', b.model

@idea
def others(b, budget):
    for method in ('svd', 'whitened'):
        d = Decomposition(b.model, method, b.calibration, progress=False)
        yield method, d.truncate(d.plan(budget))

@idea
def kfac(b, budget):
    small = b.decomposed.truncate(b.decomposed.plan(budget))
    yield '', small
    yield from _fitted(b, small, b.calibration, b.model)

def _kept(b, budget):
    "What `compress` keeps."
    *_, (_, small) = kfac(b, budget)
    return small

# (a) One `down` for query, key and value

def _together(b):
    "Spectra, shapes and factors in which query, key and value of a block are one layer."
    cal, groups = b.calibration, {}
    for l in linears(b.model):
        groups.setdefault((l.layer, 'qkv') if l.role in ('query', 'key', 'value') else l.name, []).append(l)
    return {k: ls for k, ls in groups.items() if isinstance(k, tuple)}

def _joint_root(b, ls):
    "Roots of the joint moments of layers with the same input."
    cal = b.calibration
    per = lambda n: cal[n]['grad_second_moment'].double()*cal[n]['tokens']/cal[n]['samples']
    # the weights of the tokens differ by layer: bring all to those of the mean
    right = damped_root(sum(cal[l.name]['weighted_covariance'].double() for l in ls)/len(ls))
    return torch.block_diag(*(damped_root(per(l.name)) for l in ls)), right

def shared_down_model(b, budget):
    "Truncate with one `down` for query, key and value, ranks chosen exactly; the model, and which layers share."
    groups, spectra, shapes, parts = _together(b), dict(b.decomposed.spectra), dict(b.decomposed.shapes), {}
    for k, ls in groups.items():
        left, right = _joint_root(b, ls)
        w = torch.cat([to_float64(l.weight) for l in ls])
        a = left.T@w@right
        name = f'{k[0]}.qkv'
        parts[name] = ls, left, right, a
        for l in ls: spectra.pop(l.name), shapes.pop(l.name)
        spectra[name], shapes[name] = torch.linalg.svdvals(a), tuple(w.shape)
    plan = allocate(spectra, shapes, budget)
    new = copy.deepcopy(b.decomposed.truncate({n: r for n, r in plan.items() if n not in parts}))
    shared = {}
    for name, (ls, left, right, a) in parts.items():
        if plan[name] is None: continue
        up, down = truncated_svd(a, plan[name])
        up, down = torch.linalg.solve_triangular(left.T, up, upper=True), torch.linalg.solve_triangular(right, down,
            upper=False, left=False)
        for l, u in zip(ls, up.split([l.shape[0] for l in ls])):
            mu = b.calibration[l.name]['weighted_mean'].double()
            bias = to_float64(l.module.bias) + to_float64(l.weight)@mu - u@(down@mu)
            old = {o.name: o for o in linears(new)}[l.name].module
            replace_layers(Encoder(new).base, {old: LowRankLinear.from_factors(u, down, bias, l.weight)})
        shared[ls[0].name] = [l.name for l in ls]
    return new, shared

@idea
def shared_down(b, budget):
    new, shared = shared_down_model(b, budget)
    yield '', new
    old = refit_module.LayerwiseRefit.refit_block
    refit_module.LayerwiseRefit.refit_block = _shared_refit_block(shared, old)
    try: yield 'refit', b.refit(new)
    finally: refit_module.LayerwiseRefit.refit_block = old

def _fit_shared(self, names, moments, calibration, mix, ridge):
    "Fit layers with the same input, with one `down`."
    dense, small = ([side[n] for n in names] for side in self.layers)
    mx, _, xx, yx = moments.pair() # y: what the dense model feeds the layers
    w, b = torch.cat([to_float64(l.weight) for l in dense]), torch.cat([to_float64(l.module.bias) for l in dense])
    g = torch.block_diag(*(calibration[n]['grad_second_moment'].double() for n in names))
    up, down = fit_low_rank(mix*w@yx + (1 - mix)*w@xx, xx, w, small[0].rank, g, ridge)
    b = mix*(w@moments.pair()[1] + b) + (1 - mix)*(w@mx + b) - up@(down@mx)
    sizes = [l.shape[0] for l in dense]
    for l, u, c in zip(small, up.split(sizes), b.split(sizes)):
        for p, q in zip((l.module.up.weight, l.module.up.bias, l.module.down.weight), (u, c, down)): p.data.copy_(q)

def _shared_refit_block(shared, old):
    "`refit_block` that fits query, key and value with one `down`."
    def fit(self, block, calibration, mix, ridge):
        if block.stages[0].layers[0] not in shared: return old(self, block, calibration, mix, ridge)
        seen = self.see_dense(block)
        for i, stage in enumerate(block.stages):
            thin = [n for n in stage.layers if self.layers[1][n].rank is not None]
            if not thin: continue
            moments = self.moments_at(block, i, seen)
            if i == 0: _fit_shared(self, stage.layers, moments, calibration, mix, ridge)
            else:
                for n in thin:
                    self.refit_layer(n, moments, self.reads_outputs(stage),
                        calibration[n]['grad_second_moment'], mix, ridge)
        module = self.small.get_submodule(block.name)
        self.outs_small = [c(module, o) for c, o in zip(self.calls.pop(block.name), self.outs_small)]
    return fit

# (b) Fewer neurons in the feed-forward layers

def _is_ffn(l): return l.role in ('ffn_in', 'ffn_out')

def narrower(b, keep):
    "Leave out neurons until the feed-forward layers keep a fraction of their weights."
    sizes = {l.name: l.module.weight.numel() for l in linears(b.model)}
    ffn = sum(sizes[l.name] for l in linears(b.model) if _is_ffn(l))/sum(sizes.values())
    return compress(b.model, 1 - (1 - keep)*ffn, b.calibration, 'neurons(levels=12)')

@idea
def neurons(b, budget):
    "Neurons instead of ranks: the feed-forward layers keep that share of their neurons, attention its ranks."
    plan, ffn = b.decomposed.plan(budget), {l.name for l in linears(b.model) if _is_ffn(l)}
    attention = {n: (None if n in ffn else r) for n, r in plan.items()}
    shapes = b.decomposed.shapes
    share = sum(plan[n]*sum(shapes[n]) for n in ffn if plan[n])/sum(shapes[n][0]*shapes[n][1] for n in ffn)
    pruned = narrower(b, share)
    yield 'feed-forward only, neurons', pruned
    yield 'feed-forward only, ranks', b.decomposed.truncate({n: (r if n in ffn else None) for n, r in plan.items()})
    d = Decomposition(pruned, 'kfac', b.calibrated(pruned), progress=False)
    yield '', d.truncate(attention)

@idea
def both(b, budget):
    "Fewer neurons, and low rank for what is left of the matrices, at the same number of weights."
    total = sum(m*n for m, n in b.decomposed.shapes.values())
    for fraction in (.75, .5):
        pruned = narrower(b, fraction)
        cal = b.calibrated(pruned)
        d = Decomposition(pruned, 'kfac', cal, progress=False)
        small = d.truncate(d.plan(budget*total/sum(m*n for m, n in d.shapes.values())))
        yield f'{fraction} of the neurons', small
        yield f'{fraction} of the neurons, refit', b.refit(small, dense=pruned, calibration=cal)

def _with_head_of(model, other):
    "A copy of a model with the head of another."
    new, old = copy.deepcopy(model), refit_module.head_layers(Encoder(other).base)
    for n, m in refit_module.head_layers(Encoder(new).base).items(): m.load_state_dict(old[n].state_dict())
    return new

def _fitted(b, small, calibration, before):
    "A model with its layers refitted, with its head as well, and what the held-out sentences choose."
    fit, held = refit_module.hold_out(b.batches, b.n, .125)
    new = refit_module.LayerwiseRefit.refitted(b.model, small, fit, calibration, .5, 1e-3, True, False, before)[0]
    options = {'': small, 'layers': _with_head_of(new, small), 'layers and head': new}
    for name in ('layers', 'layers and head'): yield name, options[name]
    kept = list(options)[refit_module.choose_refit(refit_module.divergences(b.model, options.values(), held))]
    yield f'kept: {kept}', options[kept]

def _neurons_and_ranks(b, budget):
    "Neurons and ranks chosen together: a `Result` with the model, and what it was factorised from."
    job, parts = Job(b.model, b.calibration, progress=False), parse('neurons+kfac')
    job.check(parts, CompressConfig(budget))
    return run(job, parts, CompressConfig(budget))

@idea
def neurons_and_ranks(b, budget):
    "Neurons and ranks chosen together by one knapsack, then fitted to the dense model with all its neurons."
    found = _neurons_and_ranks(b, budget)
    yield f'neurons {[f.outer.shape[1] for f in Encoder(found.model).feed_forwards]}', found.model
    yield from _fitted(b, found.model, found.stats or b.calibration, found.pruned)

@idea
def neurons_and_ranks_again(b, budget):
    "The same with statistics of the model with fewer neurons, from another pass."
    thin = _neurons_and_ranks(b, budget).pruned
    d = Decomposition(thin, 'kfac', b.calibrated(thin), progress=False)
    small = d.truncate(d.plan(min(1., budget*dense_size(b.model)/dense_size(thin))))
    yield '', small
    yield from _fitted(b, small, d.calibration, d.model)

# (c) Query-key and value-output together, inside the head

@idea
def heads(b, budget):
    "Narrower heads first, ranks for the rest of the way, at the same number of weights."
    size = b.model.config.hidden_size//b.model.config.num_attention_heads
    total = sum(m*n for m, n in b.decomposed.shapes.values())
    for r in (round(.875*size), round(.75*size)):
        narrow = truncate_heads(b.model, r, b.calibration)
        left = sum(m*n for m, n in (l.shape for l in linears(narrow)))
        cal = b.calibrated(narrow)
        d = Decomposition(narrow, 'kfac', cal, progress=False)
        small = d.truncate(d.plan(min(1., budget*total/left)))
        yield f'{r} of {size} features', small
        yield f'{r} of {size} features, refit', b.refit(small, dense=narrow, calibration=cal)

@idea
def heads_only(b, budget):
    "The attention alone at half its weights: narrower heads, or ranks."
    size = b.model.config.hidden_size//b.model.config.num_attention_heads
    yield 'heads', truncate_heads(b.model, round(budget*size), b.calibration)
    names = {l.name for l in linears(b.model) if l.role in ('query', 'key', 'value', 'attention_output')}
    d = b.decomposed
    plan = allocate({n: d.spectra[n] for n in names}, {n: d.shapes[n] for n in names}, budget)
    yield 'ranks', d.truncate(dict(plan))

# (d) The gradient of the divergence

def _gradients(b, small):
    "Gradient of the mean divergence on the calibration sentences in every effective weight and bias."
    dense = to_dense(small).eval()
    layers, total, n = linears(dense), 0., 0
    params = [l.module.weight for l in layers] + [l.module.bias for l in layers]
    for p in dense.parameters(): p.requires_grad_(False)
    for p in params: p.requires_grad_(True)
    rows = [x for x, _ in buckets_for(b.model, b.batches, b.n)]
    for x in rows:
        with torch.no_grad(): a = b.model(**{k: v for k, v in x.items()}).logits.double()
        z = dense(**x).logits.double()
        loss = KINDS['single_label_classification'].divergence(a, z).sum()
        loss.backward()
        n += len(a)
    k = len(layers)
    return {l.name: (params[i].grad.double()/n, params[k + i].grad.double()/n) for i, l in enumerate(layers)}

def _stepped(b, small, grads, eta, damping=1e-3):
    "One natural-gradient step of every factorised layer, cut back to its rank."
    new = copy.deepcopy(small)
    for l in linears(new):
        if l.rank is None: continue
        s, (dw, db) = b.calibration[l.name], grads[l.name]
        g = damped_root(s['grad_second_moment'].double()*s['tokens']/s['samples'], damping)
        a = damped_root(s['weighted_covariance'], damping)
        w = to_float64(l.weight)
        step = torch.linalg.solve_triangular(g, dw, upper=False)
        step = torch.linalg.solve_triangular(a, step.T, upper=False).T
        up, down = truncated_svd(g.T@w@a - eta*step, l.rank)
        up, down = torch.linalg.solve_triangular(g.T, up, upper=True), torch.linalg.solve_triangular(a, down, upper=False,
            left=False)
        mu = s['weighted_mean'].double()
        l.module.up.weight.data.copy_(up)
        l.module.down.weight.data.copy_(down)
        l.module.up.bias.data.add_((w@mu - up@(down@mu)).to(l.module.up.bias))
    return new

def _search(b, small, rounds=1, etas=(.3, .1, .03), damping=1e-3):
    "Gradient steps with the eta that does best on every eighth sentence, which the gradient has not seen."
    rows = [{k: v[None] for k, v in x.items()} for x, _ in refit_module.sentences(b.batches, b.n)]
    held, fit, best = rows[7::8], [r for i, r in enumerate(rows) if i % 8 != 7], small
    all_batches, n = b.batches, b.n
    chosen = []
    for _ in range(rounds):
        b.batches, b.n = fit, None
        try: grads = _gradients(b, best)
        finally: b.batches, b.n = all_batches, n
        options = [best, *(_stepped(b, best, grads, e, damping) for e in etas)]
        ds = refit_module.divergences(b.model, options, held).mean(1)
        k = int(ds.argmin())
        chosen.append((0, *etas)[k])
        best = options[k]
        if not k: break
    return best, chosen

@idea
def gradient(b, budget):
    small = b.decomposed.truncate(b.decomposed.plan(budget))
    for name, start in (('', small), ('refit', b.refit(small))):
        new, etas = _search(b, start, 3)
        yield f'{name} damping 0.001, etas {etas}'.strip(), new

# (e) The pivot form

@idea
def pivot(b, budget):
    "The ranks that `r(m + n - r)` weights a layer allow."
    small = b.decomposed.truncate(b.decomposed.plan(budget, cost=lambda r, m, n: m*n if r is None else r*(m + n - r)))
    yield '', small
    yield 'refit', b.refit(small)

# (f) More or fewer sentences: run the script with another --n

# (g) Ranks allocated again after the first refit

@idea
def reallocated(b, budget):
    first = b.refit(b.decomposed.truncate(b.decomposed.plan(budget)))
    cal = b.calibrated(first)
    cal.prints = fingerprint(b.model) # what the shrunk model sees, for the dense weights
    d = Decomposition(b.model, 'kfac', cal, progress=False)
    small = d.truncate(d.plan(budget))
    yield '', small
    yield 'refit', b.refit(small)
    yield 'refit, its own gradients', b.refit(small, calibration=cal)


# (h) Tokens weighted by their gradient, in part; other damping of the gradients

def _token_weights(model, packs):
    "Squared gradient of the prediction at the output of each layer, over its mean: name -> a vector for each pack, padding left out."
    enc, found, gen = Encoder(model).base, {}, torch.Generator().manual_seed(0)
    for x in packs:
        keep, outs = refit_module.TextTokens(x['attention_mask']), {}
        def see(n):
            def f(m, args, out): outs[n] = out.requires_grad_() if not out.requires_grad else out; outs[n].retain_grad(); return outs[n]
            return f
        handles = [l.module.register_forward_hook(see(l.name)) for l in linears(model)]
        with frozen(enc, True):
            z, (v,) = cotangents(enc, x, None, 'true', gen)
            z.backward(v)
        for h in handles: h.remove()
        for n, o in outs.items(): found.setdefault(n, []).append(keep.flat(o.grad).square().sum(1))
    return {n: [o/torch.cat(ws).mean() for o in ws] for n, ws in found.items()}

class _Weighted(refit_module.PairedMoments):
    def add(self, x, y, w):
        if self.shift is None:
            self.y_shift, m = y.mean(0), y.shape[1]
            self.y_sum, self.cross = self.sum.new_zeros(m), self.sum.new_zeros(m, len(self.sum))
        refit_module.Moments.add(self, x, w)
        y = (y - self.y_shift)*w[:, None]
        self.y_sum += y.sum(0)
        self.cross += y.T@(x - self.shift)

def _weighted_moments_at(share):
    def f(self, block, i, seen):
        if not hasattr(self, 'weights'): self.weights = _token_weights(self.dense, self.packs)
        moments, names = None, block.stages[i].layers
        for p, got in enumerate(seen):
            w = sum(self.weights[n][p] for n in names)/len(names)
            w = share*w + 1 - share
            for x, y in zip(self.see_small(block, block.stages[i], p), got[i], strict=True):
                moments = moments or _Weighted(x.shape[1], self.device)
                moments.add(x, y, w)
            got[i] = None
        return moments
    return f

@idea
def weighted(b, budget):
    small, old = b.decomposed.truncate(b.decomposed.plan(budget)), refit_module.LayerwiseRefit.moments_at
    for share, ridge in ((.25, 1e-3), (.5, 1e-3), (.5, 1e-2), (.75, 1e-2)):
        refit_module.LayerwiseRefit.moments_at = _weighted_moments_at(share)
        try: yield f'share {share}, ridge {ridge}', b.refit(small, ridge=ridge)
        finally: refit_module.LayerwiseRefit.moments_at = old

@idea
def damped(b, budget):
    small, old = b.decomposed.truncate(b.decomposed.plan(budget)), refit_module.damped_root
    for damping in (1e-1,):
        refit_module.damped_root = lambda m, d=None: old(m, damping if d is None else d)
        try: yield f'damping {damping}', b.refit(small)
        finally: refit_module.damped_root = old

@idea
def head_ridge(b, budget):
    "The head alone, with another ridge; what the held-out sentences say of it, and what the validation rows say."
    small = b.decomposed.truncate(b.decomposed.plan(budget))
    fit, held = refit_module.hold_out(b.batches, b.n, .125)
    ridges, old = (.1, 1., 10.), refit_module.LayerwiseRefit.refit_head
    models = []
    def several(self):
        start = copy.deepcopy(self.small)
        for r in ridges:
            self.small.load_state_dict(start.state_dict())
            old(self, r)
            models.append(copy.deepcopy(self.small))
    refit_module.LayerwiseRefit.refit_head = several
    try: new = refit_module.LayerwiseRefit.refitted(b.model, small, fit, b.calibration, .5, 1e-3, True, False)[0]
    finally: refit_module.LayerwiseRefit.refit_head = old
    layers = _with_head_of(new, small)
    ds = refit_module.divergences(b.model, [small, layers, *models], held)
    for name, m, d in zip(('layers', *(f'head, ridge {r}' for r in ridges)), (layers, *models), ds[1:]):
        yield f'{name}; held out {d.mean():.4f}, more than the layers by {(d - ds[1]).mean():.4f} +- {(d - ds[1]).std()/len(d)**.5:.4f}', m

@idea
def together(b, budget):
    "What paid by itself, together."
    groups = shared_down_model(b, budget)
    small, shared = groups
    walk, root = refit_module.LayerwiseRefit, refit_module.damped_root
    block, moments = walk.refit_block, walk.moments_at
    plain = b.decomposed.truncate(b.decomposed.plan(budget))
    def run(start, share, damping, shared):
        refit_module.damped_root = lambda m, d=None: root(m, damping if d is None else d)
        if share: walk.moments_at = _weighted_moments_at(share)
        if shared: walk.refit_block = _shared_refit_block(shared, block)
        try: return b.refit(start)
        finally: refit_module.damped_root, walk.moments_at, walk.refit_block = root, moments, block
    yield 'weighted .25, damping .1', run(plain, .25, .1, None)
    yield 'shared, damping .1', run(small, 0, .1, shared)
    yield 'shared, weighted .25, damping .1', run(small, .25, .1, shared)

# (i) The norms follow: weight and bias of each LayerNorm by least squares, feature by feature

def _fit_norm(norm, mx, my, xx, yx, share):
    "Fit a LayerNorm to the dense model's, given moments of both outputs; return what it multiplies and adds."
    a = (1 - share + share*yx/xx.clamp_min(1e-12)).clamp(0, 2)
    c = share*(my - yx/xx.clamp_min(1e-12)*mx) # so that the mean moves by the same share
    norm.weight.data.mul_(a.float())
    norm.bias.data.copy_(a*norm.bias.data + c)
    return a.float(), c.float()

def _with_norms(share, old):
    "`refit_block` that fits the two norms of a block of BERT as well."
    def fit(self, block, calibration, mix, ridge):
        seen, small, module = self.see_dense(block), self.layers[1], self.small.get_submodule(block.name)
        again = lambda: [[None if o is None else list(o) for o in got] for got in seen] # `moments_at` empties what it reads
        for i, stage in enumerate(block.stages):
            moments = self.moments_at(block, i, again())
            if stage.layers[0].endswith('intermediate.dense'):
                mx, my, xx, yx = moments.pair()
                _fit_norm(module.attention.output.LayerNorm, mx, my, xx.diagonal(), yx.diagonal(), share)
                moments = self.moments_at(block, i, seen)
            for n in stage.layers:
                if small[n].rank is not None:
                    self.refit_layer(n, moments, self.reads_outputs(stage),
                        calibration[n]['grad_second_moment'], mix, ridge)
        outs = [refit_module.Call.hidden_in(c(module, o)) for c, o in zip(self.calls.pop(block.name), self.outs_small)]
        moments = None
        for keep, a, b in zip(self.keeps, outs, self.outs_dense):
            x, y = keep.flat(a), keep.flat(refit_module.Call.hidden_in(b))
            moments = moments or refit_module.PairedMoments(x.shape[1], self.device)
            moments.add(x, y)
        mx, my, xx, yx = moments.pair()
        a, c = _fit_norm(module.output.LayerNorm, mx, my, xx.diagonal(), yx.diagonal(), share)
        self.outs_small = [a*o + c for o in outs]
    return fit

@idea
def norms(b, budget):
    small, old = b.decomposed.truncate(b.decomposed.plan(budget)), refit_module.LayerwiseRefit.refit_block
    for share in (0., .5, 1.):
        refit_module.LayerwiseRefit.refit_block = _with_norms(share, old)
        try: yield f'share {share}', b.refit(small, head=False)
        finally: refit_module.LayerwiseRefit.refit_block = old

# (5) Training on top, for who can train

def _longest_rows(b, n, among):
    "Splits of the task, the training rows reduced to the longest `n` of `among` times as many."
    data, t = load_glue(b.task, b.source), glue_task(b.task)
    rows = data['train'].shuffle(seed=0).select(range(min(among*n, len(data['train']))))
    size = [sum(len(r[c].split()) for c in t.text_cols) for r in rows]
    best = sorted(range(len(rows)), key=lambda i: -size[i])[:n]
    return {**{k: v for k, v in data.items() if k in t.valid_splits}, 'train': rows.select(best)}

@idea
def distilled(b, budget):
    "The factors trained on texts without labels after the refit, the dense model as teacher of logits and hidden states."
    start, t = _kept(b, budget), glue_task(b.task)
    for n, epochs, rates in ((b.n, 3, (1e-5, 3e-5)), (4*b.n, 1, (3e-5,))):
        dls = text_dls(_longest_rows(b, n, b.among), b.learn.dls.tokenizer, t.text_cols, valid=t.valid_splits,
            vocab=t.labels, regression=t.labels is None, seed=0)
        for rate in rates:
            small = encoder_learner(dls, model=copy.deepcopy(start), seed=0, task=b.task)
            small.add_cb(DistilCallback(b.model, temperature=1., weights=dict(soft=1., hidden=1.)))
            with small.no_bar(), small.no_logging(): small.fit_one_cycle(epochs, rate)
            yield f'{n} longest texts, {epochs} epochs, rate {rate:g}', Encoder(small.model).base.eval()

FIELDS = ['model', 'task', 'sentences', 'tokens', 'seed', 'among', 'budget', 'idea', 'variant', 'divergence', 'accuracy', 'seconds']

@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    task:str, # GLUE task
    source:str=None, # As for `rank-bert-finetune`
    out:str='experiments/refit_ideas.csv', # File to add rows to
    ideas:str=','.join(IDEAS), # Names, with commas; pivot@0.5 for a budget of its own
    budgets:str='0.2,0.1', # Fractions to keep, with commas, for the ideas without one
    n:int=1024, # Sentences to calibrate on
    seed:int=0, # Of the choice of sentences
    among:int=4, # Take the longest of so many times `n` sentences
):
    "Measure ideas on top of the refit."
    warnings.simplefilter('ignore')
    out, b = Path(out), None
    done = {tuple(r[k] for k in ('model', 'sentences', 'seed', 'among', 'budget', 'idea')) for r in csv.DictReader(open(out))} if out.exists() else set()
    names = [o.partition('@') for o in ideas.split(',')]
    asked = [(n, float(at)) for n, _, at in names if at] + [(n, float(x)) for x in budgets.split(',') for n, _, at in names if not at]
    for name, budget in asked:
        key = (Path(folder).name, str(n), str(seed), str(among), str(budget), name)
        if key in done: continue
        if b is None:
            b = Bench(folder, task, source, n, seed, among)
            print(b.calibration, b.measure(b.model), flush=True)
        rows, start = [], time.process_time()
        for variant, model in IDEAS[name](b, budget):
            rows.append(dict(model=b.name, task=task, sentences=n, tokens=b.calibration.tokens, seed=seed, among=among, budget=budget,
                idea=name, variant=variant, seconds=round(time.process_time() - start, 1), **b.measure(model)))
            print({k: v for k, v in rows[-1].items() if k not in ('model', 'task')}, flush=True)
            start = time.process_time()
        new = not out.exists()
        with open(out, 'a', newline='') as f:
            w = csv.DictWriter(f, FIELDS)
            if new: w.writeheader()
            w.writerows(rows)
