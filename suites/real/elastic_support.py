"""ElasticJobs that train on the real cluster, and what their user sees of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.cluster.processes import NotReady

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .install_support import User

TORCH = "docker.io/traincrew/torch:0.1.0"
ETCD = "docker.io/traincrew/etcd:0.1.0"
SCRIPT = Path(__file__).parents[1] / "train.py"
"""Trains until told to end; says when it begins, and from which epoch on."""
SCRIPTS = "scripts"

KILL_TRAINING = """\
for p in /proc/[0-9]*; do grep -qa 'u./scripts/train[.]py' $p/cmdline && kill -9 ${p#/proc/} && exit
done
exit 1
"""
"""Kills the process that the launcher has started; written so that it does not find itself."""

Document = dict[str, Any]

_BEGIN = re.compile(r"^begin: rank \d+ of (\d+) from epoch (\d+)$", re.MULTILINE)
_END = re.compile(r"^end: rank \d+ of \d+ after epoch (\d+), accuracy (\S+)$", re.MULTILINE)


class Job:
    """An ElasticJob with one to three workers, and what is known of its training.

    Its checkpoints are in a directory of this machine, which both nodes see, as the machines of a
    cluster see a file server.

    Args:
        user: Whose it is.
        name: The job's.
        directory: Where its checkpoints are to be.
        replicas: How many workers there are at first.
        spec: More fields of its spec.
    """

    def __init__(
        self, user: User, name: str, directory: Path, *, replicas: int = 2, **spec: Any
    ) -> None:
        self.user, self.name, self.directory = user, name, directory
        directory.mkdir()
        directory.chmod(0o777)  # the image's user is not root
        selector = {"matchLabels": {"job-name": name}}
        template = {
            "spec": {
                "terminationGracePeriodSeconds": 5,
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": selector,
                    }
                ],
                "containers": [
                    {
                        "name": "elasticjob-worker",
                        "image": TORCH,
                        "args": [
                            "--nproc_per_node=1",
                            "--max_restarts=20",
                            "--rdzv_conf=last_call_timeout=2",
                            "/scripts/train.py",
                        ],
                        "volumeMounts": [
                            {"name": "checkpoints", "mountPath": "/checkpoints"},
                            {"name": "scripts", "mountPath": "/scripts"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "checkpoints", "hostPath": {"path": str(directory)}},
                    {"name": "scripts", "configMap": {"name": SCRIPTS}},
                ],
            }
        }
        worker = {"replicas": replicas, "restartPolicy": "ExitCode", "template": template}
        user.create({
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {
                "minReplicas": 1, "maxReplicas": 3, **spec, "replicaSpecs": {"Worker": worker}
            },
        })  # fmt: skip

    # -- what there is ------------------------------------------------------------------------

    @property
    def status(self) -> Document:
        """What the job says of itself."""
        status: Document = self.user.get("elasticjob", self.name).get("status", {})
        return status

    def condition(self, name: str) -> Document:
        """One of its conditions; empty if it has none of that type."""
        found = (each for each in self.status.get("conditions", []) if each["type"] == name)
        return next(found, {})

    def row(self) -> dict[str, str]:
        """What ``kubectl get`` shows in its columns."""
        head, line = self.user.kubectl("get", "elasticjob", self.name).splitlines()
        return dict(zip(head.split(), line.split(), strict=True))

    def described(self) -> str:
        """What ``kubectl describe`` says, with one blank between words."""
        return re.sub(" +", " ", self.user.kubectl("describe", "elasticjob", self.name))

    def events(self, reason: str) -> list[str]:
        """Messages of the job's events of a reason, in order."""
        found = self.user.items(
            "events",
            f"--field-selector=involvedObject.name={self.name},reason={reason}",
            "--sort-by=.metadata.creationTimestamp",
        )
        return [event["message"] for event in found]

    def pod(self, index: int) -> str:
        """The name of the pod in a place."""
        return f"{self.name}-worker-{index}"

    def uid(self, index: int) -> str:
        """Of the pod in a place; empty if there is none."""
        return str(self.user.get("pod", self.pod(index)).get("metadata", {}).get("uid", ""))

    def uids(self) -> set[str]:
        """Of all pods."""
        found = self.user.items("pods", "-l", f"job-name={self.name}")
        return {pod["metadata"]["uid"] for pod in found}

    def node_of(self, index: int) -> str:
        """Where the pod in a place runs."""
        return str(self.user.get("pod", self.pod(index))["spec"].get("nodeName", ""))

    # -- what it trains -----------------------------------------------------------------------

    def logs(self) -> Iterator[str]:
        """What each pod has printed, those that can be asked."""
        for index in range(3):
            # Not there, not started yet, or its node is lost.
            with contextlib.suppress(NotReady):
                yield self.user.kubectl("logs", self.pod(index), "--request-timeout=5s")

    def until_training(self, world: int, after: int = -1) -> int:
        """Wait until so many train together from a later epoch on; returns that epoch."""
        begun: list[tuple[int, int]] = []

        def there() -> list[int]:
            begun[:] = [
                (int(size), int(epoch))
                for log in self.logs()
                for size, epoch in _BEGIN.findall(log)
            ]
            epochs = [epoch for size, epoch in begun if size == world and epoch > after]
            return [epoch for epoch in epochs if epochs.count(epoch) >= world]

        what = f"{self.name}: {world} train, after epoch {after}"
        try:
            return max(self.user.until(what, there, seconds=400))
        except AssertionError as error:
            pods = self.user.kubectl("get", "pods", "-o", "wide")
            tails = ["\n".join(log.splitlines()[-25:]) for log in self.logs()]
            raise AssertionError(
                "\n\n".join([f"{error}; begun: {begun}", pods, self.described(), *tails])
            ) from None

    def until_another(self, index: int, than: str) -> str:
        """Wait for another pod in a place; returns its UID."""

        def other() -> str:
            return found if (found := self.uid(index)) != than else ""

        return self.user.until(f"{self.pod(index)} is made again", other)

    # -- what is done to it -------------------------------------------------------------------

    def scale(self, replicas: int) -> None:
        """Say how many workers there are to be."""
        self.user.kubectl("scale", "elasticjob", self.name, f"--replicas={replicas}")

    def kill_training(self, index: int) -> None:
        """Kill what the launcher of a pod has started."""
        self.user.kubectl("exec", self.pod(index), "--", "sh", "-c", KILL_TRAINING)

    def kill_launcher(self, index: int) -> None:
        """Kill the first process of a pod's container, as the kernel does for want of memory.

        Nobody within the container can: the first process of a namespace is protected.
        """
        uid = self.uid(index)
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (
                    entry.name.isdigit()
                    and uid in (entry / "cgroup").read_text()
                    and b"torch.distributed.run" in (entry / "cmdline").read_bytes()
                ):
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
        raise AssertionError(f"{self.pod(index)} ({uid}): no launcher runs")

    def end(self) -> float:
        """Training has lasted long enough; wait for success, and return the accuracy."""
        (self.directory / "enough").touch()
        self.user.until(f"{self.name} ends", lambda: self.status.get("completionTime"))
        assert self.status["phase"] == "Succeeded", self.described()
        found = [float(accuracy) for log in self.logs() for _, accuracy in _END.findall(log)]
        return min(found)


@contextlib.contextmanager
def followed(user: User, pod: str, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``kubectl logs -f`` of a pod, with what it prints in a file."""
    with file.open("wb") as output:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("kubectl"),
                f"--kubeconfig={user.cluster.kubeconfig}",
                f"--namespace={user.namespace}",
                *("logs", "-f", pod),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
