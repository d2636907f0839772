"""One process that answers texts, for `ship_models.py` and `peers.py`. It imports what its runtime needs, and nothing else.

Its input are lines of JSON, each a list of calls, and a call is a list of texts or pairs. For each line it prints the
outputs of all calls, the milliseconds of each, and the memory of this process in MB."""
import json, re, sys, time
from pathlib import Path


def in_pytorch(folder, threads, bs=32):
    "Answer with plain transformers, sorted by length and padded as a `Predictor` does it."
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    torch.set_num_threads(threads)
    tok = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    max_length = json.loads((Path(folder)/'results.json').read_text())['settings']['max_length']

    def outputs(texts):
        parts = zip(*texts) if isinstance(texts[0], list) else [texts]
        ids = tok(*map(list, parts), truncation=True, max_length=max_length)
        order, rows = sorted(range(len(texts)), key=lambda i: len(ids['input_ids'][i])), {}
        for b in (order[i:i+bs] for i in range(0, len(order), bs)):
            x = tok.pad({k: [v[i] for i in b] for k, v in ids.items()}, return_tensors='pt')
            with torch.inference_mode(): rows |= zip(b, model(**x).logits.numpy())
        return [rows[i] for i in range(len(texts))]
    return outputs


def exported(folder, threads):
    "Answer from an exported folder."
    from rank_bert.ship.runtime import Predictor
    return Predictor(folder, threads).outputs


def memory():
    "Resident memory of this process, now and at its peak."
    said = Path('/proc/self/status').read_text()
    return {k: int(re.search(rf'{k}:\s+(\d+)', said)[1])/1024 for k in ('VmRSS', 'VmHWM')}


def serve(outputs):
    "Answer the lines of stdin."
    for line in sys.stdin:
        rows, ms = [], []
        for texts in json.loads(line):
            start = time.perf_counter()
            found = outputs(texts)
            ms.append(1e3*(time.perf_counter() - start))
            rows += [[float(z) for z in row] for row in found]
        print(json.dumps(dict(outputs=rows, ms=ms, **memory())), flush=True)


if __name__ == '__main__':
    folder, threads = sys.argv[1], int(sys.argv[2])
    serve((exported if (Path(folder)/'deploy.json').is_file() else in_pytorch)(folder, threads))
