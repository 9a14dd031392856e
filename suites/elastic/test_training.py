"""ElasticJobs train for real on the embedded cluster, while workers come and go.

What a user does: `traincrew up`, then kubectl. PyTorch is large, so its environment comes from the
cache of this machine (`TRAINCREW_CACHE`), where the first run puts it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.local.cluster import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
Document = dict[str, Any]
# Of the process the launcher has started; written so that it does not find itself.
KILL_TRAINING = """\
for p in /proc/[0-9]*; do grep -qa 'u./train[.]py' $p/cmdline && kill -9 ${p#/proc/} && exit; done
exit 1
"""
BEGIN = re.compile(r"begin: rank \d+ of (\d+) from epoch (\d+)")


class User:
    """Someone at a shell with traincrew and kubectl."""

    def __init__(self, home: Path) -> None:
        programs = Path(sys.executable).parent
        self.home = home
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TRAINCREW_HOME": str(home / "clusters"),
            "TRAINCREW_CACHE": str(default_cache()),
            "XDG_CONFIG_HOME": str(home / "config"),
            "KUBECONFIG": str(home / "kubeconfig"),
        }

    def does(self, *command: str, given: str | None = None, code: int | None = 0) -> str:
        """Run a command; its output, both streams."""
        result = subprocess.run(
            command,
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        if code is not None:
            assert result.returncode == code, f"{' '.join(command)}\n{result.stdout}"
        return result.stdout

    def kubectl(self, *words: str, given: str | None = None, code: int | None = 0) -> str:
        return self.does("kubectl", *words, given=given, code=code)

    def get(self, *words: str) -> Document:
        found: Document = json.loads(self.kubectl("get", *words, "-o", "json"))
        return found

    def until(self, what: str, condition: Callable[[], object], seconds: float = 180) -> None:
        """Wait for a condition; fail with the state of the cluster."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                state = self.kubectl("get", "elasticjob,pod,event", "-o", "wide")
                logs = self.kubectl(
                    "logs",
                    "-l",
                    "group-name=elastic.pytorch.org",
                    "--prefix",
                    "--tail=40",
                    code=None,
                )
                pytest.fail(f"waited {seconds:.0f} s: {what}\n{state}\n{logs}")
            time.sleep(0.2)


class Job:
    """An ElasticJob, and what is known of its training."""

    def __init__(
        self, user: User, name: str, directory: Path, *, restarts: int = 20, **spec: Any
    ) -> None:
        self.user, self.name = user, name
        self.directory = directory
        directory.mkdir(exist_ok=True)
        worker = {
            "replicas": 2,
            "restartPolicy": "ExitCode",
            "template": {
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [
                        {
                            "name": "elasticjob-worker",
                            "image": "suite/torch",
                            "args": [
                                "--nproc_per_node=1",
                                f"--max_restarts={restarts}",
                                "--rdzv_conf=last_call_timeout=2",
                                "/train.py",
                            ],
                            "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}],
                        }
                    ],
                    "volumes": [{"name": "c", "hostPath": {"path": str(directory)}}],
                }
            },
        }
        limits = {"minReplicas": 1, "maxReplicas": 3}
        manifest = {
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {**limits, **spec, "replicaSpecs": {"Worker": worker}},
        }
        user.kubectl("create", "-f", "-", given=json.dumps(manifest))

    @property
    def status(self) -> Document:
        """What the job says of itself."""
        status: Document = self.user.get("elasticjob", self.name).get("status", {})
        return status

    def pod(self, index: int) -> str:
        return f"{self.name}-worker-{index}"

    def uid(self, index: int) -> str:
        found = self.user.kubectl(
            "get", "pod", self.pod(index), "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"
        )
        return found.strip()

    def begun(self) -> list[tuple[str, int, int]]:
        """Every beginning of training: which pod, of how many, from which epoch on."""
        selector = f"job-name={self.name}"
        logs = self.user.kubectl("logs", "-l", selector, "--prefix", "--tail=-1", code=None)
        return [
            (line.split("]")[0], int(found[1]), int(found[2]))
            for line in logs.splitlines()
            if (found := BEGIN.search(line))
        ]

    def until_training(self, world: int, after: int = -1) -> int:
        """Wait until so many train from a later epoch on; returns that epoch."""
        best = -1

        def there() -> bool:
            nonlocal best
            epochs = [epoch for _, size, epoch in self.begun() if size == world and epoch > after]
            counted = {epoch: epochs.count(epoch) for epoch in epochs}
            best = max((epoch for epoch, count in counted.items() if count >= world), default=-1)
            return best >= 0

        self.user.until(f"{self.name}: {world} train, after epoch {after}", there)
        return best

    def scale(self, replicas: int) -> None:
        self.user.kubectl("scale", "elasticjob", self.name, f"--replicas={replicas}")

    def end(self) -> None:
        """Training has lasted long enough; it must end well."""
        (self.directory / "enough").touch()
        self.user.until(f"{self.name} ends", lambda: self.status.get("completionTime"))
        assert self.status["phase"] == "Succeeded", self.status


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """With a cluster of two nodes."""
    user = User(tmp_path_factory.mktemp("home"))
    catalog = str(HERE / "environments.yaml")
    user.does("traincrew", "images", "--images", catalog, "pull", "suite/torch", code=None)
    kubeconfig = user.environment["KUBECONFIG"]
    user.does("traincrew", "up", "--nodes=2", f"--images={catalog}", f"--kubeconfig={kubeconfig}")
    try:
        yield user
    finally:
        user.does("traincrew", "down")


def test_workers_come_and_go_while_the_first_one_serves_the_rendezvous(
    user: User, tmp_path: Path
) -> None:
    job = Job(user, "digits", tmp_path / "c")
    job.until_training(2)
    job.scale(3)
    epoch = job.until_training(3, after=0)
    assert job.status["phase"] == "Running"

    user.kubectl("exec", job.pod(2), "--", "sh", "-c", KILL_TRAINING)
    epoch = job.until_training(3, after=epoch)
    assert job.status.get("restarts") == 0  # the launcher dealt with it

    lost = job.uid(1)
    user.kubectl("delete", "pod", job.pod(1), "--wait=false")
    user.until("another worker 1", lambda: job.uid(1) not in {"", lost})
    epoch = job.until_training(3, after=epoch)
    assert job.status["restarts"] == 1

    host = job.uid(0)
    user.kubectl("delete", "pod", job.pod(0), "--wait=false")
    user.until("another worker 0", lambda: job.uid(0) not in {"", host})
    epoch = job.until_training(3, after=epoch)

    job.scale(1)
    job.until_training(1, after=epoch)
    assert job.uid(1) == job.uid(2) == ""
    job.end()
    assert job.status.get("failures", 0) == 0


def test_suspend_and_resume_go_on_from_the_checkpoint(user: User, tmp_path: Path) -> None:
    job = Job(user, "rests", tmp_path / "c")
    job.until_training(2)
    checkpoint = tmp_path / "c" / "digits.pt"
    user.until("a checkpoint", checkpoint.exists)
    patch = '{"spec":{"suspend":%s}}'
    user.kubectl("patch", "elasticjob", "rests", "--type=merge", "-p", patch % "true")
    user.until("no pods", lambda: not user.get("pods", "-l", "job-name=rests")["items"])
    user.until("Suspended", lambda: job.status["phase"] == "Suspended")
    user.kubectl("patch", "elasticjob", "rests", "--type=merge", "-p", patch % "false")
    job.until_training(2, after=0)
    job.end()


def test_a_program_that_fails_ends_the_job(user: User, tmp_path: Path) -> None:
    checkpoints = tmp_path / "c"
    checkpoints.mkdir()
    (checkpoints / "digits.pt").write_bytes(b"no checkpoint")
    job = Job(user, "broken", checkpoints, restarts=1, minReplicas=2)
    user.until("the end", lambda: job.status.get("completionTime"))

    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "ElasticJobFailed"
    assert "exited with code 1" in job.status["message"]
