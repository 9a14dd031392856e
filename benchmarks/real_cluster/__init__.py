"""The operator on a real API server: by default a thousand jobs of four pods on fake nodes.

A new cluster with the real API server, controller manager and scheduler; kwok simulates the
kubelets. A user creates the jobs as fast as the server accepts them, and waits until all are
Running in status. Then, on another new cluster for each reference, a client without any logic sends
the same writes (``replay``), or those that create children only, no events and no status
(``children``); see `replay`. docs/design/performance.md describes what is compared, and has the
results.

    python -m benchmarks real_cluster [--kind ElasticJob|MxJob|MPICluster] [--jobs N] [--workers N]
        [--rounds N] [--reference replay,children,jobset] [--beside mpi-operator,jobset]

``--beside`` lets other operators run as many jobs of four pods, each on a new cluster of its own
(see `peers`). Kinds of other projects, MPIJob, PyTorchJob and JobSet, have no other reference.
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

    from benchmarks.real_cluster.peers import PeerRun
    from benchmarks.real_cluster.runs import Recorded, Run

JOBS = 1000
GOAL_RATIO = 1.15
GOAL_EVENTS = 10.0
GOALS = {"children": GOAL_RATIO, "jobset": 1.0}
REFERENCES = {
    "children": "client that writes the children only",
    "jobset": "client that writes a Service and Indexed Jobs for each, as JobSet's controller",
}
KINDS = {
    "ChainerJob": (jobs.chainer, 3),
    "ElasticJob": (jobs.elastic, 4),
    "MxJob": (jobs.mxnet, 2),
    "MPICluster": (jobs.openmpi, 3),
    "MPIJob": (jobs.mpi_job, 3),
    "PyTorchJob": (jobs.pytorch_job, 3),
    "JobSet": (jobs.job_set, 3),
}
"""How jobs of each kind are created, and with how many workers to get four pods."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks real_cluster", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many (default %(default)s)")
    parser.add_argument("--kind", choices=KINDS, default="ChainerJob", help="(default %(default)s)")
    parser.add_argument("--workers", type=int, help="of each job (default: four pods in all)")
    parser.add_argument("--rounds", type=int, default=1, help="of runs (default %(default)s)")
    parser.add_argument(
        "--reference",
        type=_references,
        help="one or more of replay, children and jobset, with commas (default replay)",
    )
    parser.add_argument(
        "--beside",
        type=_peers,
        default=[],
        help="other operators to run, too, with commas (see `peers`)",
    )
    chosen = parser.parse_args(arguments)
    count = chosen.jobs
    make, workers = KINDS[chosen.kind]
    load = make(chosen.workers or workers)
    if load.of_others and chosen.reference:
        parser.error(f"--reference is not for {chosen.kind}s; use --beside")
    references = chosen.reference or ([] if load.of_others else ["replay"])
    if lacking := missing():
        print("NOT RUN, this machine lacks:", *lacking, sep="\n  ")
        return
    # On a signal, remove the clusters, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="traincrew-bench-") as name:
        rounds = [
            _round(Path(name), load, count, references, chosen.beside) for _ in range(chosen.rounds)
        ]
    for what in rounds[0]:
        ratios = sorted(found[what] for found in rounds)
        listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"ratios {what}: {listed}; median {median(ratios):.2f}")


def _references(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - {"replay", "children", "jobset"}:
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: there is no such reference"
        )
    return names


def _peers(text: str) -> list[str]:
    from benchmarks.real_cluster.peers import PEERS

    names = text.split(",")
    if unknown := set(names) - PEERS.keys():
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there is no such operator")
    return names


def _round(
    directory: Path,
    load: jobs.Load,
    count: int,
    references: Sequence[str],
    beside: Sequence[str],
) -> dict[str, float]:
    """Run the operator, its references and other operators once; return the ratios."""
    from benchmarks.real_cluster import jobset, peers
    from benchmarks.real_cluster.runs import HistoryRunner, operate, repeat

    ratios: dict[str, float] = {}
    with HistoryRunner(directory, load) as runner:
        recorded = operate(runner, count)
    show_operator(recorded, load, count)
    for reference in references:
        with HistoryRunner(directory, load) as runner:
            if reference == "replay":
                bare = repeat(runner, recorded)
            elif reference == "children":
                bare = repeat(runner, recorded, children_only=True)
            else:
                bare = jobset.run(runner, count)
        if reference == "replay":
            show_comparison(recorded, bare, count)
            ratios["until the last write, same writes"] = recorded.last_write / bare.last_write
            ratios["in CPU seconds until all pods run, same writes"] = recorded.effort / bare.effort
            continue
        show_first(recorded, bare, count, reference)
        ratios[f"until all pods run, {reference}"] = recorded.pods / bare.pods
        ratios[f"until all are Running, {reference}"] = recorded.running / bare.pods
        ratios[f"in CPU seconds until all pods run, {reference}"] = recorded.effort / bare.effort
    for name in beside:
        with HistoryRunner(directory, load) as runner:
            other = peers.run(runner, peers.PEERS[name], count)
        show_peer(recorded, other, count, name)
        ratios[f"until all are Running in status, {name}"] = recorded.running / other.running
        ratios[f"in CPU seconds until all pods run, {name}"] = recorded.effort / other.effort
    return ratios


def show_operator(recorded: Recorded, load: jobs.Load, count: int) -> None:
    """Print the operator's run."""
    writes = sum(recorded.writes.values()) / count
    print(f"{count} {load.resource.kind}s of {load.pods} pods:")
    print(
        f"  last create after {recorded.created:.1f} s, all pods running after"
        f" {recorded.pods:.1f} s, all Running in status after {recorded.running:.1f} s, the"
        f" operator's last write after {recorded.last_write:.1f} s"
    )
    late = max(0.0, recorded.last_event - max(recorded.running, recorded.pods))
    print(
        f"  events complete {late:.1f} s after both (goal <= {GOAL_EVENTS:g} s); status writes of a"
        f" job until it said Running: {sum(recorded.statuses) / count:.2f} on average,"
        f" {max(recorded.statuses)} at most (goal <= 2)"
    )
    print(
        f"  a status said Running {median(recorded.lags):.1f} s (median), at most"
        f" {max(recorded.lags):.1f} s after the last pod of its job ran"
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
        f" {sum(exchange.status == 429 for exchange in sent)} were throttled (429)"
    )
    _show_load(recorded, count)


def show_comparison(recorded: Recorded, bare: Run, count: int) -> None:
    """Print the bare client's run compared with the operator's."""
    ratio = recorded.last_write / bare.last_write
    print(
        f"bare client, same writes: last create after {bare.created:.1f} s, all Running after"
        f" {bare.running:.1f} s, last write after {bare.last_write:.1f} s"
    )
    _show_load(bare, count)
    print(
        f"until the last write: operator {recorded.last_write:.1f} s, bare client"
        f" {bare.last_write:.1f} s; ratio {ratio:.2f} (goal <= {GOAL_RATIO})\n"
        f"half of the pods ran after {recorded.half:.1f} and {bare.half:.1f} s;"
        f" CPU seconds until all pods ran: {recorded.effort:.1f} and {bare.effort:.1f}; ratio"
        f" {recorded.effort / bare.effort:.2f}"
    )


def show_first(recorded: Recorded, bare: Run, count: int, reference: str) -> None:
    """Print the run of a reference that writes no status, compared with the operator's."""
    print(
        f"{REFERENCES[reference]}: last create after {bare.created:.1f} s, all pods running after"
        f" {bare.pods:.1f} s, last write after {bare.last_write:.1f} s"
    )
    _show_load(bare, count)
    print(
        f"until all pods run: operator {recorded.pods:.1f} s, {reference} {bare.pods:.1f} s; ratio"
        f" {recorded.pods / bare.pods:.2f}; until all are Running in status:"
        f" {recorded.running:.1f} s, ratio {recorded.running / bare.pods:.2f}"
        f" (goal <= {GOALS[reference]})\n"
        f"CPU seconds until all pods run: {recorded.effort:.1f} and {bare.effort:.1f}; ratio"
        f" {recorded.effort / bare.effort:.2f}"
    )


def show_peer(recorded: Recorded, other: PeerRun, count: int, name: str) -> None:
    """Print the run of another operator, compared with ours."""
    print(
        f"{name}, {count} jobs of 4 pods: last create after {other.created:.1f} s, all pods running"
        f" after {other.pods:.1f} s, all running in status after {other.running:.1f} s;"
        f" {other.writes:.1f} writes a job, {other.cpu / count * 1000:.1f} ms CPU a job,"
        f" peak memory {other.peak_mebibytes:.0f} MiB"
    )
    _show_load(other, count)
    print(
        f"until all are Running in status: operator {recorded.running:.1f} s, {name}"
        f" {other.running:.1f} s; ratio {recorded.running / other.running:.2f} (goal < 1);"
        f" CPU seconds until all pods run: {recorded.effort:.1f} and {other.effort:.1f}; ratio"
        f" {recorded.effort / other.effort:.2f}"
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
