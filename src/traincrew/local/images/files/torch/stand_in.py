"""A replacement for the programs in TorchElastic's example images: imagenet and Classy Vision.

Those need torchvision, a GPU and data that are not available here. This one accepts their
arguments, prints on its first line what it does instead, and trains a small network on
scikit-learn's bundled digits in the same manner: every worker keeps its own checkpoint, and
whenever training starts or restarts, all workers resume from the most advanced one.
"""

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch-size", "-b", type=int, default=32)
parser.add_argument("--checkpoint-file", type=Path, default=Path("/tmp/checkpoint.pth.tar"))
arguments, ignored = parser.parse_known_args()

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank, world = dist.get_rank(), dist.get_world_size()
first = rank == 0
if first:
    print(
        "data: torchvision is not part of this environment, so training a small network on"
        " scikit-learn's 1797 bundled 8x8 digits instead; not used: " + " ".join(ignored),
        flush=True,
    )

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
order = torch.randperm(len(images))
train, test = order[:1437], order[1437:]
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

# The rank with the most advanced checkpoint broadcasts its state to all.
own = {"epoch": 0, "model": model.state_dict()}
if arguments.checkpoint_file.exists():
    own = torch.load(arguments.checkpoint_file, weights_only=True)
epochs = [0] * world
dist.all_gather_object(epochs, own["epoch"])
most_advanced = max(range(world), key=epochs.__getitem__)
state = [own]
dist.broadcast_object_list(state, src=most_advanced)
model.load_state_dict(state[0]["model"])
begin = state[0]["epoch"]
if first:
    print(f"{world} process(es), from epoch {begin} on", flush=True)


def accuracy():
    with torch.no_grad():
        return (model.module(images[test]).argmax(1) == labels[test]).double().mean().item()


for epoch in range(begin, arguments.epochs):
    for batch in train[torch.randperm(len(train))].split(arguments.batch_size * world):
        share = batch[rank::world]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[share]), labels[share])
        loss.backward()
        optimizer.step()
    if os.environ.get("LOCAL_RANK", "0") == "0":
        new = arguments.checkpoint_file.with_suffix(".new")
        torch.save({"epoch": epoch + 1, "model": model.state_dict()}, new)
        new.replace(arguments.checkpoint_file)
    if first:
        print(
            f"epoch {epoch + 1:>3}  loss {loss.item():.4f}  accuracy {accuracy():.4f}", flush=True
        )
    dist.barrier()

if first:
    print(f"validation accuracy: {accuracy():.3f}", flush=True)
dist.destroy_process_group()
