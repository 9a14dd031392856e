"""The program of `elastic_scale`'s workers: a minimal training that records when it began.

Each start appends one line to the file of its worker: the number of workers, when this process
began, and when their first step was done, in seconds on the clock that all processes share.
"""

import os
import sys
import time

began = time.monotonic()

from datetime import timedelta  # noqa: E402  # what comes after is a part of what is measured
from pathlib import Path  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
step = torch.ones(1)
dist.all_reduce(step)
name = os.environ.get("WORKER") or os.uname().nodename
with Path(sys.argv[1], name).open("a") as file:
    print(dist.get_world_size(), began, time.monotonic(), file=file)
while True:
    dist.all_reduce(step)
    time.sleep(0.05)
