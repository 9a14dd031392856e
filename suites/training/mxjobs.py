"""The distributed example of MxJob, as the suites run it and kill its roles."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from suites import processes, shell

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]

EXAMPLE = Path(__file__).parents[2] / "examples/mxnet/mxjob-dist.yaml"
EPOCHS = 8
ID = "r1"
LIMIT_SECONDS = 120.0


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
