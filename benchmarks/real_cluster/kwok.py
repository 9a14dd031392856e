"""Fake nodes: kwok simulates their kubelets, so that thousands of pods "run" on one machine.

Nodes and pods are real objects of a real API server, scheduled by the real scheduler. Only the
kubelet is simulated: a scheduled pod is reported Running and ready with one status write, a
terminating pod is deleted.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import yaml
from hack.cluster.processes import NotReady

from traincrew.engine.resources import Resource

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.engine.client import Client

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
COUNT = 10
_READY_SECONDS = 60.0
_CAPACITY = {"cpu": "1000", "memory": "4Ti", "pods": "2000"}

_NODE_STATUS = """\
{{ $now := Now }}
phase: Running
conditions:
- {type: Ready, status: "True", reason: Kwok, lastHeartbeatTime: {{ $now | Quote }}}
addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
"""

# `index` of a missing field would fail, so optional fields are read with `with`.
_POD_STATUS = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
{{ range (list "Initialized" "ContainersReady" "Ready") }}
- {type: {{ . | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, \
finishedAt: {{ $now | Quote }}}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""


def _stage(name: str, kind: str, conditions: list[dict[str, Any]], **then: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "next": then,
        },
    }


def _configuration() -> list[dict[str, Any]]:
    deleted = ".metadata.deletionTimestamp"
    return [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": {
                "manageAllNodes": True,
                "nodeIP": "192.0.2.1",  # of the range for documentation (RFC 5737)
                "nodeLeaseDurationSeconds": 40,
                "nodeLeaseParallelism": 4,
                "nodePlayStageParallelism": 4,
                "podPlayStageParallelism": 16,
                "podsOnNodeSyncParallelism": 4,
            },
        },
        _stage(
            "node-ready",
            "Node",
            [{"key": ".status.phase", "operator": "NotIn", "values": ["Running"]}],
            statusTemplate=_NODE_STATUS,
        ),
        _stage(
            "pod-running",
            "Pod",
            [
                {"key": deleted, "operator": "DoesNotExist"},
                {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
            ],
            statusTemplate=_POD_STATUS,
        ),
        _stage("pod-gone", "Pod", [{"key": deleted, "operator": "Exists"}], delete=True),
    ]


class FakeNodes:
    """Nodes whose kubelets are simulated by one kwok process.

    Args:
        binary: kwok.
        kubeconfig: Kubeconfig of an administrator.
        directory: Directory for its configuration and log.
    """

    def __init__(self, binary: Path, kubeconfig: Path, directory: Path) -> None:
        configuration = directory / "kwok.yaml"
        configuration.write_text(yaml.safe_dump_all(_configuration()))
        self._log = directory / "kwok.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(binary),
                    "--v=WARN",
                    f"--kubeconfig={kubeconfig}",
                    f"--config={configuration}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    async def create(self, client: Client, count: int = COUNT) -> None:
        """Create the nodes and wait until they are schedulable.

        Raises:
            NotReady: kwok has ended, or they were not ready within a minute.
        """
        for number in range(count):
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"fake-{number}"},
                "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY},
            }
            await client.create(NODES, node)
        deadline = time.monotonic() + _READY_SECONDS
        while not all(map(_usable, (await client.list(NODES))["items"])):
            if self.process.poll() is not None or time.monotonic() > deadline:
                end = self._log.read_text()[-2000:]
                raise NotReady(f"fake nodes are not ready; kwok says:\n{end}")
            await asyncio.sleep(0.1)


def _usable(node: dict[str, Any]) -> bool:
    """Return whether the node is ready and no longer has the taint of new nodes."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not node["spec"].get("taints")
