"""Change the library in N places, one at a time, and see which changes the tests notice:

    python .ci/mutants.py N --seed S [--module M] [--workers W] [--folder F] [--list FILE]

A mutant is one change in an exported cell: a comparison turned, `+` to `-`, a constant changed, `and` to `or`, an `if`
never taken, an argument dropped, or the `return` of its neighbour; never in a text, an error or a warning. It is made in
a copy of what git tracks, in the notebook and its module. There the default cells of the module's notebook run, then
those of the notebooks that import the module, quick ones first, until a cell fails: the mutant is *caught*. After 60
seconds of CPU it is *undecided*, and otherwise it *survived*. A cell that takes ten times its normal time has failed. A
test that compares source text or a repr fails without consequence: it would notice a comment.

Each notebook has a process, forked from this one, which has imported other packages but nothing of ours. It has its own
HOME and TMPDIR, the checkout is mounted read-only where `unshare` may do that, and generators have seeds. Before any
mutant, the unchanged copy passes twice.

Everything is written to the folder, so a run that was cut off goes on where it was: mutants.jsonl is what was drawn,
normal.jsonl what the unchanged copy took, results.jsonl what came of each mutant. `--list` takes a mutants.jsonl or a
results.jsonl of another commit instead of drawing, finds each change again by its cell and line, and first runs the
notebook that caught it there. A change whose line is gone is listed as such."""
import argparse, ast, fcntl, json, os, random, re, resource, shutil, signal, subprocess, sys, tempfile, time
from collections import Counter
from pathlib import Path

CPU = 60 # seconds for a mutant
SLOWER = 10 # times the normal time of a cell
LEAST = 1. # seconds: what a quicker cell is taken for, since start-up varies
ROOM = 1<<30 # bytes that must be free
ENV = dict(OMP_NUM_THREADS='1', PYTHONHASHSEED='0', HF_HUB_OFFLINE='1', TOKENIZERS_PARALLELISM='false', MPLBACKEND='agg',
    HF_HUB_DISABLE_TELEMETRY='1', RANK_BERT_DRAWS='0.25', IN_TEST='1')
EXPORTED = {'export', 'exporti', 'exports'}
TURNED = {ast.Lt: ('<', '>='), ast.GtE: ('>=', '<'), ast.Gt: ('>', '<='), ast.LtE: ('<=', '>'), ast.Eq: ('==', '!='),
    ast.NotEq: ('!=', '=='), ast.Is: ('is', 'is not'), ast.IsNot: ('is not', 'is'), ast.In: ('in', 'not in'), ast.NotIn: ('not in', 'in')}
PLACE = ('n', 'module', 'notebook', 'cell', 'function', 'kind', 'before', 'after', 'nth')
MESSAGES = re.compile(r'warn|error|print|log') # calls whose arguments are texts for people
READS_CODE = re.compile(r'getsource|read_nb|ast\.parse|_modidx|\*\.py\b') # such a cell compares source text
READS_REPR = re.compile(r'\brepr\(|__repr__|extra_repr|__doc__')

### What to change

def flags_of(source): return set(re.findall(r'^#\| *(\w+)', source, re.M))

def code_cells(notebook):
    "List the code cells of a notebook as pairs of id and source."
    cells = json.loads(notebook.read_text(encoding='utf-8'))['cells']
    return [(c['id'], ''.join(c['source'])) for c in cells if c['cell_type'] == 'code']

def without_magics(source): return re.sub(r'^(\s*)[%!].*', r'\1pass', source, flags=re.M)

def module_of(notebook):
    "Return the module that a notebook exports, such as rank_bert.io, or None."
    for _, source in code_cells(notebook):
        if found := re.search(r'^#\| *default_exp +(\S+)', source, re.M): return f'rank_bert.{found[1]}'

def imported(notebook):
    "List the modules that a notebook imports by name."
    res = set()
    for _, source in code_cells(notebook):
        for o in ast.walk(ast.parse(without_magics(source))):
            if isinstance(o, ast.Import): res |= {a.name for a in o.names}
            if isinstance(o, ast.ImportFrom) and o.module: res |= {o.module, *(f'{o.module}.{a.name}' for a in o.names)}
    return res

class Places(ast.NodeVisitor):
    "Collect the places of a cell that could be changed, as (kind, function, start, end, new text), in bytes."
    def __init__(self, source):
        self.text, self.found, self.function, self.returns = source.encode(), [], [], []
        self.starts = [0]
        for line in self.text.splitlines(keepends=True): self.starts.append(self.starts[-1] + len(line))
        self.visit(ast.parse(source))

    def start(self, o): return self.starts[o.lineno-1] + o.col_offset
    def end(self, o): return self.starts[o.end_lineno-1] + o.end_col_offset
    def of(self, o): return self.text[self.start(o):self.end(o)].decode()
    def add(self, kind, start, end, new): self.found.append((kind, '.'.join(self.function), start, end, new))

    def between(self, kind, left, right, old, new):
        "Replace an operator, which stands between two operands."
        part = self.text[self.end(left):self.start(right)].decode()
        where = re.search(r'\s+'.join(map(re.escape, old.split())), part)
        if where: self.add(kind, self.end(left) + where.start(), self.end(left) + where.end(), new)

    def visit_Raise(self, o): pass
    def visit_JoinedStr(self, o): pass
    def visit_Import(self, o): pass
    def visit_ImportFrom(self, o): pass
    def visit_AnnAssign(self, o): o.value and self.visit(o.value)

    def visit_FunctionDef(self, o):
        self.function.append(o.name)
        outer, self.returns = self.returns, []
        for d in (*o.args.defaults, *(d for d in o.args.kw_defaults if d)): self.visit(d)
        for s in o.body: self.visit(s)
        for a, b in zip(self.returns, self.returns[1:] + self.returns[-2:-1]):
            if self.of(a) != self.of(b): self.add('return of its neighbour', self.start(a), self.end(a), self.of(b))
        self.returns = outer
        self.function.pop()
    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, o):
        self.function.append(o.name)
        for s in o.body: self.visit(s)
        self.function.pop()

    def visit_Lambda(self, o):
        for d in (*o.args.defaults, *(d for d in o.args.kw_defaults if d)): self.visit(d)
        self.visit(o.body)

    def visit_Return(self, o):
        if o.value:
            self.returns.append(o.value)
            self.visit(o.value)

    def visit_If(self, o):
        if not isinstance(o.test, ast.Constant): self.add('if never taken', self.start(o.test), self.end(o.test), 'False')
        self.generic_visit(o)

    def visit_Compare(self, o):
        operands = [o.left, *o.comparators]
        for left, op, right in zip(operands, o.ops, o.comparators):
            self.between('comparison turned', left, right, *TURNED[type(op)])
        self.generic_visit(o)

    def visit_BinOp(self, o):
        if isinstance(o.op, ast.Add): self.between('+ to -', o.left, o.right, '+', '-')
        self.generic_visit(o)

    def visit_AugAssign(self, o):
        if isinstance(o.op, ast.Add): self.between('+ to -', o.target, o.value, '+=', '-=')
        self.generic_visit(o)

    def visit_BoolOp(self, o):
        if isinstance(o.op, ast.And):
            for left, right in zip(o.values, o.values[1:]): self.between('and to or', left, right, 'and', 'or')
        self.generic_visit(o)

    def visit_Constant(self, o):
        if isinstance(o.value, bool): self.add('constant changed', self.start(o), self.end(o), str(not o.value))
        elif isinstance(o.value, int): self.add('constant changed', self.start(o), self.end(o), str(o.value + 1))
        elif isinstance(o.value, float): self.add('constant changed', self.start(o), self.end(o), repr(2*o.value or 1.))

    def visit_Call(self, o):
        if MESSAGES.search(ast.unparse(o.func).rsplit('.')[-1].lower()): return
        given = sorted([*o.args, *o.keywords], key=self.start)
        for i, a in enumerate(given):
            if isinstance(a, ast.keyword) or i == len(given) - 1 > 0: # one that is named, or the last of several
                start = self.end(given[i-1]) if i else self.start(a)
                end = self.end(a) if i or len(given) == 1 else self.start(given[1])
                self.add('argument dropped', start, end, '')
        self.generic_visit(o)

def whole_lines(source, start, end, new):
    "Return the lines that a change touches, as they are and as they become, and how often the former stand before them."
    text = source.encode()
    first = text.rfind(b'\n', 0, start) + 1
    last = text.find(b'\n', end)
    if last < 0: last = len(text)
    before = text[first:last].decode()
    after = (text[first:start] + new.encode() + text[end:last]).decode()
    return before, after, len(occurrences(text[:last].decode(), before)) - 1

def occurrences(source, lines):
    "List where some whole lines begin in a source."
    return [i for i in range(len(source)) if source.startswith(lines, i) and (i == 0 or source[i-1] == '\n')
            and source[i+len(lines):i+len(lines)+1] in ('', '\n')] if lines in source else []

def changed(source, mutant):
    "Return a cell's source with the change of a mutant, None if its lines are gone."
    found = occurrences(source, mutant['before'])
    if not found: return None
    i = found[min(mutant['nth'], len(found) - 1)]
    return source[:i] + mutant['after'] + source[i+len(mutant['before']):]

def all_places(top, module=None):
    "Yield every place of the library, in a fixed order, as a mutant."
    for notebook in sorted((top/'nbs').rglob('*.ipynb')):
        name = module_of(notebook)
        if not name or module not in (None, name, name.removeprefix('rank_bert.')): continue
        for cell, source in code_cells(notebook):
            if not flags_of(source) & EXPORTED: continue
            for kind, function, start, end, new in Places(source).found:
                before, after, nth = whole_lines(source, start, end, new)
                yield dict(module=name, notebook=str(notebook.relative_to(top/'nbs')), cell=cell, function=function, kind=kind,
                    before=before, after=after, nth=nth)

def draw(top, n, seed, module=None):
    "Draw `n` mutants that are valid Python and differ from what is there."
    places = list(all_places(top, module))
    if not places: sys.exit(f'--module {module}: no notebook exports a module of that name, such as io or shrink.compress')
    random.Random(seed).shuffle(places)
    sources, res = {}, []
    for o in places:
        if len(res) == n: break
        if o['notebook'] not in sources: sources[o['notebook']] = dict(code_cells(top/'nbs'/o['notebook']))
        source = sources[o['notebook']][o['cell']]
        try: differs = ast.dump(ast.parse(changed(source, o))) != ast.dump(ast.parse(source))
        except SyntaxError: continue
        if differs: res.append(dict(n=len(res), **o))
    return res

def place_again(top, mutant):
    "Return the notebook, the cell and its changed source for a mutant of any commit, or None if its lines are gone."
    books = [o for o in (top/'nbs').rglob('*.ipynb') if module_of(o) == mutant['module']]
    for book in books:
        cells = [c for c in code_cells(book) if flags_of(c[1]) & EXPORTED]
        name = f"{mutant['function'].rsplit('.')[-1]}("
        for cell, source in sorted(cells, key=lambda c: (c[0] != mutant['cell'], name not in c[1])):
            new = changed(source, mutant)
            if new is None or cell != mutant['cell'] and name not in source: continue
            return book, cell, new

def listed(file):
    "Read the mutants of another run, with the notebook that caught each."
    mutants = [o for o in read_lines(file) if 'before' in o]
    return [{k: v for k, v in o.items() if k in PLACE or k == 'by' and o.get('verdict') == 'caught'} for o in mutants]

### Run a notebook in a child

def notebook_child(copy, home, name, normal, left, log):
    "Run the default cells of a notebook in this process, and write to `log` what each took; exit with 1 if one fails."
    os.setsid()
    out = open(home/'shown', 'w')
    for fd in (1, 2): os.dup2(out.fileno(), fd)
    os.environ.update(HOME=str(home), TMPDIR=str(home/'tmp'), PYTHONPATH=str(copy), RANK_BERT_CACHE=str(home/'cache'),
        XDG_CACHE_HOME=str(home/'cache'))
    tempfile.tempdir = None
    sys.path[:] = [str(copy), *(o for o in sys.path if o)]
    book = copy/'nbs'/name
    os.chdir(book.parent)
    import numpy, torch
    from execnb.shell import CaptureShell
    from nbdev.config import get_config
    from nbdev.process import NBProcessor
    from nbdev.test import _skip_cell
    import rank_bert
    if Path(rank_bert.__file__).parent != copy/'rank_bert': os._exit(4)
    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + left) + 1, resource.RLIM_INFINITY))
    nb, shell = NBProcessor(book, rm_directives=False, process=True).nb, CaptureShell(book)
    skip = _skip_cell(nb, get_config(book.parent).tst_flags, None)
    for cell in nb.cells:
        if skip(cell): continue
        print(json.dumps(dict(cell=cell.id)), file=log, flush=True)
        started, used = time.time(), cpu_seconds()
        limit = SLOWER*max(LEAST, normal.get(cell.id, [LEAST])[0])
        signal.setitimer(signal.ITIMER_PROF, limit)
        error, ignored = run_cell(shell, cell)
        signal.setitimer(signal.ITIMER_PROF, 0)
        took = [round(cpu_seconds() - used, 3), round(time.time() - started, 3)]
        print(json.dumps(dict(cell=cell.id, took=took, error=error, ignored=ignored)), file=log, flush=True)
        if error: os._exit(1)
    os._exit(0)

def run_cell(shell, cell):
    "Run a cell; return what failed in it, and what failed without counting because it compares source text or a repr."
    ignored = []
    if READS_CODE.search(cell.source):
        shell.cell(cell)
        return None, [f'{type(shell.exc).__name__}: {shell.exc}'[:200]] if shell.exc else []
    shell.cell(cell)
    source = cell.source
    while shell.exc:
        text = f'{type(shell.exc).__name__}: {shell.exc}'[:300]
        failed, rest = split_at_failure(source, shell.exc)
        if failed is None or not READS_REPR.search(failed): return text, ignored
        ignored.append(text)
        source = rest
        shell.run(source)
    return None, ignored

def split_at_failure(source, exc):
    "Return the test of a cell that failed, and what comes after it; (None, '') if it is no test."
    tb = exc.__traceback__
    while tb and not (tb.tb_frame.f_code.co_name == '<module>' and tb.tb_frame.f_globals.get('__name__') == '__main__'
                      and not Path(tb.tb_frame.f_code.co_filename).is_file()): tb = tb.tb_next
    try: body = ast.parse(source).body
    except SyntaxError: return None, ''
    if tb is None: return None, ''
    lines = source.splitlines()
    for o in body:
        if not o.lineno <= tb.tb_lineno <= o.end_lineno: continue
        text = '\n'.join(lines[o.lineno-1:o.end_lineno])
        if text.startswith(('assert', 'test_', 'expect_')): return text, '\n'.join(lines[o.end_lineno:])
    return None, ''

def cpu_seconds():
    "CPU seconds of this process and of the children it waited for."
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system

def run_notebook(copy, home, name, normal, left=float('inf')):
    "Run a notebook in a child; return (None, None, '') or what failed: 'cell', 'time' or 'cpu', the cell and the message; and CPU seconds, cells."
    home.mkdir(exist_ok=True)
    (home/'tmp').mkdir(exist_ok=True)
    path = home/'log'
    path.unlink(missing_ok=True)
    with open(path, 'w') as log:
        if not (pid := os.fork()):
            try: notebook_child(copy, home, name, normal, min(left, 10**6), log)
            except BaseException as e:
                print(json.dumps(dict(cell=None, took=[0, 0], error=f'{type(e).__name__}: {e}'[:300], ignored=[])), file=log, flush=True)
            os._exit(1)
    longest = SLOWER*max([6, *(wall for _, wall in normal.values())]) + 60 # a cell that waits forever takes no CPU
    hung = False
    try:
        while not (done := os.wait4(pid, os.WNOHANG))[0]:
            if os.getppid() != WATCHED: sys.exit('the parent is gone')
            if time.time() - path.stat().st_mtime > longest:
                hung = True
                os.kill(pid, signal.SIGKILL)
            time.sleep(.1)
    finally:
        try: os.killpg(pid, signal.SIGKILL) # with what it started
        except ProcessLookupError: pass
    status, used = done[1], done[2].ru_utime + done[2].ru_stime
    lines = [json.loads(o) for o in path.read_text().splitlines() if o.endswith('}')]
    cells = {o['cell']: o['took'] for o in lines if 'took' in o}
    cell = lines[-1]['cell'] if lines else None
    if hung: return 'time', cell, 'waited ten times as long as normal', used, cells
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGXCPU: return 'cpu', cell, '', used, cells
        why = 'took ten times as long as normal' if os.WTERMSIG(status) == signal.SIGPROF else f'killed by signal {os.WTERMSIG(status)}'
        return ('time' if os.WTERMSIG(status) == signal.SIGPROF else 'cell'), cell, why, used, cells
    if os.WEXITSTATUS(status) == 4: stop(f'{name} imported a rank_bert that is not the copy in {copy}')
    if status: return 'cell', cell, lines[-1].get('error') or 'the process ended' if lines else 'the process ended', used, cells
    return None, None, '', used, cells

### Mutants

class Stop(Exception): pass
def stop(text): raise Stop(text)
WATCHED = None

def copy_tree(top, to):
    "Copy what git tracks, or stop with the reason."
    free = shutil.disk_usage(to.parent).free
    if free < ROOM: stop(f'{free>>20} MB free in {to.parent}, which should be {ROOM>>20} for a copy: free some, or set TMPDIR; a second call goes on')
    try:
        for name in tracked(top):
            (to/name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(top/name, to/name)
    except OSError as e: stop(f'the copy in {to} could not be made ({e}): free some room or set TMPDIR; a second call goes on')
    return to

def tracked(top):
    "List the files of a checkout that git tracks and that are there."
    names = subprocess.run(['git', '-C', top, 'ls-files', '-z'], capture_output=True, text=True, check=True).stdout.split('\0')
    return [o for o in names if o and (top/o).is_file()]

def write_mutant(copy, mutant):
    "Change a copy, the notebook and its module; return the notebook, or None if the lines are gone."
    from nbdev.export import nb_export
    place = place_again(copy, mutant)
    if place is None: return None
    book, cell, source = place
    nb = json.loads(book.read_text(encoding='utf-8'))
    for c in nb['cells']:
        if c.get('id') == cell: c['source'] = source.splitlines(keepends=True)
    file = copy/(mutant['module'].replace('.', '/') + '.py')
    old = file.read_text(encoding='utf-8')
    book.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')
    os.chdir(copy)
    nb_export(book, lib_path=copy/'rank_bert')
    if file.read_text(encoding='utf-8') == old: stop(f'the change in {book.name} did not reach {file}')
    return str(book.relative_to(copy/'nbs'))

def order_of(mutant, book, books, normal):
    "List the notebooks to run: where the mutant was caught before, its own, then those that import it, quick ones first."
    def time_of(o): return sum(cpu for cpu, _ in normal[o].values())
    users = sorted((o for o, names in books.items() if mutant['module'] in names and o != book), key=lambda o: (time_of(o), o))
    before = [mutant['by']] if mutant.get('by') in books else []
    return list(dict.fromkeys([*before, book, *users]))

def run_mutant(top, work, mutant, books, normal):
    "Return what becomes of a mutant."
    home, used = Path(tempfile.mkdtemp(dir=work)), 0.
    try:
        copy = copy_tree(top, home/'copy')
        book = write_mutant(copy, mutant)
        res = dict(mutant, by=None, at=None, why='', cpu=0)
        if book is None: return dict(res, verdict='gone')
        for i, name in enumerate(order_of(mutant, book, books, normal)):
            what, cell, why, cpu, _ = run_notebook(copy, home/f'home{i}', name, normal[name], CPU - used)
            used += cpu
            if shutil.disk_usage(work).free < ROOM: stop(f'less than {ROOM>>20} MB left in {work}: free some; a second call goes on')
            if what == 'cpu' or what is None and used > CPU: return dict(res, verdict='undecided', by=name, cpu=round(used, 1))
            if what: return dict(res, verdict='caught', by=name, at=cell, why=why, cpu=round(used, 1))
            shutil.rmtree(home/f'home{i}', ignore_errors=True)
        return dict(res, verdict='survived', cpu=round(used, 1))
    finally: shutil.rmtree(home, ignore_errors=True)

def pass_unchanged(top, work, name):
    "Return what the cells of a notebook take in an unchanged copy, or stop."
    home = Path(tempfile.mkdtemp(dir=work))
    try:
        copy = copy_tree(top, home/'copy')
        what, cell, why, cpu, cells = run_notebook(copy, home/'home', name, {})
        if what: stop(f'the unchanged copy fails in cell {cell} of {name}: {why}')
        return dict(notebook=name, cells=cells)
    finally: shutil.rmtree(home, ignore_errors=True)

### The run

def read_lines(file):
    "Read a JSON lines file; what a cut-off run wrote half is left out."
    res = []
    for line in file.read_text(encoding='utf-8').splitlines() if file.exists() else []:
        try: res.append(json.loads(line))
        except ValueError: pass
    return res

def append(file, value):
    with open(file, 'a+b') as f:
        f.seek(0, 2)
        if f.tell():
            f.seek(-1, 2)
            if f.read(1) != b'\n': f.write(b'\n') # the last run was cut off within a line
        f.write(json.dumps(value, ensure_ascii=False).encode() + b'\n')

def in_children(jobs, n, file):
    "Call functions in forked children, `n` at a time, and append to a file what each returns; stop when one does."
    global WATCHED
    running, failed, jobs = {}, None, list(jobs)
    try:
        while (jobs and not failed) or running:
            while jobs and not failed and len(running) < n:
                job = jobs.pop(0)
                sys.stdout.flush()
                if not (pid := os.fork()):
                    WATCHED = os.getppid()
                    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
                    code = 1
                    try:
                        value = job()
                        with open(file.with_suffix('.lock'), 'w') as lock:
                            fcntl.flock(lock, fcntl.LOCK_EX)
                            append(file, value)
                        what = value.get('verdict', 'passed')
                        print(value.get('n', ''), what, value.get('by') or value['notebook'], value.get('at') or '', value.get('cpu', ''), flush=True)
                        code = 0
                    except (Stop, OSError) as e: print(e, flush=True)
                    except BaseException as e: print(f'{type(e).__name__}: {e}', flush=True)
                    finally: os._exit(code)
                running[pid] = job
            pid, status = os.wait()
            if running.pop(pid, None) and status: failed = True
    finally:
        for pid in running: os.kill(pid, signal.SIGTERM)
    if failed: sys.exit(f'stopped; {file.parent} holds what is done, and a second call goes on')

def state(top):
    "Return what tells whether a checkout is as it was."
    return {o: (s.st_size, s.st_mtime_ns) for o in tracked(top) for s in [(top/o).stat()]}

def report(results):
    "Print the table of verdicts by kind, and what was not caught."
    verdicts = ('caught', 'undecided', 'survived', 'gone')
    print(f"\n{'':24}", *(f'{o:>10}' for o in verdicts))
    kinds = sorted({o['kind'] for o in results})
    for kind in (*kinds, 'all'):
        counts = Counter(o['verdict'] for o in results if kind in ('all', o['kind']))
        print(f'{kind:24}', *(f'{counts[o]:10}' for o in verdicts))
    for o in sorted(results, key=lambda o: (o['verdict'], o['module'], o['n'])):
        if o['verdict'] != 'caught': print(f"\n{o['verdict']} {o['n']}: {o['module']} {o['cell']} {o['function']}, {o['kind']}\n- {o['before']}\n+ {o['after']}")

def within(top, folder):
    "Start this script again, where the system allows it with the checkout mounted read-only."
    env = {**os.environ, **ENV, 'RANK_BERT_MUTANTS': '1'}
    env.pop('PYTHONDONTWRITEBYTECODE', None)
    command = [sys.executable, *sys.argv]
    mount = 'mount --bind "$0" "$0" && mount --bind "$1" "$1" && mount -o remount,bind,ro "$0" && shift && exec "$@"'
    for o in (['unshare', '-m'], ['unshare', '-rm']):
        try: able = subprocess.run([*o, 'sh', '-c', mount, top, folder, 'true'], capture_output=True).returncode == 0
        except OSError: able = False
        if able: os.execvpe(o[0], [*o, 'sh', '-c', mount, str(top), str(folder), *command], env)
    print('the checkout cannot be mounted read-only here; whether it changed is looked at in the end')
    os.execvpe(command[0], command, env)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('n', type=int, help='Mutants')
    p.add_argument('--seed', type=int, required=True, help='What the draw is a function of')
    p.add_argument('--module', help='Draw in this module only, such as shrink.compress')
    p.add_argument('--workers', type=int, default=os.cpu_count(), help='Mutants at a time')
    p.add_argument('--folder', type=Path, help='Where results are kept; by default mutants-N-S in the folder of temporary files')
    p.add_argument('--list', type=Path, help='Mutants of another run, instead of drawing')
    p.add_argument('--draw', action='store_true', help='Only draw, and print the list')
    args = p.parse_args()
    if args.n < 1 or args.workers < 1: sys.exit('N and --workers must be at least 1')
    top = Path(__file__).resolve().parent.parent
    folder = (args.folder or Path(tempfile.gettempdir())/f'mutants-{args.n}-{args.seed}').resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if 'RANK_BERT_MUTANTS' not in os.environ and not args.draw: within(top, folder)

    file, commit = folder/'mutants.jsonl', subprocess.run(['git', '-C', top, 'rev-parse', 'HEAD'], capture_output=True, text=True, check=True).stdout.strip()
    head = dict(seed=args.seed, module=args.module, asked=args.n, commit=commit)
    if file.exists():
        first, *mutants = read_lines(file)
        if first != head: sys.exit(f'{folder} holds another run ({first}): give another --folder, or remove it')
    else:
        mutants = listed(args.list)[:args.n] if args.list else draw(top, args.n, args.seed, args.module)
        half = file.with_suffix('.half')
        half.write_text('\n'.join(json.dumps(o, ensure_ascii=False) for o in (head, *mutants)) + '\n', encoding='utf-8')
        half.rename(file)
    if args.draw: return print(*(f"{o['n']} {o['module']} {o['cell']} {o['kind']}\n- {o['before']}\n+ {o['after']}" for o in mutants), sep='\n')

    books = {str(o.relative_to(top/'nbs')): imported(o) for o in sorted((top/'nbs').rglob('*.ipynb')) if not {'_proc', '.ipynb_checkpoints'} & set(o.parts)}
    own = {module_of(top/'nbs'/o): o for o in books}
    modules = {o['module'] for o in mutants}
    needed = [o for o, names in books.items() if names & modules or o in {own.get(m) for m in modules}]
    before = state(top)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended; a second call goes on')) # and removes the copies
    import datasets, fastai.text.all, matplotlib.pyplot, nbdev.export, nbdev.process, nbdev.test, scipy.stats, sklearn.metrics # for all children
    import execnb.shell, transformers.models.bert.modeling_bert
    import hypothesis
    hypothesis.settings.register_profile('mutants', derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile('mutants')
    assert not [o for o in sys.modules if o.split('.')[0] == 'rank_bert']
    os.environ.pop('RANK_BERT_MUTANTS')
    with tempfile.TemporaryDirectory(prefix='mutants-') as work:
        work = Path(work)
        passed = Counter(o['notebook'] for o in read_lines(folder/'normal.jsonl'))
        missing = [o for o in needed for _ in range(2 - passed[o])]
        if missing: print(f'{len(missing)} runs of {len(needed)} notebooks of the unchanged copy, each must pass twice', flush=True)
        in_children([lambda o=o: pass_unchanged(top, work, o) for o in missing], args.workers, folder/'normal.jsonl')
        normal = {}
        for o in read_lines(folder/'normal.jsonl'): normal[o['notebook']] = o['cells']
        done = {o['n'] for o in read_lines(folder/'results.jsonl')}
        todo = [o for o in mutants if o['n'] not in done]
        print(f'{len(todo)} of {len(mutants)} mutants to run', flush=True)
        in_children([lambda o=o: run_mutant(top, work, o, books, normal) for o in todo], args.workers, folder/'results.jsonl')
    report(read_lines(folder/'results.jsonl'))
    if state(top) != before: sys.exit(f'files of {top} changed meanwhile: somebody edited them, or a mutant did')

if __name__ == '__main__': main()
