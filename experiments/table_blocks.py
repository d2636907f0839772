"""What a word table in blocks, with more rank for frequent words (GroupReduce, arXiv:1806.06950), keeps beside one of a
single rank with the same weights.

    python experiments/table_blocks.py ../shared/data --out experiments/table_blocks.csv

The model is all-MiniLM-L6-v2, whole or cut to 16,384 words of one half of the documents of Cranfield or of the sentences of
SST-2's development set, on which it is calibrated as well. On the other half, `error` is the squared error of the words'
vectors relative to their squares, and `divergence` one less the mean cosine to the embeddings with the whole table."""
import copy, csv
from pathlib import Path
import torch
from fastcore.script import call_parse
from sentence_transformers import SentenceTransformer
from words import MINILM, cranfield
from rank_bert.lowrank.layers import replace_layers
from rank_bert.models.encoder import Encoder
from rank_bert.models.opener import quiet_transformers
from rank_bert.settings import CompressConfig
from rank_bert.shrink.calibrate import calibrate
from rank_bert.shrink.embedding import truncate_embedding
from rank_bert.shrink.recipe import Job, parse, run

def with_table(model, table):
    "A copy of a model with another word embedding."
    new = copy.deepcopy(model)
    enc = Encoder(new).base
    replace_layers(enc, {enc.get_input_embeddings(): table})
    return new

@call_parse
def main(
    folder:str, # Folder with cranfield and glue/SST-2
    out:str='experiments/table_blocks.csv', # File of the results
    n_test:int=300, # Texts to compare embeddings of
):
    torch.set_num_threads(1)
    folder, rows = Path(folder), []
    lines = (folder/'glue'/'SST-2'/'dev.tsv').read_text(encoding='utf-8').splitlines()[1:]
    corpora = dict(cranfield=[*cranfield(folder/'cranfield')[0].values()], sst2=[o.rpartition('\t')[0] for o in lines])
    with quiet_transformers(): dense = SentenceTransformer(str(MINILM), device='cpu', local_files_only=True)
    dense.max_seq_length = 64
    for name, texts in corpora.items():
        learn, test = texts[::2], texts[1::2]
        for recipe in ('words(keep=16384)', None):
            config = CompressConfig()
            model = run(Job(dense, learn, config, progress=False), parse(recipe), config).model if recipe else dense
            words = calibrate(model, learn, 1024, statistics='grad_second_moment', progress=False).words
            old, tok = Encoder(model).base.get_input_embeddings(), model.tokenizer
            w = old.weight.detach()
            ids = [i for o in tok(test, truncation=True, max_length=64).input_ids for i in o]
            own, wanted = torch.bincount(torch.tensor(ids), minlength=len(w)), model.encode(test[:n_test])
            for keep in (.5, .25):
                for blocks in range(1, 7):
                    table, _ = truncate_embedding(old, keep, words, blocks)
                    error = (own*(table.weight - w).square().sum(1)).sum()/(own*w.square().sum(1)).sum()
                    cosine = (wanted*with_table(model, table).encode(test[:n_test])).sum(1).mean()
                    ranks = [[len(w), table.rank]] if blocks == 1 else table.rank
                    rows.append(dict(corpus=name, words=len(w), keep=keep, blocks=blocks, error=round(error.item(), 4),
                        divergence=round(1 - float(cosine), 4), ranks=' '.join(f'{n}:{r or "dense"}' for n, r in ranks)))
                    print(rows[-1], flush=True)
    with open(out, 'w', newline='') as f:
        writer = csv.DictWriter(f, rows[0])
        writer.writeheader()
        writer.writerows(rows)
