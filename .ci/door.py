"""Count through how many functions a model goes in each command, and how often we open the JSON files of its folder.

    python .ci/door.py [--quick]

A command turns the folder that it gets into a `SavedModel` once. So whatever stands for the model (the folder as text, a `Path`, a
`SavedModel`) returns from at most 20 functions of ours that took it as an argument, and so does the model that `export` gets in
Python. What a `SavedModel` knows of itself is counted apart: each member is computed at most once, and `read` is called once
a file. Our own code opens each JSON file of the folder at most once; what transformers, sentence-transformers and tokenizers
open is theirs. --quick tries the commands that take seconds, SHOW=1 lists the functions."""
import dis, json, os, sys, tempfile
from collections import Counter
from pathlib import Path
os.environ |= dict(HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false')
import rank_bert
from rank_bert.models.folder import SavedModel
from rank_bert.commands.shell import run_line
from rank_bert.data.glue import load_glue, sample_tokenizer

MOST = 20
OURS = f'{Path(rank_bert.__file__).parent}{os.sep}'
OPENERS = 'pathlib.py', 'json/__init__.py', 'codecs.py' # they open for others
NAMES = '__str__', '__fspath__', '__init__' # of `SavedModel`: how it is made and printed

class Watch:
    "Count in a block what returns with a model, and which JSON files of its folder we open."
    def __init__(self, model): # a folder, or a loaded model
        self.model, self.returns, self.members, self.opens = model, Counter(), Counter(), Counter()
        self.folder = Path(model).resolve() if isinstance(model, str) else None
    def stands(self, o): # for the model
        if self.folder is None: return o is self.model
        if not isinstance(o, (str, os.PathLike)) or self.folder.name not in str(o): return False
        try: return Path(o).resolve() == self.folder
        except (OSError, ValueError): return False # a text, and no path
    def profile(self, frame, event, arg):
        code = frame.f_code
        if dis.opname[code.co_code[frame.f_lasti]] == 'YIELD_VALUE': return
        if event != 'return' or not code.co_filename.startswith(OURS) or code.co_name in NAMES: return
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        if not any(self.stands(frame.f_locals.get(k)) for k in names): return
        own = names[:1] == ('self',) and isinstance(frame.f_locals['self'], SavedModel)
        name = f"{code.co_filename.removeprefix(OURS).removesuffix('.py')}.{code.co_name}"
        (self.members if own else self.returns)[name] += 1
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
        both = self.returns.most_common() + self.members.most_common()
        more = ''.join(f'\n      {k} {n}' for k, n in both)*('SHOW' in os.environ)
        return (f'returns {self.returns.total()}, and {self.members.total()} from members of its own; '
            f'opens at most {self.most} times {dict(self.opens)}{more}')

WATCHING = []
sys.addaudithook(lambda event, args: WATCHING and WATCHING[-1].audit(event, args))

def shell(line):
    code, out, err = run_line(line)
    if code: sys.exit(f'{line} failed: {err}')

def untrained(folder):
    "Save a classifier for the sample as `finetune` would, but without training."
    from transformers import BertConfig, BertForSequenceClassification
    tok = sample_tokenizer()
    names = dict(enumerate(['negative', 'positive']))
    config = BertConfig(vocab_size=len(tok), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=64, id2label=names, label2id={v: k for k, v in names.items()})
    BertForSequenceClassification(config).save_pretrained(folder)
    tok.save_pretrained(folder)
    settings = dict(task='sst2', source='sample', max_length=64)
    (Path(folder)/'results.json').write_text(json.dumps(dict(settings=settings)))

def all_lines(d):
    "Fine-tune a model, and list each folder with a command that reads it."
    tuned, small, shipped = (f'{d}/{o}' for o in ('tuned', 'small', 'shipped'))
    shell(f'rank-bert-finetune sst2 --source sample --n-train 64 --epochs 1 --out {tuned}')
    Path(f'{d}/t.txt').write_text('\n'.join(load_glue('sst2', 'sample')['validation']['sentence']))
    return dict(compress=(tuned, f'{tuned} --budget .5 --out {small}'),
        texts=(tuned, f'{tuned} --budget .5 --texts {d}/t.txt --out {d}/other', 'compress'),
        evaluate=(tuned, tuned), predict=(tuned, f"{tuned} 'a fine film'"), analyze=(tuned, tuned),
        export=(small, f'{small} --to onnx --precision int8 --max-changed .9 --out {shipped}'),
        evaluate_export=(shipped, shipped, 'evaluate'), predict_export=(shipped, f"{shipped} 'a fine film'", 'predict'))

def quick_lines(d):
    "The same for the commands that take seconds."
    untrained(folder := f'{d}/tuned')
    return dict(evaluate=(folder, folder), predict=(folder, f"{folder} 'a fine film'"), analyze=(folder, folder))

if __name__ == '__main__':
    watched = {}
    with tempfile.TemporaryDirectory() as d:
        for name, (folder, args, *command) in (quick_lines if '--quick' in sys.argv else all_lines)(d).items():
            with Watch(folder) as watched[name]: shell(f"rank-bert-{(command or [name])[0]} {args}")
        if '--quick' not in sys.argv:
            from rank_bert.models.opener import open_model
            from rank_bert.ship.export import export
            model, tok, _ = open_model(f'{d}/tuned')
            with Watch(model.float()) as watched['export(model)']: export(model, tok, f'{d}/again', 'onnx', 'int8')
    for name, w in watched.items(): print(f'{name}: {w}')
    over = [k for k, w in watched.items() if w.returns.total() > MOST or w.most > 1]
    if over: sys.exit(f"over the limits: {', '.join(over)}")
