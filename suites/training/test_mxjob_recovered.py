"""``recoverWorkers``: a killed worker is recreated alone, and the job trains to its end.

That needs a store with which no worker waits for another one (``dist_async``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from suites import processes, shell

from .mxjobs import ID, Job, soon

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("mxnet")

ALL = 6
"""A scheduler, two servers and three workers."""


def asynchronous(user: shell.User, name: str, checkpoints: Path) -> Job:
    """Return the example with recoverWorkers and ``dist_async``; it trains for some 15 s."""
    job = Job(user, name, checkpoints)
    job.document["spec"]["recoverWorkers"] = True
    (container,) = job.document["spec"]["replicaSpecs"][2]["template"]["spec"]["containers"]
    container["command"] += ["--kv-store=dist_async", "--lr=0.03", "--epochs=30"]
    return job


def processes_of(job: Job, roles: str = "[a-z]+-r1-[0-9]") -> set[int]:
    """Return the first processes of some pods."""
    return set(processes.first_of_pods(f"{job.name}-{roles}-[a-z0-9]{{5}}"))


def assert_succeeded(job: Job) -> None:
    """Wait for the end; assert that it succeeded and has learned to read."""
    status = job.until_ended()
    assert (status["phase"], status["state"]) == ("Done", "Succeeded"), job.user.state()
    states = {each["Mx_replica_type"]: each["state"] for each in status["replicaStatuses"]}
    assert states == dict.fromkeys(("SCHEDULER", "SERVER", "WORKER"), "Succeeded")
    said = job.log_of_first_worker()
    (accuracy,) = re.findall(r"^validation accuracy: (\S+)$", said, re.MULTILINE)
    assert float(accuracy) >= 0.95, said
    job.assert_nothing_runs()


def test_the_others_go_on_and_the_job_trains_to_its_end(user: shell.User, tmp_path: Path) -> None:
    job = asynchronous(user, "recovers", tmp_path / "checkpoints")
    user.create(job.document)
    soon("all roles run", lambda: len(processes_of(job)) == ALL)
    others = processes_of(job, f"(scheduler|server|worker)-{ID}-[01]")
    job.kill("worker-2", "mid-training")
    user.until("it is noticed", lambda: "recoveries" in job.status, every=0.05)
    soon("it runs again", lambda: processes_of(job, f"worker-{ID}-2"))

    assert processes_of(job, f"(scheduler|server|worker)-{ID}-[01]") == others
    assert len(others) == ALL - 1
    status = job.status
    assert status["phase"] == "Running"
    assert status["lastRestartReason"].endswith("It is recreated (restart 1 of 6).")

    assert_succeeded(job)
    status = job.status
    assert (status.get("attempt", 0), status["recoveries"]) == (0, {"2": 1})
    assert (status["failures"], status["restarts"]) == (1, 1)
    user.kubectl("delete", "mxj", job.name)


def test_the_second_loss_restarts_all_and_the_job_trains_to_its_end(
    user: shell.User, tmp_path: Path
) -> None:
    """The scheduler of MXNet would end itself if it had to take back another worker."""
    job = asynchronous(user, "recovers-once", tmp_path / "checkpoints")
    user.create(job.document)
    job.kill("worker-2", "mid-training")
    user.until("it is noticed", lambda: "recoveries" in job.status, every=0.05)
    soon("it runs again", lambda: processes_of(job, f"worker-{ID}-2"))
    job.kill("worker-1", "mid-training")
    user.until("all are restarted", lambda: job.status.get("attempt") == 1, every=0.05)

    assert_succeeded(job)
    assert (job.status["attempt"], job.status["failures"]) == (1, 2)
    user.kubectl("delete", "mxj", job.name)
