"""Render the docs as a local site without Quarto: python .ci/site.py [OUT] [--quick]

Pages are nbdev's own (`proc_nbs`, which runs their imports), in the order of the two lists of nbs/sidebar.yml, with styles.css. With --quick
the pages of the last run are rendered again. Look at one, such as OUT/howto/csv.html, in a browser."""
import html, os, re, shutil, sys
from pathlib import Path

import nbformat, yaml
from nbconvert import HTMLExporter
from nbdev.config import get_config
from nbdev.serve import proc_nbs

STYLE = '''body { margin: 0; font: 17px/1.6 system-ui, sans-serif; color: #222 } a { color: #2780e3 }
nav { font-size: .85rem; padding: 1rem } nav a { display: block; color: #555; text-decoration: none } nav b { display: block; margin-top: .8rem }
main { max-width: 820px; padding: 1rem; min-width: 0 } pre, code { font: .85em/1.5 ui-monospace, monospace }
pre { background: #f4f5f7; padding: .6rem .8rem; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere }
.cell-output { margin: .2rem 0 0 } .cell-output :is(.input, .jp-Cell-inputWrapper) { display: none } .cell-output pre { background: none } img { max-width: 100%; height: auto }
table { border-collapse: collapse; border: 0 } td, th { padding: .2rem .6rem; border: 0; border-bottom: 1px solid #ddd } blockquote { color: #666; margin: 0; font-size: 1.1rem }
@media (min-width: 992px) { body { display: grid; grid-template-columns: 250px 1fr } nav { height: 100vh; overflow: auto; position: sticky; top: 0 } }
@media (max-width: 991px) { nav { display: none } }
@media (prefers-color-scheme: dark) { body { background: #1b1d21; color: #ddd } pre { background: #26292f } }'''

top = Path(__file__).resolve().parent.parent
args = [o for o in sys.argv[1:] if not o.startswith('-')]
out, docs = Path(args[0] if args else top/'_site').resolve(), get_config().doc_url.rstrip('/')
os.chdir(top)
cache = top/'_proc' if '--quick' in sys.argv else Path(proc_nbs(n_workers=0, force=True))
sidebars = yaml.safe_load((top/'nbs'/'sidebar.yml').read_text(encoding='utf-8'))['website']['sidebar']
exporter = HTMLExporter(template_name='basic', exclude_input_prompt=True, exclude_output_prompt=True, embed_images=False)

def read(page):
    "Read a page, and take its title and description from the front matter."
    nb = nbformat.read(cache/page, as_version=4)
    front = next((c.source for c in nb.cells if c.cell_type == 'raw' and c.source.startswith('---')), '')
    about = yaml.safe_load(front.strip().strip('-')) or {} if front else {}
    nb.cells = [c for c in nb.cells if c.cell_type != 'raw']
    return nb, about.get('title', page), about.get('description', '')

def cell_html(nb, cell):
    "Render a cell as Quarto does: directives decide whether its code is shown, folded or left out."
    said = dict(re.findall(r'^#\| *([\w-]+):? *(.*)$', cell.source, re.M)) if cell.cell_type == 'code' else {}
    cell.source = re.sub(r'^#\| .*\n?', '', cell.source, flags=re.M) if said else cell.source
    if said.get('include') == 'false': return ''
    cell.pop('has_sd', None), cell.metadata.clear() # notes of nbdev
    render = lambda: exporter.from_notebook_node(nbformat.from_dict(dict(nb, cells=[cell])))[0]
    if cell.cell_type != 'code': return render()
    if said.get('output') == 'false': cell.outputs = []
    code = f'<pre class="sourceCode">{html.escape(cell.source)}</pre>'
    if said.get('echo') == 'false' or not cell.source: code = ''
    elif said.get('code-fold') == 'true': code = f'<details><summary>Code</summary>{code}</details>'
    cell.source = ''
    found = f'<div class="cell-output">{render()}</div>' if cell.outputs else ''
    if alt := said.get('fig-alt'): found = re.sub('<img([^>]*) alt="[^"]*"', lambda m: f'<img{m[1]} alt={alt}', found)
    return f'<div class="cell">{code}{found}</div>'

def link(page, up):
    "Make a function that turns the addresses of our docs, notebooks and images into local ones."
    raw = 'https://raw.githubusercontent.com/rank-bert/rank_bert/main/nbs/'
    def local(m):
        to = m[2].replace(docs + '/', up).replace(raw, up)
        return m[1] + (to if to.startswith('http') else re.sub(r'\.(ipynb|html\.md)(?=#|$)', '.html', to)) + '"'
    return local

def menu(items, titles, up):
    "List the pages of the sidebar."
    return ''.join(f'<b>{o["section"]}</b>{menu(o["contents"], titles, up)}' if isinstance(o, dict) else
                   f'<a href="{up}{o.replace(".ipynb", ".html")}">{html.escape(titles[o])}</a>' for o in items)

def holds(items, page): return any(holds(o['contents'], page) if isinstance(o, dict) else o == page for o in items)

def nav(page, titles, up):
    "Link the sidebars, and list the pages of the one that holds a page."
    shown = next((o for o in sidebars if holds(o['contents'], page)), sidebars[0])
    doors = ' '.join(f'<a href="{up}{first_page(o["contents"]).replace(".ipynb", ".html")}">{o["title"]}</a>' for o in sidebars)
    return doors + menu(shown['contents'], titles, up)

def first_page(items): return first_page(items[0]['contents']) if isinstance(items[0], dict) else items[0]

pages = {p.relative_to(cache).as_posix(): None for p in sorted(cache.rglob('*.ipynb'))}
pages = {k: read(k) for k in pages}
titles, broken = {k: v[1] for k, v in pages.items()}, []
shutil.copytree(top/'nbs'/'images', out/'images', dirs_exist_ok=True)
for page, (nb, title, about) in pages.items():
    up, file = '../'*page.count('/'), out/page.replace('.ipynb', '.html')
    body = ''.join(cell_html(nb, c) for c in nb.cells)
    body = re.sub(r'((?:href|src)=")([^"]*)"', link(page, up), body)
    body = re.sub(r'(</a>)\{target=[^}]*\}', r'\1', body) # attributes in Quarto's way, behind `source`
    for to in re.findall(r'(?:href|src)="([^"#:]+\.html)', body):
        if not (cache/Path(page).parent/to.replace('.html', '.ipynb')).resolve().is_file(): broken.append(f'{page}: {to}')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'''<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{STYLE}{(top/"nbs/styles.css").read_text()}</style>
<nav>{nav(page, titles, up)}</nav><main><h1>{html.escape(title)}</h1><blockquote>{html.escape(about)}</blockquote>{body}</main>''', encoding='utf-8')
print('\n'.join(['links that lead nowhere:', *sorted(set(broken))]) if broken else 'all links lead to a page')
print(f'{len(pages)} pages in {out}')
