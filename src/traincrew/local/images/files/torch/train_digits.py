#!/usr/bin/env python3
"""Learn to read handwritten digits with PyTorch, on workers that may join and leave.

    torchrun --standalone --nproc_per_node=2 train_digits.py

The data is scikit-learn's bundled set of 1,797 images of 8x8 pixels: nothing is downloaded. After
every epoch the first rank saves a checkpoint; whenever the number of workers changes, torchrun
restarts the script on all of them, and it resumes from there. The last line names the accuracy on
images that were not trained on; if it is below --require-accuracy the script fails.
"""

import argparse
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    from progress import report  # traincrew's progress.py, beside this file
except ImportError:  # training works without it

    def report(**_):
        pass


parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("--epochs", type=int, default=40, help="passes over the data")
parser.add_argument("--batch-size", type=int, default=32, help="images per step and process")
parser.add_argument("--checkpoints", type=Path, default=Path("/checkpoints"), help="where they are")
parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each epoch")
parser.add_argument("--require-accuracy", type=float, default=0.0, help="fail below this")
arguments = parser.parse_args()

# This timeout detects the loss of a worker that the others wait for.
dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank, world = dist.get_rank(), dist.get_world_size()
first = rank == 0
torch.manual_seed(0)

images, labels = load_digits(return_X_y=True)
digits = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
train, test = torch.utils.data.random_split(digits, [0.8, 0.2])
sampler = DistributedSampler(train)
loader = DataLoader(train, batch_size=arguments.batch_size, sampler=sampler)

model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
loss_of = nn.CrossEntropyLoss()

# Every rank reads the checkpoint, so that all resume from the same epoch.
checkpoint = arguments.checkpoints / "digits.pt"
begin = 0
if checkpoint.exists():
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["epoch"]
if first:
    print(f"{world} process(es), from epoch {begin} on", flush=True)


def save(epoch):
    """Write the checkpoint atomically."""
    arguments.checkpoints.mkdir(parents=True, exist_ok=True)
    new = checkpoint.with_suffix(".new")
    torch.save(
        {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, new
    )
    new.replace(checkpoint)


def accuracy():
    with torch.no_grad():
        inputs, answers = test[:]
        return (model.module(inputs).argmax(1) == answers).double().mean().item()


started = time.monotonic()
for epoch in range(begin, arguments.epochs):
    sampler.set_epoch(epoch)
    losses = []
    for inputs, answers in loader:
        optimizer.zero_grad()
        loss = loss_of(model(inputs), answers)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if first:
        save(epoch + 1)
        loss, reached, seconds = sum(losses) / len(losses), accuracy(), time.monotonic() - started
        print(
            f"epoch {epoch + 1:>3}  {world} process(es)  loss {loss:.4f}"
            f"  validation accuracy {reached:.4f}  {seconds:.1f} s",
            flush=True,
        )
        report(
            percentage=100 * (epoch + 1) / arguments.epochs,
            remaining_seconds=seconds / (epoch + 1 - begin) * (arguments.epochs - epoch - 1),
            metrics={"loss": f"{loss:.4f}", "validation accuracy": f"{reached:.4f}"},
        )
    time.sleep(arguments.pause)
    # No rank starts an epoch before all have finished this one.
    dist.barrier()

reached = accuracy()
if first:
    print(f"validation accuracy: {reached:.3f}", flush=True)
dist.destroy_process_group()
if reached < arguments.require_accuracy:
    sys.exit(f"the validation accuracy is below {arguments.require_accuracy}")
