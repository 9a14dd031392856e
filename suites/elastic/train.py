"""Learn to read digits until told to end: real training, as long as a test needs it.

One line is printed whenever training begins (again) and after each epoch. The file ``enough`` in
the directory of the checkpoints ends it, after at least ten epochs.
"""

import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

directory = Path("/checkpoints")
checkpoint, enough = directory / "digits.pt", directory / "enough"

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
order = torch.randperm(len(images))
train, test = order[:1437], order[1437:]

model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
epoch = 0
if checkpoint.exists():
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    epoch = state["epoch"]
print(f"begin: rank {rank} of {world} from epoch {epoch}", flush=True)  # noqa: T201

told = False
while not told:
    for batch in train[torch.randperm(len(train))].split(32 * world):
        mine = batch[rank::world]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        optimizer.step()
    epoch += 1
    if rank == 0:
        new = checkpoint.with_suffix(".new")
        torch.save({"epoch": epoch, "model": model.state_dict()}, new)
        new.replace(checkpoint)
    time.sleep(0.2)
    # One rank decides for all.
    decision = torch.tensor([int(enough.exists() and epoch >= 10)])
    dist.broadcast(decision, 0)
    told = bool(decision)

with torch.no_grad():
    accuracy = (model.module(images[test]).argmax(1) == labels[test]).double().mean().item()
print(f"end: rank {rank} of {world} after epoch {epoch}, accuracy {accuracy:.3f}", flush=True)  # noqa: T201
dist.destroy_process_group()
sys.exit(accuracy < 0.95)
