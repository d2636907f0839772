"""How many sentences a second an epoch of fine-tuning takes in, beside the HF Trainer and a loop of plain PyTorch.

    python experiments/train_speed.py --source FOLDER --tokenizer FOLDER

All contenders train BERT-tiny on the same tokens with the same optimizer (fused AdamW, no gradient clipping, a constant
rate for the Trainer and the loops), and take turns. Validation and set-up do not count. The Trainer uses its collator that
pads to the longest, as its documentation shows it; `padded to 128` is what many tutorials do. `train_speed.csv` has five
turns with 8,192 sentences of SST-2 on one thread, with BERT's own vocabulary of 30,522 words. `train_words.csv` has five
turns with 4,096 of them, and beside them a model cut to the words of its rows:

    python experiments/train_speed.py --source FOLDER --tokenizer FOLDER --n-train 4096 --repeats 5 --only 'glue|Trainer'"""
import inspect, math, re, tempfile, time, warnings
from functools import partial
import torch, torch.nn.functional as F
from fastai.callback.core import Callback
from fastcore.script import call_parse
from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments
from rank_bert.commands.bench import take_turns
from rank_bert.train.glue_learner import glue_learner


def bare_loop(learn, epochs=1, width=None):
    "Count sentences a second of plain PyTorch on the rows of a learner; `width` pads every batch to so many tokens."
    model, device = learn.model.train(), next(learn.model.parameters()).device
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    n, start = 0, time.perf_counter()
    for x, y in (batch for _ in range(epochs) for batch in learn.dls.train):
        if width: x = {k: F.pad(v, (0, width - v.shape[1])) for k, v in x.items()}
        x, y = {k: v.to(device) for k, v in x.items()}, y.to(device)
        loss = learn.loss_func(model(x), y)
        loss.backward(); opt.step(); opt.zero_grad()
        n += len(y)
    return n/(time.perf_counter() - start)


class EpochTimer(Callback):
    "Time the training part of epochs."
    order, n, seconds = -200, 0, 0.
    def before_train(self): self.start = time.perf_counter()
    def after_batch(self): self.n += len(self.yb[0])*self.training
    def after_train(self): self.seconds += time.perf_counter() - self.start


def learner_epochs(learn, epochs):
    "Count sentences a second of epochs of a learner, without its progress bar."
    timer = EpochTimer()
    with learn.no_bar(), learn.no_logging(): learn.fit_one_cycle(epochs, 1e-4, cbs=timer)
    return timer.n/timer.seconds


def cut_epochs(learn, epochs):
    "Count sentences a second of epochs of a learner whose vocabulary was cut to the words of its rows."
    return learner_epochs(learn.compress(recipe='words', progress=False), epochs)


def trainer_epochs(learn, epochs, by_length=False):
    "Count sentences a second of epochs of transformers' Trainer, with sentences of similar length in a batch or not."
    items, order = learn.dls.train_ds, {}
    rows = [dict(input_ids=items.tokens[i].tolist(), labels=y) for i, y in enumerate(items.y.tolist())]
    if by_length: # the option has had two names
        new = 'train_sampling_strategy' in inspect.signature(TrainingArguments).parameters
        order = dict(train_sampling_strategy='group_by_length') if new else dict(group_by_length=True)
    with tempfile.TemporaryDirectory() as d, warnings.catch_warnings():
        warnings.filterwarnings('ignore', message='.*pin_memory.*')
        args = TrainingArguments(d, num_train_epochs=epochs, per_device_train_batch_size=learn.dls.bs,
            learning_rate=1e-4, weight_decay=0.01, optim='adamw_torch_fused', lr_scheduler_type='constant',
            max_grad_norm=0., save_strategy='no', logging_strategy='no', report_to='none', disable_tqdm=True,
            seed=learn.seed, **order)
        t = Trainer(learn.hf_model, args, train_dataset=rows,
            data_collator=DataCollatorWithPadding(learn.dls.tokenizer))
        t.remove_callback(PrinterCallback)
        return t.train().metrics['train_samples_per_second']


@call_parse
def main(
    source:str='sample', # Where SST-2 is: sample, hub or a folder
    tokenizer:str=None, # Name or folder of a tokenizer; default: the sample's
    n_train:int=8192, # Sentences; a smaller data set is repeated
    bs:int=32, # Batch size
    repeats:int=5, # Turns
    only:str='', # Regular expression for the names of contenders
    out:str=None, # File to write the table to as well
):
    "Measure how fast an epoch trains."
    make = partial(glue_learner, 'sst2', 'prajjwal1/bert-tiny', source=source, tokenizer=tokenizer, bs=bs, pretrained=False)
    contenders = {'bare loop': bare_loop, 'glue_learner': learner_epochs,
        'glue_learner, cut to its words': cut_epochs, 'Trainer, random': trainer_epochs,
        'Trainer, by length': partial(trainer_epochs, by_length=True),
        'bare loop, padded to 128': partial(bare_loop, width=128)}
    contenders = {k: f for k, f in contenders.items() if re.search(only, k)}
    bare_loop(make(n_train=8*bs)) # warms up the threads and the allocator
    epochs = math.ceil(n_train/len(make(n_train=n_train).dls.train_ds))
    t = take_turns({k: lambda f=f: f(make(n_train=n_train), epochs) for k, f in contenders.items()}, repeats)
    t = t.round().astype(int).assign(ratio=(t['median']/t['median'].iloc[0]).round(2)).rename_axis('sentences a second')
    print(t.to_string())
    if out: t.to_csv(out)
