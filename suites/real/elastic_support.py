"""ElasticJobs that train on the real cluster, as their user sees them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.cluster.processes import NotReady
from suites import elastic_training

from . import node_processes

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
        """Kill the first process of a pod's container, as the OOM killer would."""
        node_processes.kill(self.uid(index), "torch.distributed.run")


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
