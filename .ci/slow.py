"""Run every notebook that has slow cells, with those cells: python .ci/slow.py [NOTEBOOK ...]

Each has a process of its own, because what a notebook leaves behind (patched methods, what was traced) is nothing that a
user has. The processes are forked from this one, which has imported the packages that take seconds, but nothing of ours.
The longest rooms come first; .ci/run tests nbs/io.ipynb beside all of this. What a notebook printed that failed comes
last, where whoever reads the end of a log sees why."""
import json, os, re, sys, tempfile, time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

def is_slow(file):
    cells = json.loads(file.read_text(encoding='utf-8'))['cells']
    return any(re.search(r'^#\| *slow\b', ''.join(o['source']), re.M) for o in cells)

def test(file, log):
    "Run in a child, which prints to `log`: exit with 1 if a cell fails."
    from nbdev.config import get_config
    from nbdev.test import test_nb
    for fd in (1, 2): os.dup2(log.fileno(), fd)
    cfg = get_config()
    os.chdir(cfg.nbs_path)
    passed, _ = test_nb(file, skip_flags=cfg.tst_flags, force_flags=['slow'], basepath=cfg.config_path)
    sys.exit(not passed)

def test_all(files, n):
    "Test notebooks, `n` at a time; yield each with its seconds, None if it failed, and what it printed."
    fork, waiting, running = get_context('fork'), list(files), {}
    while waiting or running:
        while waiting and len(running) < n:
            log = tempfile.TemporaryFile('w+', errors='replace')
            p = fork.Process(target=test, args=(file := waiting.pop(0), log))
            p.start()
            running[p.sentinel] = p, file, log, time.time()
        for o in wait(list(running)):
            p, file, log, start = running.pop(o)
            p.join()
            log.seek(0)
            yield file, None if p.exitcode else time.time() - start, log.read()
            log.close()

if __name__ == '__main__':
    import datasets, fastai.text.all, matplotlib.pyplot, nbdev.test, scipy.stats, sklearn.metrics # for all children
    import transformers.models.bert.modeling_bert
    there = sorted((o for o in Path('nbs').resolve().rglob('*.ipynb') if '_proc' not in o.parts), reverse=True)
    files = [Path(o).resolve() for o in sys.argv[1:]] or [o for o in there if o.name != 'io.ipynb' and is_slow(o)]
    if not files: sys.exit('no notebook has slow cells: is this the top of the checkout?')
    took, failed = {}, {}
    for file, seconds, shown in test_all(files, int(os.environ.get('WORKERS', os.cpu_count()))):
        name = str(file.relative_to(Path.cwd()/'nbs'))
        if seconds is None: failed[name] = shown
        else: took[name] = seconds; print(shown, end='', flush=True)
    slowest = sorted(took, key=took.get, reverse=True)[:12]
    print(f'{len(took)} of {len(files)} notebooks passed; the slowest:', *(f'{took[o]:6.0f} s {o}' for o in slowest), sep='\n')
    for name, shown in failed.items(): print(f'\n-- {name} printed at the end:', shown[-8000:], sep='\n')
    if failed: sys.exit(f"failed: {', '.join(failed)}")
