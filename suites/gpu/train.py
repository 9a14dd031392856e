"""Trains a small network on the GPUs of its pod, or says which there are (`--probe`)."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 100


def devices() -> str:
    """Return what the program can see of NVIDIA's driver."""
    files = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    return f"cuda {torch.cuda.device_count()} files {','.join(files) or 'none'}"


def train(backend: str) -> None:
    """Train; every rank prints the device and the losses, rank 0 checks them."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group(backend)
    name = torch.cuda.get_device_name()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {backend} on {name}", flush=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)
    )
    parallel = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    generator = torch.Generator(device).manual_seed(dist.get_rank())
    inputs = torch.randn(1024, 256, device=device, generator=generator)
    targets = inputs.roll(1, 1)
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step}/{STEPS} loss {losses[-1]:.4f}", flush=True)
    dist.destroy_process_group()
    if losses[-1] > losses[0] / 2:
        sys.exit(f"from {losses[0]:.4f} to {losses[-1]:.4f}: it has not learned")
    print(f"trained from {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)


print(devices(), flush=True)
if "--probe" not in sys.argv:
    train("gloo" if "--gloo" in sys.argv else "nccl")
