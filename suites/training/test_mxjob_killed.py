"""Roles of an MxJob are killed while MXNet trains: the job goes on, or fails, and never hangs.

A role is killed as the kernel would do it, in the first second of its process, in the middle of
training, or after the last step. Each role is killed once in a run, at another moment with each
change of the code; with TRAINCREW_EVERY_KILL set, at all of them.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

import variation

from .mxjobs import EPOCHS, Job

if TYPE_CHECKING:
    from pathlib import Path

    from suites import shell


pytestmark = pytest.mark.usefixtures("mxnet")

ROLES = ("scheduler-0", "server-0", "worker-0", "worker-2")
MOMENTS = ("first second", "mid-training", "last step")
NOTICED_SECONDS = 10.0


def pairs() -> list[Any]:
    """Return the roles and moments of this run."""
    return [
        pytest.param(role, moment, id=f"{role}-{moment.replace(' ', '-')}")
        for (row, role), (column, moment) in itertools.product(enumerate(ROLES), enumerate(MOMENTS))
        if (row + column + variation.NUMBER) % len(MOMENTS) == 0
        or "TRAINCREW_EVERY_KILL" in os.environ
    ]


def words(role: str) -> str:
    """Return a role as the status names it."""
    kind, _, index = role.partition("-")
    return "The scheduler" if kind == "scheduler" else f"{kind.capitalize()} {index}"


@pytest.mark.parametrize(("role", "moment"), pairs())
def test_a_role_that_is_killed(user: shell.User, tmp_path: Path, role: str, moment: str) -> None:
    job = Job(user, f"k-{role}-{MOMENTS.index(moment)}", tmp_path / "checkpoints")
    user.create(job.document)
    killed = job.kill(role, moment)

    user.until("it is noticed", lambda: "lastRestartReason" in job.status, every=0.05)
    assert time.monotonic() - killed < NOTICED_SECONDS
    reason = job.status["lastRestartReason"]
    assert reason.startswith(f"{words(role)} failed: pod {job.name}-"), reason
    assert "container mxnet exited with code 137" in reason
    assert reason.endswith("All replicas are restarted (restart 1 of 6).")

    status = job.until_ended()
    assert (status["phase"], status["state"]) == ("Done", "Succeeded"), user.state()
    assert [status[key] for key in ("attempt", "failures", "restarts")] == [1, 1, 1]
    job.assert_nothing_runs()
    said = job.log_of_first_worker()
    (begun,) = re.findall(r"to validate, from epoch (\d+) on$", said, re.MULTILINE)
    least = {"mid-training": EPOCHS // 2, "last step": EPOCHS}.get(moment, 0)
    assert least <= int(begun) <= EPOCHS
    (accuracy,) = re.findall(r"^validation accuracy: (\S+)$", said, re.MULTILINE)
    assert float(accuracy) >= 0.9, said  # these are few epochs
    user.kubectl("delete", "mxj", job.name)


def test_without_retries_the_job_fails(user: shell.User, tmp_path: Path) -> None:
    role = ROLES[variation.NUMBER % len(ROLES)]
    job = Job(user, "k-for-good", tmp_path / "checkpoints", backoffLimit=0)
    user.create(job.document)
    killed = job.kill(role, "mid-training")
    status = job.until_ended()

    assert time.monotonic() - killed < NOTICED_SECONDS
    assert (status["phase"], status["state"]) == ("Done", "Failed")
    assert status["reason"].startswith(f"{words(role)} failed: pod "), status["reason"]
    assert "container mxnet exited with code 137" in status["reason"]
    failed = {each["type"]: each for each in status["conditions"]}["Failed"]
    assert failed["reason"] == "BackoffLimitExceeded"
    job.assert_nothing_runs()
    left = user.get("pods", "-l", f"mxnet.mlkube.io/job-name={job.name}")["items"]
    names = [pod["metadata"]["name"] for pod in left]
    assert len(names) == 1, "the one that was killed, for its log"
    assert re.fullmatch(job.pattern(role), names[0])
    user.kubectl("delete", "mxj", job.name)
