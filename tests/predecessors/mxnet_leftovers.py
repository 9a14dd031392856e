"""An API server with what an older mxnet-operator left behind, and `traincrew orphans` for it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from traincrew.cli.main import cli
from traincrew.engine.client import Client
from traincrew.engine.config import from_kubeconfig
from traincrew.engine.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from click.testing import Result

NEW, OLD = "mxnet.mlkube.io", "mlkube.io"
TEMPLATE = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "mxnet", "image": "i"}]}}


def definition(group: str) -> dict[str, Any]:
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"mxjobs.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "MxJob", "plural": "mxjobs"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def metadata(
    name: str, role: str, runtime_id: str, index: int, namespace: str, **more: Any
) -> dict[str, Any]:
    labels = {
        "mxnet.mlkube.io": "",
        "job_type": role,
        "runtime_id": runtime_id,
        "task_index": str(index),
    }
    return {"name": name, "namespace": namespace, "labels": labels, **more}


class World:
    """An API server, what mxnet-operator made in it, and the command."""

    def __init__(self, server: ApiServer, client: Client, kubeconfig: Path) -> None:
        self.server = server
        self.client = client
        self.kubeconfig = kubeconfig

    async def define(self, group: str) -> None:
        await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(group))

    async def job(
        self, name: str, runtime_id: str | None, group: str = NEW, namespace: str = "team",
        key: str = "RuntimeId",
    ) -> None:  # fmt: skip
        spec: dict[str, Any] = {"jobMode": "dist", "replicaSpecs": []}
        if runtime_id is not None:
            spec[key] = runtime_id
        resource = Resource(group, "v1beta1", "mxjobs", "MxJob")
        manifest = {"apiVersion": f"{group}/v1beta1", "kind": "MxJob", "spec": spec}
        named = {**manifest, "metadata": {"name": name, "namespace": namespace}}
        await self.client.create(resource, named)

    async def left(
        self, job: str, runtime_id: str, *, namespace: str = "team", workers: int = 1, **more: Any
    ) -> None:
        """Create a scheduler with its Service, and workers."""
        for role, count in (("SCHEDULER", 1), ("WORKER", workers)):
            for index in range(count):
                name = f"{job}-{role.lower()}-{runtime_id}-{index}"
                named = metadata(name, role, runtime_id, index, namespace, **more)
                await self.client.create(JOBS, {"metadata": named, "spec": {"template": TEMPLATE}})
                if role == "SCHEDULER":
                    port = {"name": "ps-root-port", "port": 9091}
                    await self.client.create(
                        SERVICES, {"metadata": named, "spec": {"ports": [port]}}
                    )

    async def pod(self, name: str, runtime_id: str, **more: Any) -> None:
        named = metadata(name, "WORKER", runtime_id, 0, "team", **more)
        await self.client.create(PODS, {"metadata": named, "spec": TEMPLATE["spec"]})

    async def names(self) -> set[str]:
        """Names of all objects with the labels."""
        return {
            f"{resource.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
            for resource in (JOBS, SERVICES, PODS)
            for item in (await self.client.list(resource, label_selector="mxnet.mlkube.io"))[
                "items"
            ]
        }

    async def run(self, *arguments: str) -> Result:
        """Run the command, in a thread with an event loop of its own."""
        options = ["orphans", "--kubeconfig", str(self.kubeconfig), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, cli, options)


@asynccontextmanager
async def started(tmp_path: Path) -> AsyncIterator[World]:
    """A server with the namespaces `team` and `other`, without definitions."""
    storage = Storage(None)
    server = ApiServer(storage, secret="for-tests-only-0123456789")
    await server.start()
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(json.dumps(server.kubeconfig()))
    try:
        async with Client(from_kubeconfig(server.kubeconfig()), user_agent="test") as client:
            for name in ("team", "other"):
                manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await client.create(NAMESPACES, manifest)
            yield World(server, client, kubeconfig)
    finally:
        await server.stop()
        storage.close()
