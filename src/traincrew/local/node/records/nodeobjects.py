"""The Node objects and their Leases."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traincrew.engine import mergepatch
from traincrew.engine.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import LEASES, NODES
from traincrew.engine.times import format_micro_time, format_time
from traincrew.local.node.machine.gpus import RESOURCES
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.client import Client
    from traincrew.local.node.machine.capabilities import Capabilities
    from traincrew.local.node.machine.specs import NodeSpec

__all__ = ["MODE_ANNOTATION", "NodeObjects", "machine_resources", "node_object", "node_resources"]

MODE_ANNOTATION = "traincrew.dev/sandbox"
_LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_HEARTBEAT_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_FULL_BYTES = 1024 * 1024
_MAX_PODS = "1000"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}


def _version() -> str:
    try:
        return importlib.metadata.version("traincrew")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def machine_resources() -> dict[str, str]:
    """Return processors and memory of this machine, as quantities."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = 8 * 2**30
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:
        cpus = os.cpu_count() or 1
    return {"cpu": str(cpus), "memory": f"{memory // 1024}Ki"}


def is_full(directory: Path) -> bool:
    """Return whether hardly anything can be written into a directory."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_blocks > 0 and found.f_bavail * found.f_frsize < _FULL_BYTES


def disk_condition(directory: Path, *, full: bool) -> dict[str, str]:
    """Return status, reason and message of a node's condition DiskPressure. Pure."""
    if not full:
        return {"status": "False", "reason": "KubeletHasNoDiskPressure", "message": ""}
    message = f"the disk with {directory} is full"
    return {"status": "True", "reason": "KubeletHasDiskPressure", "message": message}


def node_resources(spec: NodeSpec, machine: Mapping[str, str]) -> dict[str, str]:
    """Return the capacity of a virtual node.

    Raises:
        ValueError: The specification has an invalid quantity.
    """
    for quantity in (spec.cpu, spec.memory):
        if quantity is not None:
            parse(quantity)
    resources = {
        "cpu": spec.cpu or machine["cpu"],
        "memory": spec.memory or machine["memory"],
        "ephemeral-storage": "100Gi",
        "pods": _MAX_PODS,
    }
    return resources | (dict.fromkeys(RESOURCES, str(spec.gpus)) if spec.gpus else {})


def node_object(
    spec: NodeSpec,
    resources: Mapping[str, str],
    capabilities: Capabilities,
    *,
    address: str,
    version: str,
    now: str,
) -> dict[str, Any]:
    """Return the Node object of a virtual node. Pure."""
    system = platform.system().lower()
    machine = _MACHINES.get(platform.machine(), platform.machine())
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {
                "kubernetes.io/hostname": spec.name,
                "kubernetes.io/os": system,
                "kubernetes.io/arch": machine,
                **spec.labels,
            },
            "annotations": {MODE_ANNOTATION: capabilities.mode},
        },
        "status": {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": spec.name},
            ],
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": f"pods run as processes ({capabilities.mode} mode)"
                    if kind == "Ready"
                    else "",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, (status, reason) in _CONDITIONS.items()
            ],
            "nodeInfo": {
                "machineID": spec.name,
                "systemUUID": spec.name,
                "bootID": _boot_id(),
                "kernelVersion": platform.release(),
                "osImage": platform.platform(terse=True),
                "containerRuntimeVersion": f"traincrew://{_version()}",
                "kubeletVersion": version,
                "kubeProxyVersion": version,
                "operatingSystem": system,
                "architecture": machine,
            },
        },
    }


class NodeObjects:
    """Registers the virtual nodes and renews their Leases.

    Args:
        client: The API server.
        nodes: (specification, resources) of each.
        capabilities: Of this machine.
        address: Of all nodes.
        state: The node's directory; a full disk there is the condition DiskPressure.
    """

    def __init__(
        self,
        client: Client,
        nodes: list[tuple[NodeSpec, dict[str, str]]],
        capabilities: Capabilities,
        address: str,
        state: Path,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._capabilities = capabilities
        self._address = address
        self._state = state
        self._full = False
        self._log = get_logger(component="node")

    async def register(self) -> None:
        """Create the Node objects, or update existing ones.

        Raises:
            ApiError: The API server rejects the request.
        """
        version = str((await self._client.server_version()).get("gitVersion", ""))
        await asyncio.gather(*(self._register(*node, version) for node in self._nodes))

    async def _register(self, spec: NodeSpec, resources: dict[str, str], version: str) -> None:
        now = format_time(datetime.now(UTC))
        node = node_object(
            spec,
            resources,
            self._capabilities,
            address=self._address,
            version=version,
            now=now,
        )
        status = node.pop("status")
        try:
            existing = await self._client.create(NODES, node)
        except AlreadyExistsError:
            try:
                existing = await self._client.get(NODES, spec.name)
            except NotFoundError:  # deleted in between
                existing = await self._client.create(NODES, node)
            patch = {"metadata": {key: node["metadata"][key] for key in ("labels", "annotations")}}
            if mergepatch.difference(
                existing, {**existing, "metadata": existing["metadata"] | patch["metadata"]}
            ):
                await self._client.patch(NODES, spec.name, patch=patch)
        before = {
            each["type"]: each for each in (existing.get("status") or {}).get("conditions") or ()
        }
        for condition in status["conditions"]:
            old = before.get(condition["type"])
            if old is not None and old.get("status") == condition["status"]:
                condition["lastTransitionTime"] = old.get("lastTransitionTime") or now
        await self._client.patch(NODES, spec.name, patch={"status": status}, subresource="status")

    async def run(self) -> None:
        """Renew the Leases, and report a full disk, until cancelled."""
        while True:
            try:
                if (full := is_full(self._state)) != self._full:
                    for spec, _ in self._nodes:
                        await self._report_disk(spec.name, full=full)
                    self._full = full
                for spec, _ in self._nodes:
                    await self._renew(spec.name)
            except ApiError as error:
                self._log.warning("lease not renewed", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _report_disk(self, name: str, *, full: bool) -> None:
        """Set the condition DiskPressure of a node."""
        try:
            node = await self._client.get(NODES, name)
        except NotFoundError:
            return
        now = format_time(datetime.now(UTC))
        conditions = (node.get("status") or {}).get("conditions") or []
        for condition in conditions:
            if condition["type"] == "DiskPressure":
                condition.update(disk_condition(self._state, full=full))
                condition.update(lastHeartbeatTime=now, lastTransitionTime=now)
        patch = {"status": {"conditions": conditions}}
        await self._client.patch(NODES, name, patch=patch, subresource="status")

    async def _renew(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": format_micro_time(datetime.now(UTC)),
        }
        try:
            await self._client.patch(LEASES, name, _LEASE_NAMESPACE, patch={"spec": spec})
        except NotFoundError:
            try:
                owner = await self._client.get(NODES, name)
                await self._client.create(LEASES, _lease(name, spec, owner), _LEASE_NAMESPACE)
            except (AlreadyExistsError, ConflictError, NotFoundError):
                return


def _lease(name: str, spec: dict[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    reference = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": name,
        "uid": owner["metadata"]["uid"],
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": _LEASE_NAMESPACE,
            "ownerReferences": [reference],
        },
        "spec": spec,
    }
