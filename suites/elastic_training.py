"""An ElasticJob that trains for as long as a test needs it, on either cluster.

What runs in its pods is `suites/train.py`, which says when training begins (again) and when it
ends.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).with_name("train.py")

Document = dict[str, Any]
T = TypeVar("T")

_BEGIN = re.compile(r"begin: rank \d+ of (\d+) from epoch (\d+)$", re.MULTILINE)
_END = re.compile(r"end: rank \d+ of \d+ after epoch (\d+), accuracy (\S+)$", re.MULTILINE)
_KILL_TRAINING = """\
for p in /proc/[0-9]*; do grep -qa 'u.{}[.]py' $p/cmdline && kill -9 ${{p#/proc/}} && exit; done
exit 1
"""
"""Kills the process that the launcher has started; written so that it does not find itself."""


class User(Protocol):
    """Someone who can use kubectl."""

    def kubectl(self, *words: str) -> str:
        """Run a command that has to do well; what it printed."""

    def create(self, document: Document) -> None:
        """Create an object."""

    def get(self, *words: str) -> Document:
        """An object."""

    def until(
        self, what: str, condition: Callable[[], T], seconds: float = ..., *, every: float = ...
    ) -> T:
        """Wait until a condition gives something true, and return it."""


U = TypeVar("U", bound=User)


class Job(ABC, Generic[U]):
    """An ElasticJob with one to three workers, and what is known of its training.

    Its checkpoints are in a directory of this machine, which all nodes see, as the machines of a
    cluster see a file server.

    Args:
        user: Whose it is.
        name: The job's.
        directory: Where its checkpoints are to be.
        image: Of the workers.
        script: Where `SCRIPT` is in a worker.
        replicas: How many workers there are at first.
        restarts: How often a launcher starts its process again.
        policy: Restart policy of the workers.
        container: More fields of the workers' container.
        pod: More fields of the workers' pods.
        spec: More fields of its spec.
        metadata: More of its metadata.
    """

    def __init__(
        self,
        user: U,
        name: str,
        directory: Path,
        *,
        image: str,
        script: str,
        replicas: int = 2,
        restarts: int = 20,
        policy: str = "ExitCode",
        container: Document | None = None,
        pod: Document | None = None,
        spec: Document | None = None,
        metadata: Document | None = None,
    ) -> None:
        self.user, self.name, self.directory = user, name, directory
        self._script = script
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)  # the image's user may not be root
        more, more_of_pod = container or {}, pod or {}
        checkpoints = {"name": "checkpoints", "hostPath": {"path": str(directory)}}
        mounted = {"name": "checkpoints", "mountPath": "/checkpoints"}
        main = {
            "name": "elasticjob-worker",
            "image": image,
            "args": [
                "--nproc_per_node=1",
                f"--max_restarts={restarts}",
                "--rdzv_conf=last_call_timeout=2",
                script,
            ],
            **more,
            "volumeMounts": [mounted, *more.get("volumeMounts", [])],
        }
        template = {
            "terminationGracePeriodSeconds": 5,
            "containers": [main],
            **more_of_pod,
            "volumes": [checkpoints, *more_of_pod.get("volumes", [])],
        }
        worker = {"replicas": replicas, "restartPolicy": policy, "template": {"spec": template}}
        user.create({
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 3,
                **(spec or {}),
                "replicaSpecs": {"Worker": worker},
            },
        })  # fmt: skip

    # -- what there is ------------------------------------------------------------------------

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
        found = (each for each in self.status.get("conditions", []) if each["type"] == kind)
        return next(found, {})

    def described(self) -> str:
        """What ``kubectl describe`` says."""
        return self.user.kubectl("describe", "elasticjob", self.name)

    def pod(self, index: int) -> str:
        """The name of the pod in a place."""
        return f"{self.name}-worker-{index}"

    def pods(self) -> list[Document]:
        """Its pods."""
        found = self.user.get("pods", "-l", f"job-name={self.name}")
        pods: list[Document] = found.get("items", [])
        return pods

    def uids(self) -> set[str]:
        """Of all pods."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def uid(self, index: int) -> str:
        """Tells the pod in a place from its successor; empty if there is none."""
        uid = "jsonpath={.metadata.uid}"
        found = self.user.kubectl("get", "pod", self.pod(index), "--ignore-not-found", "-o", uid)
        return found.strip()

    # -- what it trains -----------------------------------------------------------------------

    @abstractmethod
    def logs(self) -> list[str]:
        """What the pods have printed, those that can be asked."""

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
            # Not too often: a kubectl takes a tenth of the CPU time that a process begins in.
            return max(self.user.until(what, there, 400, every=1.0))
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

        return self.user.until(f"{self.pod(index)} is recreated", other)

    # -- what is done to it -------------------------------------------------------------------

    def scale(self, replicas: int) -> None:
        """Say how many workers there are to be."""
        self.user.kubectl("scale", "elasticjob", self.name, f"--replicas={replicas}")

    def suspend(self, suspended: bool) -> None:
        """Stop it, or have it go on."""
        patch = f'{{"spec":{{"suspend":{str(suspended).lower()}}}}}'
        self.user.kubectl("patch", "elasticjob", self.name, "--type=merge", "-p", patch)

    def kill_training(self, index: int) -> None:
        """Kill what the launcher of a pod has started."""
        kill = _KILL_TRAINING.format(self._script.removesuffix(".py"))
        self.user.kubectl("exec", self.pod(index), "--", "sh", "-c", kill)

    def end(self) -> int:
        """Training has lasted long enough: it has to end well, and to have learnt something.

        Returns:
            After which epoch it has ended.
        """
        (self.directory / "enough").touch()
        self.user.until(f"{self.name} ends", lambda: self.status.get("completionTime"))
        assert self.status["phase"] == "Succeeded", self.described()
        ended = [
            (int(epoch), float(how)) for log in self.logs() for epoch, how in _END.findall(log)
        ]
        assert min(accuracy for _, accuracy in ended) >= 0.95
        return max(epoch for epoch, _ in ended)
