"""A small synchronous client: plain dictionaries in, plain dictionaries out.

For everything it lacks, such as watches, use any Kubernetes client with the cluster's kubeconfig.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import PODS, Resource

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from traincrew.engine.client import Client
    from traincrew.local.background import BackgroundLoop

FIELD_MANAGER = "traincrew-python"
USER_AGENT = "traincrew-python"
WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05

Object = dict[str, Any]


class ClusterClient:
    """The API of a cluster.

    A kind is named as in a manifest or for kubectl: ``Pod``, ``pods``, ``po``, ``chainerjobs``,
    ``deployments.apps``, or with its version as ``apps/v1/Deployment``. Objects are in the
    namespace ``default`` unless one is given. Every method raises `ApiError` if the server refuses
    (`NotFoundError` if there is no such object), and `ValueError` for a kind that is not served.
    """

    def __init__(self, client: Client, loop: BackgroundLoop) -> None:
        self._client = client
        self._loop = loop
        self._names: dict[str, Resource] = {}

    def create(self, document: Object, namespace: str | None = None) -> Object:
        """Create an object; unknown fields are refused."""
        resource = self._of(document)
        path = resource.path(_namespace(resource, namespace, document))
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        request = self._client.request_object("POST", path, params=params, body=document)
        return self._loop.call(request)

    def apply(self, document: Object, namespace: str | None = None) -> Object:
        """Create or update an object by server-side apply; conflicts are overridden."""
        resource = self._of(document)
        metadata = {**document.get("metadata", {})}
        if resource.namespaced:
            metadata["namespace"] = _namespace(resource, namespace, document)
        return self._loop.call(
            self._client.apply(
                resource, {**document, "metadata": metadata}, field_manager=FIELD_MANAGER
            )
        )

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """Return an object."""
        return self._loop.call(self._client.get(self.resource(kind), name, namespace))

    def list(
        self,
        kind: str,
        namespace: str | None = "default",
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> builtins.list[Object]:
        """Return the objects of a namespace; of all namespaces if it is None."""
        resource = self.resource(kind)
        found = self._loop.call(
            self._client.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
        )
        # A server's lists leave both out; as in kubectl, what was listed can be applied.
        names = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [names | item for item in found["items"]]

    def patch(self, kind: str, name: str, patch: Object, namespace: str = "default") -> Object:
        """Merge a patch into an object (RFC 7396)."""
        return self._loop.call(
            self._client.patch(
                self.resource(kind), name, namespace, patch=patch, field_manager=FIELD_MANAGER
            )
        )

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object, and in the background what it owns."""
        self._loop.call(self._client.delete(self.resource(kind), name, namespace))

    def logs(
        self,
        pod: str,
        namespace: str = "default",
        *,
        container: str | None = None,
        previous: bool = False,
    ) -> str:
        """Return what a container has written until now."""

        async def read() -> bytes:
            chunks = self._client.logs(pod, namespace, container=container, previous=previous)
            return b"".join([chunk async for chunk in chunks])

        return self._loop.call(read()).decode(errors="replace")

    def wait(
        self,
        kind: str,
        name: str,
        condition: Callable[[Object], bool],
        namespace: str = "default",
        *,
        timeout: float = WAIT_SECONDS,
    ) -> Object:
        """Wait until an object exists and meets a condition; return it.

        Args:
            kind: Its kind.
            name: Its name.
            condition: Called with the object; it is read again every 50 ms.
            namespace: Its namespace.
            timeout: Seconds to wait.

        Raises:
            TimeoutError: It did not; the message has the last state.
        """
        deadline = time.monotonic() + timeout
        last: Object | None = None
        while True:
            try:
                last = self.get(kind, name, namespace)
            except NotFoundError:
                last = None
            if last is not None and condition(last):
                return last
            if time.monotonic() > deadline:
                state = "it does not exist" if last is None else f"status {last.get('status')}"
                raise TimeoutError(f"{kind} {name}: not after {timeout:g} s: {state}")
            time.sleep(_POLL_SECONDS)

    def wait_for_pod(
        self,
        name: str,
        phase: str = "Succeeded",
        namespace: str = "default",
        *,
        timeout: float = WAIT_SECONDS,
    ) -> Object:
        """Wait until a pod has a phase; return it.

        Raises:
            TimeoutError: It did not.
        """

        def has_phase(pod: Object) -> bool:
            return bool(pod.get("status", {}).get("phase") == phase)

        return self.wait(PODS.kind, name, has_phase, namespace, timeout=timeout)

    # -- kinds ----------------------------------------------------------------------------------

    def resource(self, kind: str) -> Resource:
        """Return the resource of a kind, by API discovery.

        Raises:
            ValueError: The server does not serve such a kind.
        """
        if self._name_of(kind) is None:
            self._loop.call(self._discover())
        if (name := self._name_of(kind)) is None:
            raise ValueError(
                f"there is no kind {kind!r} on this cluster; a CustomResourceDefinition has to be"
                " created and established before its objects"
            )
        return self._names[name]

    def _name_of(self, kind: str) -> str | None:
        """Return the key of `_names` for a kind; two kinds may differ in case only."""
        return next((name for name in (kind, kind.lower()) if name in self._names), None)

    def _of(self, document: Object) -> Resource:
        for field in ("apiVersion", "kind"):
            if not document.get(field):
                raise ValueError(f"{field} is missing in the object")
        return self.resource(f"{document['apiVersion']}/{document['kind']}")

    async def _discover(self) -> None:
        """Read the names of all kinds; where several groups have one, the first group has it."""
        groups = (await self._client.request_object("GET", "/apis"))["groups"]
        versions = ["/api/v1"] + [
            f"/apis/{version['groupVersion']}"
            for group in groups
            for version in _preferred_first(group)
        ]
        names: dict[str, Resource] = {}
        for path in versions:
            served = await self._client.request_object("GET", path)
            group, _, version = served["groupVersion"].rpartition("/")
            for entry in served["resources"]:
                if "/" in entry["name"]:
                    continue
                resource = Resource(
                    group, version, entry["name"], entry["kind"], entry["namespaced"]
                )
                short = [entry["kind"], entry["name"], entry.get("singularName") or entry["kind"]]
                short += entry.get("shortNames") or []
                full = [f"{resource.api_version}/{each}" for each in (entry["kind"], entry["name"])]
                for name in (*short, f"{entry['name']}.{group}", *full):
                    names.setdefault(name.lower(), resource)
                    names.setdefault(name, resource)
        self._names = names


def _preferred_first(group: Object) -> list[Object]:
    preferred = group["preferredVersion"]
    return [preferred, *(each for each in group["versions"] if each != preferred)]


def _namespace(resource: Resource, namespace: str | None, document: Object) -> str | None:
    if not resource.namespaced:
        return None
    return namespace or document.get("metadata", {}).get("namespace") or "default"
