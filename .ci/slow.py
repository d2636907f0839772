"""Run the slow cells of every notebook that has some, and of its other cells those that they need: python .ci/slow.py [NOTEBOOK ...]

README's test command has run all other cells, so here run imports, what is exported, and the cells before a slow one
that make or change what it names; tests do not, nor does a cell with the flag `leaf`, which only seems to. Each
notebook has a process of its own, because what one leaves behind (patched methods, what was traced) is nothing that a
user has. The processes are forked from this one, which has imported the packages that take seconds, but nothing of
ours. `FLAGS="slow scheduled"` runs the cells of the scheduled workflow, too. What a notebook printed that failed comes
last, where whoever reads the end of a log sees why."""
import ast, builtins, json, os, re, symtable, sys, tempfile, time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from execnb.shell import CaptureShell
from fastcore.nbio import read_nb
from nbdev.config import get_config

FLAGS = set(os.environ.get('FLAGS', 'slow').split())
EXPORTED = {'export', 'exporti', 'exports'}
LONGEST = 'ship/export commands/doors models/every nbs/draws compare/embedding_sweep shrink/compress shrink/prune lowrank/hf'.split()
flags_of = lambda source: set(re.findall(r'^#\| *(\w+)', source, re.M))

def names_of(source):
    "List the names of the notebook that a cell mentions, also those within functions."
    table = symtable.symtable(source, 'cell', 'exec')
    found, inner = {o.get_name() for o in table.get_symbols()}, list(table.get_children())
    while inner:
        found |= {o.get_name() for o in inner[-1].get_symbols() if o.is_global()}
        inner += inner.pop().get_children()
    return found - set(dir(builtins))

def changed_by(o):
    "List the names that a statement may make or change; a test changes none."
    if isinstance(o, (ast.Assert, ast.Pass, ast.Import, ast.ImportFrom)): return set()
    if isinstance(o, ast.With) and any('expect_' in ast.unparse(i) for i in o.items): return set()
    if isinstance(o, ast.Expr) and not any(isinstance(n, ast.Call) for n in ast.walk(o)): return set()
    if isinstance(o, ast.Expr) and isinstance(o.value, ast.Call) and ast.unparse(o.value.func).startswith('test_'): return set()
    if isinstance(o, (ast.FunctionDef, ast.ClassDef)): # a patch changes the class of its first parameter, and others a table
        notes = [a.annotation for a in o.args.args if a.annotation] if isinstance(o, ast.FunctionDef) and o.decorator_list else []
        return {o.name} | {n.id for a in (*notes, *o.decorator_list) for n in ast.walk(a) if isinstance(n, ast.Name)}
    places = [o.target] if isinstance(o, (ast.AugAssign, ast.AnnAssign)) else getattr(o, 'targets', None) or [o]
    folders = [n.left for n in ast.walk(o) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)] # it may write files there
    return {n.id for p in (*places, *folders) for n in ast.walk(p) if isinstance(n, ast.Name)} | {n.target.id for n in ast.walk(o) if isinstance(n, ast.NamedExpr)}

def needed(sources, flags=FLAGS):
    "List the cells to run: those with a flag, and what they need of the others."
    sources = [re.sub(r'^(\s*)[%!].*', r'\1pass', s, flags=re.M) for s in sources]
    bodies, fixed = [ast.parse(s).body for s in sources], set()
    if not any(flags_of(s) & flags for s in sources): return []
    always = [bool(flags_of(s) & EXPORTED) or all(isinstance(o, (ast.Import, ast.ImportFrom)) for o in b) for s, b in zip(sources, bodies)]
    for s, a in zip(sources, always):
        if a: fixed |= {o.get_name() for o in symtable.symtable(s, 'cell', 'exec').get_symbols() if o.is_assigned() or o.is_imported() or o.is_namespace()}
    changed = [set() if 'leaf' in flags_of(s) else set().union(*map(changed_by, b)) for s, b in zip(sources, bodies)]
    fixed -= set().union(*(c for c, a in zip(changed, always) if not a)) # an example may use a name again
    run, last = {i for i, a in enumerate(always) if a}, -1
    run |= (flagged := {i for i, o in enumerate(sources) if flags_of(o) & flags})
    while len(run) > last: # a function may call another that comes later
        last, want = len(run), set().union(*(names_of(sources[i]) for i in run if not always[i])) - fixed
        run |= {i for i, o in enumerate(changed) if o & want and i < max(flagged)}
    return sorted(run)

def sources(nb): return [c.source for c in nb.cells if c.cell_type == 'code']

def test(file, log):
    "Run in a child, which prints to `log`: exit with 1 if a cell fails."
    for fd in (1, 2): os.dup2(log.fileno(), fd)
    os.chdir(file.parent)
    os.environ['IN_TEST'] = '1'
    nb, shell = read_nb(file), CaptureShell(file)
    cells = [c for c in nb.cells if c.cell_type == 'code']
    nb.cells = [cells[i] for i in needed(sources(nb))]
    others = set(get_config(file.parent).tst_flags) - FLAGS
    try: shell.run_all(nb, exc_stop=True, preproc=lambda c: bool(flags_of(c.source) & others), postproc=say_slow)
    except BaseException: sys.exit(shell.prettytb(fname=file) or 1)

def say_slow(cell):
    if (seconds := cell.metadata['execution']['total']) > 3: print(f'{seconds:6.0f} s in cell {cell.id}')

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
    there = [o for o in Path('nbs').resolve().rglob('*.ipynb') if '_proc' not in o.parts]
    there.sort(key=lambda o: (f'{o.parent.name}/{o.stem}' not in LONGEST, o)) # so that all workers end at about one time
    files = [Path(o).resolve() for o in sys.argv[1:]] or [o for o in there if needed(sources(read_nb(o)))]
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
