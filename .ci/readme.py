"Write README.md from nbs/index.ipynb without Quarto; --check only compares."
import contextlib, difflib, io, re, sys
from pathlib import Path

from fastcore.nbio import read_nb
from nbconvert import MarkdownExporter
from nbdev.serve import proc_nbs

top = Path(__file__).resolve().parent.parent
with contextlib.chdir(top) if hasattr(contextlib, 'chdir') else contextlib.nullcontext():
    cache = proc_nbs(n_workers=0, force=True, file_glob='index.ipynb')
text, res = MarkdownExporter().from_filename(str(Path(cache)/'index.ipynb'))
if res.get('outputs'): sys.exit(f"index.ipynb has figures, which README.md cannot hold: {', '.join(res['outputs'])}")
text = re.sub(r'\A---\n.*?\n---\n', '', text, flags=re.S) # front matter is for the docs site
text = re.sub(r'<style.*?</style>', '', text, flags=re.S)
text = '<!-- Written by .ci/readme.py from nbs/index.ipynb: edit that -->\n\n' + re.sub(r'\n{3,}', '\n\n', '\n'.join(l.rstrip() for l in text.splitlines())).strip() + '\n'
readme = top/'README.md'
old = readme.read_text(encoding='utf-8') if readme.exists() else ''
if '--check' in sys.argv:
    diff = list(difflib.unified_diff(old.splitlines(), text.splitlines(), 'README.md', 'nbs/index.ipynb', lineterm=''))
    print('\n'.join(diff) or 'README.md is up to date')
    sys.exit(bool(diff))
readme.write_text(text, encoding='utf-8')
