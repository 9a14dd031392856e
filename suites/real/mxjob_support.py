"""MxJobs that train on the real cluster, as their user sees them."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import yaml
from hack.cluster.processes import NotReady
from suites.mxnet_manifests import GPU, own

from . import node_processes
from .install_support import ROOT, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

    from .install_support import User

IMAGE = "docker.io/traincrew/mxnet:0.1.0"
EXAMPLES = ROOT / "examples" / "mxnet"
EPOCHS = 16

Document = dict[str, Any]

_ACCURACY = re.compile(r"^validation accuracy: (\S+)$", re.MULTILINE)
_BEGUN = re.compile(r"to validate, from epoch (\d+) on$", re.MULTILINE)


class Job:
    """An MxJob, and what is known of its pods.

    Args:
        user: Whose it is.
        name: Its name.
    """

    def __init__(self, user: User, name: str) -> None:
        self.user, self.name = user, name

    @property
    def status(self) -> Document:
        """What it says of itself; empty if it has no status yet."""
        found: Document = self.user.get("mxj", self.name).get("status", {})
        return found

    @property
    def ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return "state" in self.status

    def pods(self) -> dict[str, Document]:
        """Its newest pods, by type and index as in ``worker-0``."""
        found = sorted(
            self.user.items("pods", "-l", own(self.name)),
            key=lambda pod: int(pod["metadata"]["labels"]["mxnet.mlkube.io/attempt"]),
        )
        return {
            f"{labels['job_type'].lower()}-{labels['task_index']}": pod
            for pod in found
            for labels in [pod["metadata"]["labels"]]
        }

    def row(self) -> list[str]:
        """What ``kubectl get`` shows of it, without its age."""
        return self.user.kubectl("get", "mxj", self.name, "--no-headers").split()[:-1]

    def said(self) -> str:
        """What its workers have printed, those of the current attempt."""
        attempt = f"mxnet.mlkube.io/attempt={self.status.get('attempt', 0)}"
        selector = f"{own(self.name)},{attempt},job_type=WORKER"
        return self.user.kubectl("logs", "-l", selector, "--tail=-1")

    def restarts(self) -> list[str]:
        """Return the messages of its events about restarts."""
        which = f"--field-selector=involvedObject.name={self.name},reason=Restarting"
        return [event["message"] for event in self.user.items("events", which)]

    def until_ended(self) -> Document:
        """Wait for its end; return its status."""
        self.until(f"{self.name} ends", lambda: self.ended)
        return self.status

    def until(self, what: str, condition: Any) -> Any:
        """Wait until a condition returns something true; say all about the job if it does not."""
        try:
            return self.user.until(what, condition, 400, every=0.5)
        except AssertionError as error:
            pods = self.user.kubectl("get", "pods", "-o", "wide")
            described = self.user.kubectl("describe", "mxj", self.name)
            logs = ""
            with contextlib.suppress(NotReady):  # not started yet, or their node is lost
                logs = self.user.kubectl(
                    "logs", "-l", own(self.name), "--prefix", "--tail=9", "--request-timeout=5s"
                )
            raise AssertionError("\n\n".join([str(error), pods, described, logs])) from None

    def assert_trained(self) -> None:
        """Check that the job has succeeded, all its roles have, and that it has learnt."""
        status = self.until_ended()
        assert (status["phase"], status["state"]) == ("Done", "Succeeded"), status
        assert {each["state"] for each in status["replicaStatuses"]} == {"Succeeded"}
        self.until("its Jobs are complete", self._complete)
        assert {pod["status"]["phase"] for pod in self.pods().values()} == {"Succeeded"}
        (accuracy,) = _ACCURACY.findall(self.said())
        assert float(accuracy) >= 0.95

    def _complete(self) -> bool:
        """Return whether the Jobs are; their controller writes later than the operator."""
        jobs = self.user.items("jobs", "-l", own(self.name))
        return all(job["status"].get("succeeded") == 1 for job in jobs)

    def assert_nothing_runs(self, uids: set[str]) -> None:
        """Wait until no process of these pods is left on any node."""
        self.user.until(
            f"no process of {self.name} is left",
            lambda: not any(node_processes.of_pod(uid) for uid in uids),
            60,
        )

    def delete(self) -> None:
        """Delete it, and wait until nothing of it is left."""
        self.user.kubectl("delete", "mxj", self.name, f"--timeout={SECONDS}s")
        left = "jobs,pods,services", "-l", own(self.name)
        self.user.until(f"nothing of {self.name} is left", lambda: not self.user.items(*left))


class LongJob(Job):
    """The example, long enough to be disturbed, with its roles on all nodes.

    Its checkpoints are in a directory of this machine, which all nodes see, as the machines of a
    cluster see a file server.

    Args:
        user: Whose it is.
        name: Its name.
        checkpoints: The directory.
        policy: Its run policy.
    """

    def __init__(self, user: User, name: str, checkpoints: Path, **policy: Any) -> None:
        super().__init__(user, name)
        self._checkpoints = checkpoints
        checkpoints.mkdir()
        checkpoints.chmod(0o777)  # the image's user is not root
        _, job = yaml.safe_load_all((EXAMPLES / "mxjob-dist.yaml").read_text())
        job["metadata"]["name"] = name
        job["spec"] |= {"runPolicy": policy} if policy else {}
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"mxnet.mlkube.io/job-name": name}},
        }
        for replica in job["spec"]["replicaSpecs"]:
            replica["template"]["spec"]["topologySpreadConstraints"] = [spread]
        workers = job["spec"]["replicaSpecs"][2]["template"]["spec"]
        workers["containers"][0]["command"] += [f"--epochs={EPOCHS}", "--pause=1"]
        workers["volumes"] = [{"name": "checkpoints", "hostPath": {"path": str(checkpoints)}}]
        user.create(job)

    def until_saved(self, epoch: int) -> None:
        """Wait until it has trained this many epochs."""
        saved = self._checkpoints / f"digits-{epoch:04}.params"
        self.until(f"{self.name} has saved epoch {epoch}", saved.exists)

    def begun(self) -> int:
        """After which epoch the current attempt has begun."""
        (epoch,) = _BEGUN.findall(self.said())
        return int(epoch)


def uids(pods: dict[str, Document]) -> set[str]:
    """Return the UIDs of pods."""
    return {pod["metadata"]["uid"] for pod in pods.values()}


def nodes(pods: dict[str, Document]) -> set[str]:
    """Return the names of the nodes of pods."""
    return {pod["spec"].get("nodeName", "") for pod in pods.values()}


@contextlib.contextmanager
def gpus(cluster: RealCluster, count: int, name: str = GPU) -> Iterator[None]:
    """Let each node offer so many GPUs, of the oldest name or this one, as administrators can."""

    def offer(value: str | None) -> None:
        resources = {"capacity": {name: value}, "allocatable": {name: value}}
        patch = json.dumps({"status": resources})
        for node in cluster.nodes:
            cluster.kubectl(
                "patch", "node", node.name, "--subresource=status", "--type=merge", "-p", patch
            )

    try:
        offer(str(count))
        yield
    finally:
        offer(None)
