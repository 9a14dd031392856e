"""An ElasticJob that trains for as long as a test needs it, and what is done to it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from suites import shell

Document = dict[str, Any]
IMAGE = "suite/torch"
# Of the process the launcher has started; written so that it does not find itself.
KILL_TRAINING = """\
for p in /proc/[0-9]*; do grep -qa 'u./train[.]py' $p/cmdline && kill -9 ${p#/proc/} && exit; done
exit 1
"""
BEGIN = re.compile(r"begin: rank \d+ of (\d+) from epoch (\d+)")
END = re.compile(r"end: rank \d+ of (\d+) after epoch (\d+), accuracy (\d\.\d+)")


class User(shell.User):
    """Someone with ElasticJobs."""

    timeout = 900.0  # an image with PyTorch is pulled when it is first used

    def state(self) -> str:
        """What there is to know when something has not happened."""
        selector = "group-name=elastic.pytorch.org"
        logs = self.kubectl("logs", "-l", selector, "--prefix", "--tail=40", code=None)
        return f"{super().state()}\n{logs}"


class Job:
    """An ElasticJob, and what is known of its training.

    Args:
        user: Whose it is.
        name: Its name.
        directory: Of the checkpoints.
        replicas: Workers to begin with.
        restarts: How often a launcher starts its process again.
        policy: Restart policy of the workers.
        resources: Of a worker.
        spec: More of the spec.
    """

    def __init__(
        self,
        user: User,
        name: str,
        directory: Path,
        *,
        replicas: int = 2,
        restarts: int = 20,
        policy: str = "ExitCode",
        resources: Document | None = None,
        **spec: Any,
    ) -> None:
        self.user, self.name, self.directory = user, name, directory
        directory.mkdir(exist_ok=True)
        container = {
            "name": "elasticjob-worker",
            "image": IMAGE,
            "args": [
                "--nproc_per_node=1",
                f"--max_restarts={restarts}",
                "--rdzv_conf=last_call_timeout=2",
                "/train.py",
            ],
            "resources": resources or {},
            "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}],
        }
        pod = {
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [{"name": "c", "hostPath": {"path": str(directory)}}],
        }
        worker = {"replicas": replicas, "restartPolicy": policy, "template": {"spec": pod}}
        limits = {"minReplicas": 1, "maxReplicas": 3}
        user.create(
            {
                "apiVersion": "elastic.pytorch.org/v1alpha1",
                "kind": "ElasticJob",
                "metadata": {"name": name},
                "spec": {**limits, **spec, "replicaSpecs": {"Worker": worker}},
            }
        )

    # -- what users see -----------------------------------------------------------------------

    @property
    def status(self) -> Document:
        """What the job says of itself."""
        status: Document = self.user.get("elasticjob", self.name).get("status", {})
        return status

    @property
    def counted(self) -> tuple[int, int]:
        """Restarts and failures."""
        status = self.status
        return status["restarts"], status.get("failures", 0)

    def condition(self, kind: str) -> Document:
        """One of its conditions; empty if it has none of that type."""
        conditions = self.status.get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def pod(self, index: int) -> str:
        """Name of a worker."""
        return f"{self.name}-worker-{index}"

    def pods(self) -> list[Document]:
        """Its pods."""
        found: list[Document] = self.user.get("pods", "-l", f"job-name={self.name}")["items"]
        return found

    def uid(self, index: int) -> str:
        """Tells a worker from its successor; empty if there is none."""
        uid = "jsonpath={.metadata.uid}"
        found = self.user.kubectl("get", "pod", self.pod(index), "--ignore-not-found", "-o", uid)
        return found.strip()

    def begun(self) -> list[tuple[int, int]]:
        """Every beginning of training that can still be read: of how many, from which epoch on."""
        selector = f"job-name={self.name}"
        logs = self.user.kubectl("logs", "-l", selector, "--tail=-1", code=None)
        return [(int(size), int(epoch)) for size, epoch in BEGIN.findall(logs)]

    def until_training(self, world: int, after: int = -1) -> int:
        """Wait until so many train from a later epoch on; returns that epoch."""
        best = -1

        def there() -> bool:
            nonlocal best
            epochs = [epoch for size, epoch in self.begun() if size == world and epoch > after]
            best = max((epoch for epoch in epochs if epochs.count(epoch) >= world), default=-1)
            return best >= 0

        what = f"{self.name}: {world} train, after epoch {after}"
        # Not too often: a kubectl takes a tenth of the CPU time that a training process begins in.
        self.user.until(what, there, 400, every=1.0)
        return best

    # -- what is done to it -------------------------------------------------------------------

    def scale(self, replicas: int) -> None:
        """Ask for so many workers."""
        self.user.kubectl("scale", "elasticjob", self.name, f"--replicas={replicas}")

    def suspend(self, suspended: bool) -> None:
        """Stop it, or have it go on."""
        patch = f'{{"spec":{{"suspend":{str(suspended).lower()}}}}}'
        self.user.kubectl("patch", "elasticjob", self.name, "--type=merge", "-p", patch)

    def kill_training(self, index: int) -> None:
        """End the process that trains on a worker with SIGKILL."""
        self.user.kubectl("exec", self.pod(index), "--", "sh", "-c", KILL_TRAINING)

    def kill_launcher(self, index: int) -> None:
        """End a worker's launcher (the agent of TorchElastic) with SIGKILL.

        From outside, as the kernel would: in its pod it is process 1, which nobody there can kill.
        """
        host = f"HOSTNAME={self.pod(index)}".encode()
        (launcher,) = [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if f"--rdzv_id={self.name}".encode() in _read(process / "cmdline")
            and host in _read(process / "environ").split(b"\0")
        ]
        os.kill(launcher, signal.SIGKILL)

    def until_replaced(self, index: int, uid: str) -> None:
        """Wait until a worker has a successor."""
        self.user.until(f"another worker {index}", lambda: self.uid(index) not in {"", uid})

    def end(self) -> str:
        """Training has lasted long enough; it must end well. Returns what worker 0 said at last."""
        follow = subprocess.Popen(
            ["kubectl", "logs", "-f", self.pod(0)],
            env=self.user.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        (self.directory / "enough").touch()
        self.user.until(f"{self.name} ends", lambda: self.status.get("completionTime"))
        assert self.status["phase"] == "Succeeded", self.status
        said, _ = follow.communicate(timeout=60)
        assert follow.returncode == 0, said
        return said


def _read(path: Path) -> bytes:
    """What /proc says of a process; nothing if that has ended or is not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
