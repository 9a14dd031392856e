"""The operator on a real API server: a thousand jobs of four pods on fake nodes, or what you like.

A new cluster with the real API server, controller manager and scheduler; kwok plays the kubelets.
A user creates the jobs as fast as the server takes them, and waits until all are Running in
status. Then, on another new cluster, a client that decides nothing sends the same writes; see
`replay`. docs/design/performance.md says what is compared, and what was measured.

    python -m benchmarks real_cluster [--kind ElasticJob] [--jobs N] [--workers N] [--rounds N]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from hack.cluster import missing

from benchmarks.real_cluster import jobs, replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.real_cluster.runs import Recorded, Run

JOBS = 1000
GOAL_RATIO = 1.15
KINDS = {"ChainerJob": (jobs.chainer, 3), "ElasticJob": (jobs.elastic, 4)}
"""How each kind's jobs are made, and with how many workers so that there are four pods."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks real_cluster", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many (default %(default)s)")
    parser.add_argument("--kind", choices=KINDS, default="ChainerJob", help="(default %(default)s)")
    parser.add_argument("--workers", type=int, help="of each job (default: four pods in all)")
    parser.add_argument("--rounds", type=int, default=1, help="pairs of runs (default %(default)s)")
    chosen = parser.parse_args(arguments)
    count = chosen.jobs
    make, workers = KINDS[chosen.kind]
    load = make(chosen.workers or workers)
    if lacking := missing():
        print("NOT RUN, this machine lacks:", *lacking, sep="\n  ")
        return
    # Whoever ends us by a signal wants the clusters gone, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="traincrew-bench-") as name:
        ratios = [_round(Path(name), load, count) for _ in range(chosen.rounds)]
    told = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    print(f"ratios until the last write: {told}; median {median(ratios):.2f}")


def _round(directory: Path, load: jobs.Load, count: int) -> float:
    from benchmarks.real_cluster.runs import Stage, operate, repeat

    with Stage(directory, load) as stage:
        recorded = operate(stage, count)
    show_operator(recorded, load, count)
    with Stage(directory, load) as stage:
        bare = repeat(stage, recorded)
    show_comparison(recorded, bare, count)
    return recorded.last_write / bare.last_write


def show_operator(recorded: Recorded, load: jobs.Load, count: int) -> None:
    """Print what the operator did."""
    writes = sum(recorded.writes.values()) / count
    print(f"{count} {load.resource.kind}s of {load.pods} pods:")
    print(
        f"  last create after {recorded.created:.1f} s, all Running in status after"
        f" {recorded.running:.1f} s, the operator's last write after {recorded.last_write:.1f} s"
    )
    goal = load.children + load.more_writes
    print(
        f"  API writes per job until Running: {writes:.2f} (goal <= {goal}:"
        f" {load.children} children + {load.more_writes}); refused: {recorded.refused}"
    )
    for what, number in sorted(recorded.writes.items()):
        print(f"    {number / count:6.2f} {what}")
    seconds = recorded.usage.by_process["operator"]
    print(
        f"  operator: {seconds:.1f} s CPU ({seconds / count * 1000:.1f} ms a job),"
        f" peak memory {recorded.peak_mebibytes:.0f} MiB"
    )
    sent = [exchange for exchange in recorded.exchanges if exchange.is_write]
    times = quantiles([exchange.seconds * 1000 for exchange in sent], n=100)
    print(
        f"  its writes took {times[49]:.1f} ms (median), {times[98]:.1f} ms (99 %);"
        f" {len(sent) / recorded.last_write:.0f} a second,"
        f" {replay.most_at_once(recorded.exchanges)} at once at most;"
        f" {sum(exchange.status == 429 for exchange in sent)} were told to come later (429)"
    )
    _show_load(recorded, count)


def show_comparison(recorded: Recorded, bare: Run, count: int) -> None:
    """Print the bare client's run beside the operator's."""
    ratio = recorded.last_write / bare.last_write
    print(
        f"bare client, same writes: last create after {bare.created:.1f} s, all Running after"
        f" {bare.running:.1f} s, last write after {bare.last_write:.1f} s"
    )
    _show_load(bare, count)
    print(
        f"until the last write: operator {recorded.last_write:.1f} s, bare client"
        f" {bare.last_write:.1f} s; ratio {ratio:.2f} (goal <= {GOAL_RATIO})"
    )


def _show_load(run: Run, count: int) -> None:
    total = sum(run.requests.values())
    print(f"  the API server answered {total / run.last_write:.0f} requests a second:")
    for user, number in run.requests.most_common(8):
        print(f"    {number / count:6.2f} a job by {user}")
    used = ", ".join(f"{name} {seconds:.1f}" for name, seconds in run.usage.by_process.items())
    print(f"  CPU seconds: {used}; programs that do not belong here {run.usage.others:.1f}")


if __name__ == "__main__":
    main()
