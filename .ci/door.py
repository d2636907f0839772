"""Count through how many functions a model goes in each command, and how often we open the JSON files of its folder.

    python .ci/door.py [LIMIT]

A command turns the folder that it gets into a `SavedModel` once. So whatever stands for the model (the folder as text, a
`Path`, a `SavedModel`) should return from few functions of ours that took it as an argument, its own properties included;
and so should the model that `export` gets in Python: from at most LIMIT, 20 by default. Our own code should open each JSON
file of the folder at most once; what transformers, sentence-transformers and tokenizers open is theirs. SHOW=1 lists the
functions."""
import os, sys, tempfile
from collections import Counter
from pathlib import Path
os.environ |= dict(HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false')
import rank_bert
from rank_bert.commands.shell import run_line
from rank_bert.data.glue import load_glue

OURS = f'{Path(rank_bert.__file__).parent}{os.sep}'
OPENERS = 'pathlib.py', 'json/__init__.py', 'codecs.py' # they open for others
NAMES = '__str__', '__fspath__', '__init__' # of `SavedModel`: how it is made and printed

class Watch:
    "Count in a block what returns with a model, and which JSON files of its folder we open."
    def __init__(self, model): # a folder, or a loaded model
        self.model, self.returns, self.opens = model, Counter(), Counter()
        self.folder = Path(model).resolve() if isinstance(model, str) else None
    def stands(self, o): # for the model
        if self.folder is None: return o is self.model
        if not isinstance(o, (str, os.PathLike)) or self.folder.name not in str(o): return False
        try: return Path(o).resolve() == self.folder
        except (OSError, ValueError): return False # a text, and no path
    def profile(self, frame, event, arg):
        code = frame.f_code
        if event != 'return' or not code.co_filename.startswith(OURS) or code.co_name in NAMES: return
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        if not any(self.stands(frame.f_locals.get(k)) for k in names): return
        self.returns[f"{code.co_filename.removeprefix(OURS).removesuffix('.py')}.{code.co_name}"] += 1
    def audit(self, event, args):
        if event != 'open' or self.folder is None or not isinstance(args[0], (str, bytes, os.PathLike)): return
        path = Path(os.fsdecode(args[0]))
        if path.suffix != '.json' or set(args[1] or 'r') & set('wax+') or self.folder not in path.resolve().parents: return
        frame = sys._getframe(2)
        while frame and (frame.f_code.co_filename.endswith(OPENERS) or '<' in frame.f_code.co_filename): frame = frame.f_back
        if frame and frame.f_code.co_filename.startswith(OURS): self.opens[path.name] += 1
    def __enter__(self):
        WATCHING.append(self)
        sys.setprofile(self.profile)
        return self
    def __exit__(self, *args):
        sys.setprofile(None)
        WATCHING.pop()
    @property
    def most(self): return max(self.opens.values(), default=0)
    def __str__(self):
        more = ''.join(f'\n      {k} {n}' for k, n in self.returns.most_common())*('SHOW' in os.environ)
        return f'returns {self.returns.total()}, opens at most {self.most} times {dict(self.opens)}{more}'

WATCHING = []
sys.addaudithook(lambda event, args: WATCHING and WATCHING[-1].audit(event, args))

def shell(line):
    code, out, err = run_line(line)
    if code: sys.exit(f'{line} failed: {err}')

if __name__ == '__main__':
    limit, bad = int(sys.argv[1]) if sys.argv[1:] else 20, []
    with tempfile.TemporaryDirectory() as d:
        tuned, small, shipped = (f'{d}/{o}' for o in ('tuned', 'small', 'shipped'))
        shell(f'rank-bert-finetune sst2 --source sample --n-train 64 --epochs 1 --out {tuned}')
        Path(f'{d}/t.txt').write_text('\n'.join(load_glue('sst2', 'sample')['validation']['sentence']))
        lines = [(tuned, f'rank-bert-compress {tuned} --budget .5 --out {small}'),
            (tuned, f'rank-bert-compress {tuned} --budget .5 --texts {d}/t.txt --out {d}/other'),
            (tuned, f'rank-bert-evaluate {tuned}'), (tuned, f"rank-bert-predict {tuned} 'a fine film'"), (tuned, f'rank-bert-analyze {tuned}'),
            (small, f'rank-bert-export {small} --to onnx --precision int8 --max-changed .9 --out {shipped}'),
            (shipped, f'rank-bert-evaluate {shipped}'), (shipped, f"rank-bert-predict {shipped} 'a fine film'")]
        watched = {}
        for folder, line in lines:
            with Watch(folder) as watched[line.replace(f'{d}/', '')]: shell(line)
        from rank_bert.models.opener import open_model
        from rank_bert.ship.export import export
        model, tok, _ = open_model(tuned)
        with Watch(model.float()) as watched['export(model, tokenizer, folder)']: export(model, tok, f'{d}/again', 'onnx', 'int8')
        for name, w in watched.items(): print(f'{name}\n    {w}')
        if bad := [k for k, w in watched.items() if w.returns.total() > limit or w.most > 1]: sys.exit(f"over the limits: {', '.join(bad)}")
