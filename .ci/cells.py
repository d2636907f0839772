"""Run nbdev-test, and print what its cells took: python .ci/cells.py [ARGUMENTS OF nbdev-test]

At the end come the slowest cells, with the notebook and its folder, and the CPU seconds of the whole run. `CELLS` names a
CSV file that gets every cell. CPU is user and system time of the process and of its children that have ended. .ci/run
puts this script where README's command finds it as nbdev-test."""
import csv, os, sys, tempfile, time
from pathlib import Path
from execnb.shell import CaptureShell
from nbdev.test import nbdev_test

N = 20 # cells to print
set_path, run_cell = CaptureShell.set_path, CaptureShell.cell

def cpu(): return sum(os.times()[:4])

def named(self, path):
    "Remember which notebook a shell runs."
    self.notebook = Path(path).resolve()
    return set_path(self, path)

def timed(self, cell, *args, **kwargs):
    "Run a cell, and append what it took to the log, which all workers share."
    wall, before = time.perf_counter(), cpu()
    try: return run_cell(self, cell, *args, **kwargs)
    finally:
        row = f'{self.notebook},{cell.id},{time.perf_counter() - wall:.3f},{cpu() - before:.3f}\n'
        if cell.cell_type == 'code' and 'CELLS' in os.environ:
            with open(os.environ['CELLS'], 'a') as f: f.write(row)

CaptureShell.set_path, CaptureShell.cell = named, timed # not below: a worker that is no fork imports this file, too

def show(file, nbs):
    "Print the slowest cells of a log, and write it again: sorted, with a header, and with paths below `nbs`."
    with open(file, newline='') as f: rows = [(Path(nb), cell, float(wall), float(c)) for nb, cell, wall, c in csv.reader(f)]
    rows = [(nb.relative_to(nbs) if nb.is_relative_to(nbs) else nb, *o) for nb, *o in rows]
    rows.sort(key=lambda o: max(o[2:]), reverse=True)
    with open(file, 'w', newline='') as f: csv.writer(f).writerows([('notebook', 'cell', 'wall', 'cpu'), *rows])
    print(f'the slowest of {len(rows):,} cells, in seconds:\n  wall    CPU')
    for nb, cell, wall, c in rows[:N]: print(f'{wall:6.1f} {c:6.1f}  {nb} {cell}')

if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as d:
        log = os.environ.setdefault('CELLS', f'{d}/cells.csv')
        open(log, 'w').close()
        start, nbs = time.time(), Path('nbs').resolve()
        try: nbdev_test()
        finally:
            show(log, nbs)
            print(f'{cpu():.0f} CPU seconds in {time.time() - start:.0f} s')
