"""A cluster of `traincrew up`: what its process uses, and its objects, which are removed."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from suites.differential.kinds import KINDS
from suites.differential.requests import Resource as Served

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.errors import ApiError

from . import definitions
from .requests import NAMESPACE, own_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

NANOSECONDS = 1_000_000_000
PODS = 20
"""Number of pods that the namespace may have; none of them runs."""


class Process:
    """The process of a cluster.

    Args:
        pid: its number.
    """

    def __init__(self, pid: int) -> None:
        self._directory = Path(f"/proc/{pid}")
        self._usage = self._directory / "task" / str(pid) / "schedstat"

    def seconds(self) -> float:
        """Return the processor time of the thread of its event loop."""
        return int(self._usage.read_text().split()[0]) / NANOSECONDS

    def memory(self, name: str = "VmRSS") -> int:
        """Return its resident memory in bytes, or with ``VmHWM`` the most it had."""
        found = re.search(rf"{name}:\s+(\d+) kB", (self._directory / "status").read_text())
        assert found is not None, "the server has ended"
        return int(found[1]) * 1024


class Cleaner:
    """Keeps the cluster as it was: no pod runs, and objects do not accumulate."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = Client(load_config(str(kubeconfig)), user_agent="cleaner")

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        try:
            await self.clean()
        except BaseException:
            await self._client.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def clean(self) -> None:
        """Remove what requests have created, and restore what they have changed."""
        await self._tidy_namespace()
        for served in _resources():
            path = served.path(NAMESPACE)
            with contextlib.suppress(ApiError):
                found = await self._request("GET", path)
                for each in found["items"]:
                    if each["metadata"].get("finalizers"):
                        patch = {"metadata": {"finalizers": None}}
                        place = f"{path}/{each['metadata']['name']}"
                        with contextlib.suppress(ApiError):
                            await self._request("PATCH", place, patch)
                if found["items"] and served.kind != "ServiceAccount":
                    await self._client.request(
                        "DELETE", path, params={"propagationPolicy": "Background"}
                    )
        for number in range(1, definitions.KINDS + 1):
            name = f"{definitions.resource(number).plural}.{definitions.GROUP}"
            with contextlib.suppress(ApiError):
                await self._client.request(
                    "DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
                )

    async def _tidy_namespace(self) -> None:
        await self._apply(
            f"/api/v1/namespaces/{NAMESPACE}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        await self._apply(
            f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/bound",
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "bound"},
                "spec": {"hard": {"pods": str(PODS), "count/jobs.batch": "100"}},
            },
        )
        for node in (await self._request("GET", "/api/v1/nodes"))["items"]:
            place = f"/api/v1/nodes/{node['metadata']['name']}"
            await self._request("PATCH", place, {"spec": {"unschedulable": True}})

    async def _apply(self, path: str, document: Any) -> None:
        await self._request("PATCH", f"{path}?fieldManager=cleaner&force=true", document, "apply")

    async def _request(self, method: str, path: str, body: Any = None, kind: str = "merge") -> Any:
        types = {
            "merge": "application/merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }
        answer = await self._client.request(method, path, body=body, content_type=types[kind])
        return json.loads(answer)


def _resources() -> Iterator[Served]:
    for resource, _ in own_kinds():
        yield resource
    for kind in KINDS.values():
        if kind.resource.kind != "Pod":
            yield kind.resource
    yield KINDS["Pod"].resource
    yield Served("", "v1", "events", "Event")
    for number in range(1, definitions.KINDS + 1):
        yield definitions.resource(number)
