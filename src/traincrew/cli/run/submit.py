"""Creates the objects of manifests, and finds the jobs among them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from traincrew.cli.cluster.embedded import FIELD_MANAGER
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import refusal, training_resources
from traincrew.engine.errors import AlreadyExistsError, ApiError, NotFoundError
from traincrew.engine.resources import NAMESPACES, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.engine.client import Client


class Submitter:
    """Creates objects as `kubectl create` does, with strict checking of fields.

    Args:
        client: The API server.
        namespace: The namespace of all objects, if the user has chosen one.
        created: Called with kind and name of each new object.
        own_cluster: Whether the cluster belongs to the run: namespaces are created as needed, and
            objects that exist are taken over.
        default_namespace: Namespace of objects that set none, if the user has not chosen one.
    """

    def __init__(
        self,
        client: Client,
        namespace: str | None,
        created: Callable[[str, str], None],
        *,
        own_cluster: bool = True,
        default_namespace: str = "default",
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._created = created
        self._own_cluster = own_cluster
        self._default_namespace = default_namespace
        self.made_new = False
        """Whether the last object that was submitted did not exist before."""
        self._known: dict[tuple[str, str], Resource] = {}

    async def submit(
        self, document: Document, *, again: bool = False, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create an object.

        Args:
            document: The object; its namespace is set.
            again: Update the object if it already exists.
            dry_run: Only ask whether the API server would take it.

        Raises:
            BadInput: The API server refuses it; the message names the fields.
        """
        resource = await self.resource(document)
        content = document.content
        if resource.namespaced:
            await self._place(document)
        path = resource.path(content["metadata"].get("namespace"))
        body = msgspec.json.encode(content)
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            params["dryRun"] = "All"
        self.made_new = True
        try:
            try:
                created = await self._client.request_object("POST", path, params=params, body=body)
            except AlreadyExistsError:
                if not again:
                    raise
                self.made_new = False
                created = await self._client.apply(
                    resource, content, field_manager=FIELD_MANAGER, force=self._own_cluster
                )
        except ApiError as error:
            text = refusal(document, error)
            if isinstance(error, AlreadyExistsError):
                text += f"; {self._way_out(resource, content['metadata'])}"
            raise BadInput(text) from error
        if not dry_run:
            self._created(resource.kind, created["metadata"]["name"])
        return created

    def _way_out(self, resource: Resource, metadata: dict[str, Any]) -> str:
        """Return what to do about an object that exists."""
        if self._own_cluster:
            return "each object needs a name of its own"
        place = ["-n", str(metadata["namespace"])] if resource.namespaced else []
        name = f"{resource.plural}.{resource.group}".rstrip(".") + f"/{metadata['name']}"
        delete = shlex.join(["kubectl", "delete", name, *place])
        return f"choose another name, or delete it first: {plain(delete)}"

    async def _place(self, document: Document) -> None:
        """Set the namespace of an object, and create it if it does not exist."""
        metadata = document.content["metadata"]
        own = metadata.get("namespace")
        if own and self._namespace and own != self._namespace:
            raise BadInput(
                f"{document.where}: metadata.namespace is {own!r}, but --namespace says "
                f"{self._namespace!r}"
            )
        name = metadata["namespace"] = own or self._namespace or self._default_namespace
        if name == "default" or not self._own_cluster:
            return
        try:
            await self._client.get(NAMESPACES, name)
        except NotFoundError:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await self._client.create(NAMESPACES, namespace)
            except ApiError as error:
                raise BadInput(f"{document.where}: metadata.namespace: {error.message}") from error
            self._created(NAMESPACES.kind, name)

    async def resource(self, document: Document) -> Resource:
        """Return the resource of a kind, by API discovery.

        Raises:
            BadInput: The server does not serve the kind.
        """
        key = (document.api_version, document.kind)
        if key not in self._known:
            group, _, version = document.api_version.rpartition("/")
            place = quote(document.api_version)
            try:
                answer = await self._client.request_object(
                    "GET", f"/apis/{place}" if group else f"/api/{place}"
                )
            except NotFoundError as error:
                raise BadInput(_not_served(document)) from error
            for entry in answer.get("resources") or []:
                if "/" not in entry["name"]:
                    self._known[document.api_version, entry["kind"]] = Resource(
                        group, version, entry["name"], entry["kind"], entry["namespaced"]
                    )
        if key not in self._known:
            raise BadInput(_not_served(document))
        return self._known[key]


def jobs_among(documents: Sequence[Document]) -> list[Document]:
    """Return the objects that a run waits for: training jobs, else Jobs, else Pods.

    Raises:
        BadInput: There is none.
    """
    trained = {(resource.api_version, resource.kind) for resource in training_resources()}
    for wanted in (trained, {("batch/v1", "Job")}, {("v1", "Pod")}):
        found = [d for d in documents if (d.api_version, d.kind) in wanted]
        if found:
            return found
    kinds = ", ".join(sorted({kind for _, kind in trained}))
    raise BadInput(
        f"{documents[0].where}: there is no job to run in it ({kinds}, Job or Pod); to create "
        "other objects use `traincrew up` and kubectl"
    )


def _not_served(document: Document) -> str:
    trained = {(resource.api_version, resource.kind) for resource in training_resources()}
    if (document.api_version, document.kind) in trained:
        fix = "it is not installed on this cluster: traincrew manifests | kubectl create -f -"
    else:
        fix = "a CustomResourceDefinition has to come before its objects"
    return (
        f'{document.at("kind")}: there is no kind "{document.kind}" in "{document.api_version}"; '
        f"{fix}"
    )
