"""ElasticJobs that train on the real cluster, as their user sees them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.cluster.processes import NotReady
from suites import elastic_training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .install_support import User

TORCH = "docker.io/traincrew/torch:0.1.0"
ETCD = "docker.io/traincrew/etcd:0.1.0"
SCRIPTS = "scripts"
"""The ConfigMap with the programs of the jobs."""

Document = dict[str, Any]


class Job(elastic_training.Job["User"]):
    """One in containers, its workers on as many nodes as there are.

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
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"job-name": name}},
        }
        super().__init__(
            user,
            name,
            directory,
            image=TORCH,
            script=f"/scripts/{elastic_training.SCRIPT.name}",
            replicas=replicas,
            container={"volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}]},
            pod={
                "topologySpreadConstraints": [spread],
                "volumes": [{"name": "scripts", "configMap": {"name": SCRIPTS}}],
            },
            spec=spec,
        )

    def row(self) -> dict[str, str]:
        """Return the columns of ``kubectl get``."""
        head, line = self.user.kubectl("get", "elasticjob", self.name).splitlines()
        return dict(zip(head.split(), line.split(), strict=True))

    def events(self, reason: str) -> list[str]:
        """Return the messages of the job's events with a reason, in order."""
        found = self.user.items(
            "events",
            f"--field-selector=involvedObject.name={self.name},reason={reason}",
            "--sort-by=.metadata.creationTimestamp",
        )
        return [event["message"] for event in found]

    def node_of(self, index: int) -> str:
        """Return the node of the pod with this index."""
        return str(self.user.get("pod", self.pod(index))["spec"].get("nodeName", ""))

    def logs(self) -> list[str]:
        """Return the logs of the pods that can be reached."""
        found = []
        for index in range(3):
            # Missing, not started yet, or its node is lost.
            with contextlib.suppress(NotReady):
                found.append(self.user.kubectl("logs", self.pod(index), "--request-timeout=5s"))
        return found

    def kill_launcher(self, index: int) -> None:
        """Kill the first process of a pod's container, as the OOM killer would.

        It cannot be done from within: the first process of a pid namespace is protected.
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
