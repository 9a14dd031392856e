"""Programs on an MPICluster that start processes by mpiexec while its workers come and go."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from hack.cluster.processes import NotReady
from suites.openmpi_user import HOSTFILE, UPDATE_SECONDS, lines, one_shot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from suites.openmpi_user import Document, Steps

SCALED = (4, 3, 0, 2)
"""Numbers of workers, one after the other."""
LONGEST_SECONDS = 60
RANKS = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} --map-by ppr:1:node"
"""One rank in each pod of the hostfile."""


class Run(NamedTuple):
    """A run of mpiexec.

    Attributes:
        began: When it was started, in seconds.
        ended: When it had ended.
        hosts: Where its ranks ran.
        error: Why it failed; empty if it has succeeded.
    """

    began: float
    ended: float
    hosts: list[str]
    error: str


class Loop:
    """Starts a rank in each pod of the hostfile again and again; a context manager.

    At its end it asserts that only runs have failed during which the hostfile was about to change.

    Args:
        user: Whose the cluster is.
        name: The cluster.
    """

    def __init__(self, user: Steps, name: str) -> None:
        self._user, self._name = user, name
        self._runs: list[Run] = []
        self._changes: list[tuple[float, float]] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if kind is None:
            self._check()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Runs may fail that are under way meanwhile."""
        began = time.monotonic()
        yield
        self._changes.append((began, time.monotonic()))

    def until_another(self) -> None:
        """Wait until a run has ended that is started from now on."""
        now = time.monotonic()
        self._user.until(
            "mpiexec is run again",
            lambda: any(run.began > now for run in self._runs),
            LONGEST_SECONDS + 30,
        )

    def _repeat(self) -> None:
        master = ("exec", f"{self._name}-master", "-c", "mpi-master", "--")
        # Open MPI 4 fails now and then if one run removes the directory for the sessions of a host
        # at its end while another one in that pod begins.
        apart = ("--mca", "orte_tmpdir_base", "/tmp/loop")
        command = ("timeout", str(LONGEST_SECONDS), *RANKS.split(), *apart, "hostname")
        while not self._ends.wait(0.2):
            began, hosts, error = time.monotonic(), [], ""
            try:
                hosts = lines(self._user.kubectl(*master, *command))
            except (AssertionError, NotReady) as failure:
                error = str(failure)
            self._runs.append(Run(began, time.monotonic(), hosts, error))

    def _check(self) -> None:
        for run in self._runs:
            excused = any(run.began < end and start < run.ended for start, end in self._changes)
            assert excused or not run.error, run
            assert len(set(run.hosts)) == len(run.hosts), run
            assert run.error or f"{self._name}-master" in run.hosts, run


def scale(user: Steps, what: str, name: str, counts: Sequence[int]) -> None:
    """Scale the workers of a cluster while ranks run in a loop.

    The hostfile follows each time, and all that is started from then on runs where it says.

    Args:
        user: Whose the cluster is.
        what: The scaled object.
        name: The cluster.
        counts: Numbers of workers.
    """
    with Loop(user, name) as loop:
        for count in counts:
            with loop.changing():
                user.kubectl("scale", what, f"--replicas={count}")
                user.until_workers(name, count)
                user.until_hosts(name, count, UPDATE_SECONDS)
            user.runs_everywhere(name, count)
            loop.until_another()


def endless_first(name: str) -> Document:
    """Return a one-shot cluster whose ranks end in the second attempt only."""
    command = f"""\
[ ! -e /tried/once ] || exec {RANKS} hostname
touch /tried/once
{RANKS} sh -c 'echo $(hostname) begins; exec sleep 3600'
"""
    document = one_shot(name, command, backoffLimit=3)
    template = document["spec"]["master"]["template"]["spec"]
    template["volumes"] = [{"name": "tried", "emptyDir": {}}]
    template["containers"][0]["volumeMounts"] = [{"name": "tried", "mountPath": "/tried"}]
    return document


def until_begun(user: Steps, name: str) -> None:
    """Wait until the ranks of the first attempt run in all three pods."""

    def begun() -> bool:
        log = user.kubectl("logs", f"{name}-master", "-c", "mpi-master")
        return log.count(" begins\n") == 3

    user.until_condition(name, "Running")
    user.until(f"the ranks of {name} run", begun)


def succeeds_in_the_second_attempt(user: Steps, name: str) -> None:
    """Wait for the end of a cluster, one of whose workers was killed; delete it."""
    user.until_condition(name, "Succeeded")
    status = user.mpi_cluster(name)["status"]
    assert (status["exitCode"], status["failures"]) == (0, 1)
    log = lines(user.kubectl("logs", f"{name}-master", "-c", "mpi-master"))
    assert log == [f"{name}-{host}" for host in ("master", "worker-0", "worker-1")]
    (container,) = user.pods(name)[f"{name}-master"]["status"]["containerStatuses"]
    assert container["restartCount"] == 1, "the second attempt is in the same pod"
    user.gone(name)
