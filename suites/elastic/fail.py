"""A distributed program of which one process fails, in the way its argument says."""

import os
import sys

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing.errors import record


def train(how: str) -> None:
    """Take part in one step; rank 1 does not get there."""
    distributed.init_process_group("gloo")
    if int(os.environ["RANK"]) == 1:
        if how == "exit":
            sys.exit(3)
        raise ValueError("my dataset is broken")
    distributed.all_reduce(torch.zeros(1))


HOW = sys.argv[1]
(record(train) if HOW == "record" else train)(HOW)
