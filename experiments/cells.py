"""Wall time of a sweep beside one command for each of its runs, on a few of the runs of `recipes.yml`.

    rank-bert-finetune sst2 --model ... --n-train 12000 --out sst2-0
    python experiments/cells.py sst2-0 sst2 --source ../shared/data/glue --out experiments/cells.csv

`nbs/results_methods.ipynb` shows the file."""
import csv, subprocess, tempfile, time
from pathlib import Path
from fastcore.script import call_parse


def seconds_of(*command):
    "Run a command and time it."
    start = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - start, 1)

@call_parse
def main(
    folder:str, # Folder of a fine-tuned classifier
    task:str, # Its GLUE task
    source:str='sample', # As for `rank-bert-finetune`
    recipes:str='whitened,kfac,kfac+refit', # With commas
    budgets:str='0.5,0.2', # Fractions to keep, with commas
    out:str='experiments/cells.csv', # File to write
):
    "Time one sweep, and one command for each of its runs."
    rows = []
    with tempfile.TemporaryDirectory() as d:
        own = ['rank-bert-sweep', '--tasks', task, '--models', folder, '--source', source, '--epochs', 0, '--seeds', 0]
        grid = ['--recipes', recipes, '--budgets', budgets, '--out', f'{d}/sweep']
        rows.append(dict(how='one sweep', recipe=recipes, budget=budgets, seconds=seconds_of(*own, *grid)))
        for recipe in recipes.split(','):
            for budget in budgets.split(','):
                name = recipe.removesuffix('+refit')
                options = ['--recipe', name, '--budget', budget, '--allocator', 'optimal', '--task', task, '--source', source]
                if name == recipe: options += ['--no-refit']
                took = seconds_of('rank-bert-compress', folder, *options, '--out', f'{d}/{recipe}-{budget}')
                rows.append(dict(how='a command each', recipe=recipe, budget=budget, seconds=took))
    with open(out, 'w', newline='') as f:
        w = csv.DictWriter(f, list(rows[0]))
        w.writeheader()
        w.writerows(rows)
