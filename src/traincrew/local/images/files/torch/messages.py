"""A replacement for the example programs of training-operator that only send messages.

Every rank adds its number to a sum over all ranks, and sends a message to the next one, so that a
pair of ranks that cannot reach each other is noticed. Arguments are accepted and not used.
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()
if rank == 0:
    unused = " ".join(sys.argv[1:]) or "no arguments"
    print(f"messages: instead of the image's program, with gloo; not used: {unused}", flush=True)

total = torch.tensor([rank])
dist.all_reduce(total)
received = torch.zeros(1)
if world > 1:
    sent = dist.isend(torch.tensor([float(rank)]), (rank + 1) % world)
    dist.recv(received, (rank - 1) % world)
    sent.wait()
print(
    f"rank {rank} of {world} on {os.uname().nodename}: sum of all ranks {total.item()},"
    f" message from rank {received.item():.0f}",
    flush=True,
)
dist.barrier()
dist.destroy_process_group()
