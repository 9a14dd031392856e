"""A stand-in for the example's program, which downloads FashionMNIST: trains on digits, offline."""

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs

# Of the operator: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK.
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
sklearn = find_spec("sklearn")
assert sklearn is not None
assert sklearn.submodule_search_locations is not None
(package,) = sklearn.submodule_search_locations
table = torch.tensor(np.loadtxt(Path(package, "datasets/data/digits.csv.gz"), delimiter=","))
images, labels = (table[:, :-1] / 16).float(), table[:, -1].long()
order = torch.randperm(len(images))
train, test = order[:1437], order[1437:]

model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.5)
for _ in range(epochs):
    for batch in train[torch.randperm(len(train))].split(32):
        mine = batch[rank::world]
        optimizer.zero_grad()
        nn.functional.cross_entropy(parallel(images[mine]), labels[mine]).backward()
        optimizer.step()
with torch.no_grad():
    accuracy = (model(images[test]).argmax(1) == labels[test]).double().mean().item()
print(f"rank {rank} of {world} on {os.uname().nodename}: accuracy {accuracy:.3f}", flush=True)  # noqa: T201
dist.destroy_process_group()
