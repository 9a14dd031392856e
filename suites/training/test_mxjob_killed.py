"""Roles of an MxJob are killed while MXNet trains: the job goes on, or fails, and never hangs.

A role is killed as the kernel would do it, in the first second of its process, in the middle of
training, or after the last step. Each role is killed once in a run, at another moment with each
change of the code; with TRAINCREW_EVERY_KILL set, at all of them.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites import processes, shell

import variation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traincrew.local.images import Environment

Document = dict[str, Any]

EXAMPLE = Path(__file__).parents[2] / "examples/mxnet/mxjob-dist.yaml"
ROLES = ("scheduler-0", "server-0", "worker-0", "worker-2")
MOMENTS = ("first second", "mid-training", "last step")
EPOCHS = 8
ID = "r1"
NOTICED_SECONDS = 10.0
LIMIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def user(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mxnet: Environment
) -> Iterator[shell.User]:
    """A user with a running cluster, whose environment is built."""
    user = shell.User(tmp_path_factory.mktemp("user"), cache, "mxj,job,pod,event")
    user.traincrew("up", "--kubeconfig", str(user.kubeconfig))
    yield user
    log = user.log()
    user.traincrew("down")
    assert "Traceback" not in log, log
    shutil.rmtree(user.home)


class Job:
    """The example, with its checkpoints where the test can see them.

    Args:
        user: Its user.
        name: Its name.
        checkpoints: Their directory.
        policy: Its run policy.
    """

    def __init__(self, user: shell.User, name: str, checkpoints: Path, **policy: Any) -> None:
        self.user, self.name, self.checkpoints = user, name, checkpoints
        _, job = yaml.safe_load_all(EXAMPLE.read_text())
        job["metadata"]["name"] = name
        job["spec"] |= {"RuntimeId": ID, "runPolicy": policy}
        pod = job["spec"]["replicaSpecs"][2]["template"]["spec"]
        pod["containers"][0]["command"] += [f"--epochs={EPOCHS}", "--pause=0.4"]
        pod["volumes"][0] = {"name": "checkpoints", "hostPath": {"path": str(checkpoints)}}
        checkpoints.mkdir()
        self.document: Document = job

    @property
    def status(self) -> Document:
        """Its status; empty if there is none yet."""
        found: Document = self.user.get("mxj", self.name).get("status", {})
        return found

    def pattern(self, role: str) -> str:
        """Return the pattern of the names of a replica's pods."""
        kind, _, index = role.partition("-")
        return f"{self.name}-{kind}-{ID}-{index}-[a-z0-9]{{5}}"

    def kill(self, role: str, moment: str) -> float:
        """Kill a role at a moment; return when, on the monotonic clock."""
        epoch = {"mid-training": EPOCHS // 2, "last step": EPOCHS}.get(moment, 0)
        if epoch:
            saved = self.checkpoints / f"digits-{epoch:04}.params"
            soon(f"epoch {epoch} of {self.name}", saved.exists)

        def process() -> list[int]:
            return processes.first_of_pods(self.pattern(role))

        (victim,) = soon(f"{role} of {self.name} runs", process)
        os.kill(victim, signal.SIGKILL)
        return time.monotonic()

    def until_ended(self) -> Document:
        """Wait for its end; return its status."""
        self.user.until(f"{self.name} ends", lambda: "state" in self.status, LIMIT_SECONDS)
        return self.status

    def log_of_first_worker(self) -> str:
        """Return the log of the worker that prints the accuracy, which is any of them."""
        own = f"mxnet.mlkube.io/job-name={self.name},job_type=WORKER"
        return self.user.kubectl("logs", "-l", own, "--tail=-1")

    def assert_nothing_runs(self) -> None:
        """Wait until no pod and no process of it is left running."""
        own = f"mxnet.mlkube.io/job-name={self.name}"

        def ended() -> bool:
            pods = self.user.get("pods", "-l", own)["items"]
            return {pod["status"]["phase"] for pod in pods} <= {"Succeeded", "Failed"}

        # A scheduler or server does not heed SIGTERM: it has a grace period of 30 s.
        self.user.until(f"the pods of {self.name} have ended", ended, 60)
        left = f"{self.name}-.*"
        self.user.until(f"no process of {self.name}", lambda: not processes.of_pods(left), 15)


def soon(what: str, check: Callable[[], Any]) -> Any:
    """Wait with short pauses until a check returns something true; return it."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (found := check()):
        assert time.monotonic() < deadline, f"not in {LIMIT_SECONDS:.0f} s: {what}"
        time.sleep(0.01)
    return found


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
