"""Count through how many functions a saved model's folder goes in each command, and how often we open its JSON files.

    python .ci/door.py [LIMIT]

A command turns the folder into a `SavedModel` once. So whatever stands for the model (the folder as text, a `Path`, a
`SavedModel`) should return from few functions of ours that took it as an argument, its own members included (`returns`, at
most LIMIT, 20 by default); so should a loaded model from `export` (`model`). And our own code should open each JSON file of
the folder at most once (`opens`); what transformers, sentence-transformers and tokenizers open is theirs."""
import os, sys, tempfile
from collections import Counter
from pathlib import Path
os.environ |= dict(HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false')
import rank_bert
from torch import nn
from rank_bert.commands.shell import run_line

OURS = f'{Path(rank_bert.__file__).parent}{os.sep}'
PLAIN = tuple(f'{os.sep}{o}.py' for o in ('pathlib', 'json/__init__', 'codecs', '_bootstrap')) # they open for others

class Watch:
    "Counts in the block what returns with the folder, and what opens a file of it."
    def __init__(self, folder): self.folder, self.returns, self.model, self.opens = Path(folder).resolve(), Counter(), Counter(), Counter()
    def stands(self, o): # Does it stand for the folder?
        if not isinstance(o, (str, os.PathLike)) or self.folder.name not in str(o): return False
        try: return Path(o).resolve() == self.folder
        except (OSError, ValueError): return False # a text, and no path
    def profile(self, frame, event, arg):
        code = frame.f_code
        if event != 'return' or not code.co_filename.startswith(OURS): return
        values = [frame.f_locals.get(k) for k in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]]
        name = f"{code.co_filename.removeprefix(OURS).removesuffix('.py')}.{code.co_name}"
        if any(map(self.stands, values)): self.returns[name] += 1
        if any(isinstance(o, nn.Module) for o in values): self.model[name] += 1
    def audit(self, event, args):
        if event != 'open' or not isinstance(args[0], (str, bytes, os.PathLike)) or 'r' not in (args[1] or 'r'): return
        path = Path(os.fsdecode(args[0]))
        if path.suffix != '.json' or self.folder not in path.resolve().parents: return
        frame = sys._getframe(2)
        while frame and (frame.f_code.co_filename.endswith(PLAIN) or '<frozen' in frame.f_code.co_filename): frame = frame.f_back
        if frame and frame.f_code.co_filename.startswith(OURS): self.opens[path.name] += 1
    def __enter__(self):
        WATCHING.append(self)
        sys.setprofile(self.profile)
        return self
    def __exit__(self, *args):
        sys.setprofile(None)
        WATCHING.pop()

WATCHING = []
sys.addaudithook(lambda event, args: WATCHING and WATCHING[-1].audit(event, args))

def watch(line, folder):
    with Watch(folder) as w: code, out, err = run_line(line)
    if code: sys.exit(f'{line} failed: {err}')
    return w

if __name__ == '__main__':
    limit, bad = int(sys.argv[1]) if sys.argv[1:] else 20, []
    with tempfile.TemporaryDirectory() as d:
        tuned = f'{d}/tuned'
        code, _, err = run_line(f'rank-bert-finetune sst2 --source sample --model prajjwal1/bert-tiny --n-train 64 --epochs 1 --out {tuned}')
        if code: sys.exit(err)
        Path(f'{d}/t.txt').write_text('\n'.join(f'a film about {o} and little else' for o in range(200)))
        lines = {f'rank-bert-compress {tuned} --budget .5 --out {d}/small': tuned,
            f'rank-bert-compress {tuned} --budget .5 --texts {d}/t.txt --out {d}/other': tuned,
            f'rank-bert-evaluate {tuned}': tuned, f"rank-bert-predict {tuned} 'a fine film'": tuned, f'rank-bert-analyze {tuned}': tuned,
            f'rank-bert-export {d}/small --to onnx --precision int8 --max-changed .9 --out {d}/shipped': f'{d}/small',
            f'rank-bert-evaluate {d}/shipped': f'{d}/shipped', f"rank-bert-predict {d}/shipped 'a fine film'": f'{d}/shipped'}
        for line, folder in lines.items():
            w = watch(line, folder)
            model = f', model {w.model.total()}' if 'export ' in line else ''
            print(f"{line.replace(d + '/', '')}\n    returns {w.returns.total()}{model}, opens {max(w.opens.values(), default=0)} {dict(w.opens)}")
            if os.environ.get('SHOW'): print('   ', *(f'{k} {n}' for k, n in w.returns.most_common(30)), sep='\n      ')
            if w.returns.total() > limit or max(w.opens.values(), default=0) > 1: bad.append(line.split()[0])
    if bad: sys.exit(f"over the limits: {', '.join(bad)}")
