"""Run every notebook that has slow cells, with those cells: python .ci/slow.py [NOTEBOOK ...]

Each has a process of its own, because what a notebook leaves behind (patched methods, what was traced) is nothing that a
user has. The processes are forked from this one, which has imported the packages that take seconds, but nothing of ours.
The longest rooms come first; .ci/run tests nbs/io.ipynb beside all of this."""
import json, os, re, sys, time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

def is_slow(file):
    cells = json.loads(file.read_text(encoding='utf-8'))['cells']
    return any(re.search(r'^#\| *slow\b', ''.join(o['source']), re.M) for o in cells)

def test(file):
    "Run in a child: exit with 1 if a cell fails."
    from nbdev.config import get_config
    from nbdev.test import test_nb
    cfg = get_config()
    os.chdir(cfg.nbs_path)
    passed, _ = test_nb(file, skip_flags=cfg.tst_flags, force_flags=['slow'], basepath=cfg.config_path)
    sys.exit(not passed)

def test_all(files, n):
    "Test notebooks, `n` at a time; yield each with its seconds, or None if it failed."
    fork, waiting, running = get_context('fork'), list(files), {}
    while waiting or running:
        while waiting and len(running) < n:
            p = fork.Process(target=test, args=(file := waiting.pop(0),))
            p.start()
            running[p.sentinel] = p, file, time.time()
        for o in wait(list(running)):
            p, file, start = running.pop(o)
            p.join()
            yield file, None if p.exitcode else time.time() - start

if __name__ == '__main__':
    import datasets, fastai.text.all, matplotlib.pyplot, nbdev.test, scipy.stats, sklearn.metrics # for all children
    import transformers.models.bert.modeling_bert
    there = sorted((o for o in Path('nbs').resolve().rglob('*.ipynb') if '_proc' not in o.parts), reverse=True)
    files = [Path(o).resolve() for o in sys.argv[1:]] or [o for o in there if o.name != 'io.ipynb' and is_slow(o)]
    if not files: sys.exit('no notebook has slow cells: is this the top of the checkout?')
    found = test_all(files, int(os.environ.get('WORKERS', os.cpu_count())))
    took = {f.relative_to(Path.cwd()/'nbs'): seconds for f, seconds in found}
    slowest = sorted((s, f) for f, s in took.items() if s is not None)[::-1]
    print(f'{len(slowest)} of {len(took)} notebooks passed; the slowest:', *(f'{s:6.0f} s {f}' for s, f in slowest[:12]), sep='\n')
    if failed := [str(f) for f, s in took.items() if s is None]: sys.exit(f"failed: {', '.join(failed)}")
