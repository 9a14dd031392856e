"""Manifests written for mxnet-operator, and what the commands of its README show, on any cluster.

More of them can be tested: TRAINCREW_SUITE_MXNET_MANIFESTS names directories.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]
T = TypeVar("T")

DIRECTORIES = [
    Path(__file__).parent / "training/manifests/mxnet",
    *map(Path, filter(None, os.environ.get("TRAINCREW_SUITE_MXNET_MANIFESTS", "").split(":"))),
]
MANIFESTS = [
    path
    for directory in DIRECTORIES
    for path in sorted(directory.glob("*.yaml"))
    if re.search(r"^kind: \"?MxJob", path.read_text(), re.MULTILINE)
]
GPU = "alpha.kubernetes.io/nvidia-gpu"
WITH_GPUS = [path for path in MANIFESTS if GPU in path.read_text()]
WITHOUT_GPUS = [path for path in MANIFESTS if path not in WITH_GPUS]


class User(Protocol):
    """Someone who can use kubectl."""

    def kubectl(self, *words: str) -> str:
        """Run a command that has to do well; what it printed."""

    def get(self, *words: str) -> Document:
        """An object, or a list of them."""

    def until(self, what: str, condition: Callable[[], T], seconds: float = ...) -> T:
        """Wait until a condition gives something true, and return it."""


def job_of(path: Path) -> tuple[str, str]:
    """Return the resource with its group, and the name of the job in a manifest."""
    job = yaml.safe_load(path.read_text())
    return f"mxjob.{job['apiVersion'].partition('/')[0]}", job["metadata"]["name"]


def own(name: str) -> str:
    """Return the selector of the children of a job."""
    return f"mxnet.mlkube.io/job-name={name}"


def create(user: User, path: Path) -> None:
    """Create the job of a manifest."""
    kind, name = job_of(path)
    assert user.kubectl("create", "-f", str(path)) == f"{kind}/{name} created\n"


def ends_well(user: User, path: Path) -> None:
    """Wait for the end of the job, look at it, and read its logs."""
    kind, name = job_of(path)
    user.until(f"{name} ends", lambda: "state" in user.get(kind, name).get("status", {}))

    shown = yaml.safe_load(user.kubectl("get", "-f", str(path), "-o", "yaml"))
    spec, status = shown["spec"], shown["status"]
    assert (status["phase"], status["state"]) == ("Done", "Succeeded"), status
    assert status["controlPaused"] is False
    assert re.fullmatch("[0-9a-z]{4}", spec["RuntimeId"])
    counts = {each["mxReplicaType"]: each["replicas"] for each in spec["replicaSpecs"]}
    assert [
        (each["Mx_replica_type"], each["state"], each["ReplicasStates"])
        for each in status["replicaStatuses"]
    ] == [(type_, "Succeeded", {"Succeeded": count}) for type_, count in counts.items()]

    names = [
        f"{name}-{type_.lower()}-{spec['RuntimeId']}-{index}"
        for type_, count in counts.items()
        for index in range(count)
    ]

    def completed() -> list[str]:
        rows = [line.split() for line in user.kubectl("get", "job", "-l", own(name)).splitlines()]
        return sorted(row[0] for row in rows[1:] if row[2] == "1/1")

    # Their controller writes later than the operator that the pods have ended.
    user.until("its Jobs are complete", lambda: completed() == sorted(names), 30)
    labels = f"mxnet.mlkube.io=,{own(name)}"
    services = user.kubectl("get", "service", "-l", labels, "-o", "name").split()
    assert services == ([f"service/{names[0]}"] if len(names) > 1 else [])
    for each in names:
        log = user.kubectl("logs", f"job/{each}")
        if "-worker-" in each:
            assert float(re.findall(r"^validation accuracy: (\S+)$", log, re.MULTILINE)[0]) > 0.8
        else:
            assert "serves until all workers have finished" in log


def waits_for_gpus(user: User, path: Path, nodes: int) -> None:
    """Wait until the job says that none of so many nodes has the GPUs it asks for."""
    kind, name = job_of(path)
    text = f"0/{nodes} nodes are available: {nodes} Insufficient {GPU}"
    user.until(
        "the job says why it waits",
        lambda: text in user.get(kind, name).get("status", {}).get("message", ""),
    )
    status = user.get(kind, name)["status"]
    assert status["phase"] == "Creating"
    assert "worker 0: Unschedulable: " in status["message"]
    workers = user.get("pods", "-l", f"{own(name)},job_type=WORKER")["items"]
    assert {pod["status"]["phase"] for pod in workers} == {"Pending"}


def delete(user: User, path: Path) -> None:
    """Delete the job of a manifest, with everything that was created for it."""
    kind, name = job_of(path)
    assert user.kubectl("delete", "-f", str(path)).startswith(f'{kind} "{name}" deleted')
    left = "jobs,pods,services", "-l", own(name)
    user.until(f"nothing of {name} is left", lambda: not user.get(*left).get("items"))
