"""Open exported folders in a headless chromium, with libraries from `npm pack`; howto/browser.ipynb tests with it.

    python browser.py FOLDER ... --csv browser.csv    # megabytes, seconds and milliseconds of a first visit
    python browser.py reviews help-pages --picture browser.png    # two pages side by side, as on a phone

The folders of browser.csv, with M for the folder of all-MiniLM-L6-v2 and $RANK_BERT_GLUE that of GLUE, on an idle machine:

    rank-bert-finetune sst2 --model M --n-train 2000 --epochs 1 --out dense
    rank-bert-compress dense --budget .3 --out small
    rank-bert-compress dense --budget .3 --recipe "words(coverage=1)+neurons+kfac+refit" --out seen
    rank-bert-export dense --to web --precision fp32 --out dense-fp32     # and int8; the same for small
    rank-bert-export seen --to web --precision int8 --out small-int8-seen
"""
import argparse, gzip, json, os, shutil, subprocess, tarfile, tempfile, threading, time
from contextlib import contextmanager
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

PACKAGES = '@huggingface/tokenizers@0.2', 'onnxruntime-web@1.30', '@huggingface/transformers@4.3'
CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)

def libraries():
    "Get what pages import of three packages, without installing them: a folder, $RANK_BERT_NPM if it is set."
    lib = Path(os.environ.get('RANK_BERT_NPM') or Path(tempfile.gettempdir())/'rank_bert-npm')
    if (lib/'done').exists(): return lib
    lib.mkdir(parents=True, exist_ok=True)
    subprocess.run(['npm', 'pack', '--silent', '--pack-destination', lib, *PACKAGES], check=True, capture_output=True)
    for f in lib.glob('*.tgz'):
        with tarfile.open(f) as t:
            for m in t.getmembers():
                name = Path(m.name)
                if m.isfile() and name.parts[:2] == ('package', 'dist') and name.suffix in ('.mjs', '.js', '.wasm'):
                    (lib/name.name).write_bytes(t.extractfile(m).read())
    (lib/'done').touch()
    return lib

@cache
def zipped(file): return gzip.compress(file.read_bytes())

@contextmanager
def served(folders, pages, isolated=False, compressed=False):
    "Serve folders by name, each with the libraries in `lib`, and pages; yields the address and a queue of what is posted."
    posted, lib = Queue(), libraries()
    class Handler(SimpleHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        types = {'.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm'}
        extensions_map = SimpleHTTPRequestHandler.extensions_map | types
        def log_message(self, *args): pass
        def translate_path(self, path):
            name, *rest = [o for o in path.split('?')[0].split('/') if o] or ['']
            if rest[:1] == ['lib']: return str(Path(lib, *rest[1:]))
            return str(Path(folders[name], *rest)) if name in folders else str(lib/'nothing')
        def end_headers(self):
            if isolated:
                self.send_header('Cross-Origin-Opener-Policy', 'same-origin')
                self.send_header('Cross-Origin-Embedder-Policy', 'require-corp')
            super().end_headers()
        def do_GET(self):
            file, page = Path(self.translate_path(self.path)), pages.get(self.path)
            if callable(page): page = page() or ''
            if page is not None: self.answer(page.encode(), 'text/html; charset=utf-8')
            elif compressed and file.is_file(): self.answer(zipped(file), self.guess_type(str(file)), 'gzip')
            else: super().do_GET()
        def do_POST(self):
            posted.put(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
            self.answer(b'', 'text/plain')
        def answer(self, data, kind, encoding='identity'):
            self.send_response(200)
            for k, v in {'Content-Type': kind, 'Content-Length': len(data), 'Content-Encoding': encoding}.items():
                self.send_header(k, str(v))
            self.end_headers()
            self.wfile.write(data)
    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.handle_error = lambda *args: None # the browser has left
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try: yield f'http://127.0.0.1:{server.server_port}', posted
    finally: server.shutdown()

# Runs `BODY`, that of an async function, in a page beside the folders, and posts what it returns, or the error
PAGE = """<!doctype html><meta charset=utf-8><body><script type=module>
const post = o => fetch('/post', { method: 'POST', body: JSON.stringify(o) })
const opened = name => new Promise(done => {
  const f = document.createElement('iframe')
  f.onload = () => done(f.contentWindow.ready)
  f.src = `/${name}/index.html`
  document.body.append(f)
})
const run = async () => { BODY }
run().then(value => post({ value }), e => post({ error: String(e?.stack ?? e) }))
</script>"""

def in_browser(body, folders, timeout=300, flags=(), **kwargs):
    "Run JavaScript beside exported folders, in a chromium of its own; gives what it returns."
    with served(folders, {'/': PAGE.replace('BODY', body)}, **kwargs) as (address, posted), tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True) as profile:
        args = '--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--no-first-run', f'--user-data-dir={profile}', *flags
        process = subprocess.Popen([CHROMIUM, *args, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try: got = posted.get(timeout=timeout)
        finally:
            process.kill()
            process.wait()
    if 'error' in got: raise RuntimeError(got['error'])
    return got['value']

VISIT = """const p = await opened('model')
for (let i = 0; i < 50; i++) await p.outputs('A quiet film, and a lovely one.')
return { megabytes: p.megabytes, seconds: p.seconds, milliseconds: Math.min(...p.times), engine: p.engine, threads: p.threads }"""

# A page counts as loaded, and its picture is taken, when `/wait` has answered
SIDE_BY_SIDE = """<!doctype html><meta charset=utf-8><body style="margin: 0; display: flex; gap: 12px; background: white">FRAMES<img src=/wait hidden>
<script>for (const f of document.querySelectorAll('iframe')) f.onload = async () => {
  await f.contentWindow.ready
  const form = f.contentDocument.getElementById('form'), text = f.contentDocument.getElementById('a')
  for (const o of ['A dull film.', 'A film that nobody needs.', 'A gripping, beautifully acted film.']) {
    text.value = o
    form.dispatchEvent(new Event('input'))
    await new Promise(done => setTimeout(done, 1000))
  }
}</script>"""

def picture(folders, file, wait=30):
    "Take a picture of the pages of folders, each 480 pixels wide, after some seconds."
    frames = ''.join(f'<iframe src="/{o}/index.html" style="border: 0; width: 480px; height: 1040px"></iframe>' for o in folders)
    pages = {'/': SIDE_BY_SIDE.replace('FRAMES', frames), '/wait': lambda: time.sleep(wait)}
    with served(folders, pages, compressed=True) as (address, _):
        size = f'--window-size={492*len(folders) - 12},1040'
        subprocess.run([CHROMIUM, '--headless', '--no-sandbox', '--disable-dev-shm-usage', '--hide-scrollbars', size,
            f'--screenshot={Path(file).resolve()}', address], check=True, stderr=subprocess.DEVNULL, timeout=4*wait)

def main():
    import pandas as pd
    args = argparse.ArgumentParser()
    args.add_argument('folders', nargs='+')
    args.add_argument('--csv')
    args.add_argument('--picture')
    args.add_argument('--repeats', type=int, default=3)
    args, rows = args.parse_args(), []
    if args.picture: return picture({Path(o).name: o for o in args.folders}, args.picture)
    for f in map(Path, args.folders):
        for isolated in (False, True):
            visit = lambda: in_browser(VISIT, dict(model=f), isolated=isolated, compressed=True)
            visits = pd.DataFrame([visit() for _ in range(args.repeats)])
            best = visits.drop(columns='engine').min().to_dict() # in the others somebody else had the processor
            rows.append(dict(folder=f.name, engine=visits.engine[0], **best))
            print(rows[-1], flush=True)
    if args.csv: pd.DataFrame(rows).round(2).to_csv(args.csv, index=False)

if __name__ == '__main__': main()
