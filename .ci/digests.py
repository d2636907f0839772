"""Print digests of models, plans and exports, to compare a commit that only moves code with the one before it.

    python .ci/digests.py > after.txt; PYTHONPATH=COPY_OF_THE_COMMIT_BEFORE python .ci/digests.py | diff - after.txt

A classifier, a sentence encoder and a tagger of two layers, three seeds each, all parts of the default recipe."""
import hashlib, os, sys, tempfile, warnings
from pathlib import Path
os.environ |= dict(HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false')
warnings.simplefilter('ignore')
import torch, transformers
from rank_bert.data.glue import load_glue, sample_tokenizer
from rank_bert.shrink.compress import compress
from rank_bert.ship.export import export

def digest_of(model):
    h = hashlib.sha256()
    for k, v in sorted(model.state_dict().items()):
        h.update(k.encode() + v.detach().cpu().contiguous().numpy().tobytes())
    return h.hexdigest()[:16]

def models(tok):
    from sentence_transformers import SentenceTransformer, models as parts
    config = transformers.BertConfig(vocab_size=len(tok), hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, num_labels=3)
    yield 'classifier', transformers.BertForSequenceClassification(config)
    yield 'tagger', transformers.BertForTokenClassification(config)
    with tempfile.TemporaryDirectory() as d:
        transformers.BertModel(config).save_pretrained(d)
        tok.save_pretrained(d)
        yield 'encoder', SentenceTransformer(modules=[(t := parts.Transformer(d)), parts.Pooling(t.get_word_embedding_dimension())])

tok, texts = sample_tokenizer(), load_glue('sst2', 'sample')['train']['sentence'][:400]
for seed in range(3):
    torch.manual_seed(seed)
    for name, model in models(tok):
        if name != 'encoder': model.tokenizer = tok
        for budget in (.5, .2):
            small = compress(model.eval(), budget, texts, seed=seed, progress=False)
            done = small.compression
            print(seed, name, budget, digest_of(small), list(done.plan.values())[:4], f'{done.predicted:.6g}', flush=True)
        if seed == 0:
            with tempfile.TemporaryDirectory() as d:
                export(small, tok if name != 'encoder' else None, f'{d}/out', 'onnx', 'fp32')
                print(name, 'export', hashlib.sha256(Path(f'{d}/out/onnx/model.onnx').read_bytes()).hexdigest()[:16], flush=True)
