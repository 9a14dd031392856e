#!/usr/bin/env python3
"""Approximates pi with random points in a square, as mpi-operator's example in C++ does."""

import random

from mpi4py import MPI

POINTS = 1_000_000

world = MPI.COMM_WORLD
if world.rank == 0:
    print(f"Workers: {world.size}", flush=True)
print(f"Rank {world.rank} on host {MPI.Get_processor_name()}", flush=True)

draw = random.Random(world.rank).random
inside = sum(draw() ** 2 + draw() ** 2 <= 1 for _ in range(POINTS))
total = world.reduce(inside)
if world.rank == 0:
    print(f"pi is approximately {4 * total / POINTS / world.size:.16f}", flush=True)
