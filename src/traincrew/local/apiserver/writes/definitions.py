"""The controller of CustomResourceDefinitions: names, served resources, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver import schema as schemas
from traincrew.local.apiserver.kinds.apiextensions.status import (
    DEFINITIONS,
    FINALIZER,
    has_condition,
    set_condition,
)
from traincrew.local.apiserver.registry import ResourceType, ScalePaths, version_order
from traincrew.local.apiserver.requests import DeleteOptions
from traincrew.local.apiserver.requests.conversions import Conversions, WebhookConversion
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.local.apiserver.reads.watch import WatchHub
    from traincrew.local.apiserver.registry import Registry
    from traincrew.local.apiserver.storage import Change, Entry, Storage
    from traincrew.local.apiserver.values.documents import Document

    from .deletion import Deleter

__all__ = ["Definitions"]


def _converter(api_version: str) -> Callable[[Document], Document]:
    def convert(document: Document) -> Document:
        return document | {"apiVersion": api_version}

    return convert


def _webhook_conversion(spec: Document) -> WebhookConversion | None:
    """Return what converts objects of a definition with the strategy Webhook."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook" or len(spec["versions"]) == 1:
        return None
    loaded = {
        f"{spec['group']}/{version['name']}": _schema(spec, version) for version in spec["versions"]
    }
    return WebhookConversion(conversion.get("webhook") or {}, loaded)


def _schema(spec: Document, version: Document) -> schemas.ObjectSchema:
    open_api = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    has_status = "status" in (version.get("subresources") or {})
    names = (spec["group"], version["name"], spec["names"]["kind"])
    return schemas.from_crd(open_api, *names, status_subresource=has_status)


def _resource(
    spec: Document,
    version: Document,
    storage_version: str,
    conversion: WebhookConversion | None = None,
) -> ResourceType:
    """Return the resource that one version of a definition serves."""
    group, names, name = spec["group"], spec["names"], version["name"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    paths = None
    if scale is not None:
        paths = ScalePaths(
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath"),
        )
    has_status = "status" in subresources
    kind = names["kind"]
    loaded = _schema(spec, version) if conversion is None else conversion.schemas[f"{group}/{name}"]
    converted = name != storage_version
    # Stored objects keep their version when the storage version changes.
    several = len(spec["versions"]) > 1
    resource = ResourceType(
        group,
        name,
        names["plural"],
        kind,
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or kind.lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        list_kind=names.get("listKind") or f"{kind}List",
        status=has_status,
        scale=paths,
        generation="content",
        unconditional_update=False,
        storage_version=storage_version,
        custom=version,
        load_schema=lambda: loaded,
        from_storage=_converter(f"{group}/{name}") if several else None,
        to_storage=_converter(f"{group}/{storage_version}") if converted else None,
        conversion=conversion,
    )
    return resource if conversion is None else resource.bound(Conversions())


def _changeable(definition: Document) -> Document:
    """Copy what changes here. The schemas, which are large, are shared with the stored object."""
    return definition | {
        name: clone(definition[name]) for name in ("metadata", "status") if name in definition
    }


class Definitions:
    """Keeps the registry in sync with the stored definitions, and cleans up after deleted ones.

    It reacts to committed changes, so a definition is served before the response to its creation
    is sent.

    Args:
        storage: holds definitions and their objects.
        registry: the served resources.
        hub: ends watches when a resource is no longer served.
        deleter: deletes the objects of deleted definitions.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        hub: WatchHub,
        deleter: Deleter,
        clock: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._hub = hub
        self._deleter = deleter
        self._clock = clock
        self._served: dict[tuple[str, str], Document] = {}
        self._terminating: dict[str, str] = {}  # identifier of the resource -> definition

    def start(self) -> None:
        """Serve the stored definitions, and react to changes from now on."""
        for entry in self._storage.scan(DEFINITIONS):
            self._reconcile(entry)
        self._storage.subscribe(self._on_changes)

    def stop(self) -> None:
        """Stop reacting to changes."""
        self._storage.unsubscribe(self._on_changes)

    def refuse_terminating(self, resource: ResourceType) -> None:
        """Reject new objects of a definition that is being deleted.

        Raises:
            StatusError: 405.
        """
        if resource.identifier in self._terminating:
            raise StatusError(
                405,
                "MethodNotAllowed",
                "create not allowed while custom resource definition is terminating",
                {"group": resource.group, "kind": resource.plural},
            )

    def _on_changes(self, changes: Sequence[Change]) -> None:
        affected: set[str] = set()
        for change in changes:
            if change.resource == DEFINITIONS:
                if change.new is None:
                    assert change.old is not None
                    self._stop_serving(change.old.obj)
                affected.add(change.key[1])
            elif change.new is None and change.resource in self._terminating:
                affected.add(self._terminating[change.resource])
        for name in sorted(affected):
            entry = self._storage.get(DEFINITIONS, ("", name))
            if entry is not None:
                self._reconcile(entry)
        if any(change.resource == DEFINITIONS and change.new is None for change in changes):
            for entry in self._storage.scan(DEFINITIONS):  # names may have become free
                if not has_condition(entry.obj, "NamesAccepted"):
                    self._reconcile(entry)

    def _reconcile(self, entry: Entry) -> None:
        """Reconcile a definition."""
        definition = _changeable(entry.obj)
        if definition["metadata"].get("deletionTimestamp") is not None:
            self._serve(definition)
            self._terminate(entry, definition)
            return
        self._accept_names(definition)
        if definition != entry.obj:
            self._storage.put(DEFINITIONS, entry.key, definition)
        if has_condition(definition, "Established"):
            self._serve(definition)

    # -- names

    def _other_accepted_names(self, definition: Document) -> Iterator[Document]:
        group = definition["spec"]["group"]
        for entry in self._storage.scan(DEFINITIONS):
            other = entry.obj
            if other["spec"]["group"] == group and entry.key[1] != definition["metadata"]["name"]:
                yield (other.get("status") or {}).get("acceptedNames") or {}

    def _conflict(self, definition: Document) -> tuple[str, str] | None:
        """Return the reason and message of a name conflict with another definition, if any."""
        names = definition["spec"]["names"]
        resources: set[str] = set()
        kinds: set[str] = set()
        for accepted in self._other_accepted_names(definition):
            resources |= {accepted.get("plural", ""), accepted.get("singular", "")}
            resources |= set(accepted.get("shortNames") or ())
            kinds |= {accepted.get("kind", ""), accepted.get("listKind", "")}
        resources.discard("")
        kinds.discard("")
        for word, value, taken in (
            ("Plural", names["plural"], resources),
            ("Singular", names.get("singular") or names["kind"].lower(), resources),
            ("Kind", names["kind"], kinds),
            ("ListKind", names.get("listKind") or f"{names['kind']}List", kinds),
        ):
            if value in taken:
                return f"{word}Conflict", f'"{value}" is already in use'
        for short in names.get("shortNames") or ():
            if short in resources:
                return "ShortNamesConflict", f'"{short}" is already in use'
        return None

    def _accept_names(self, definition: Document) -> None:
        now = timestamp(self._clock())
        status = definition.setdefault("status", {})
        conflict = self._conflict(definition)
        if conflict is None:
            names = dict(definition["spec"]["names"])
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
            status["acceptedNames"] = names
            set_condition(
                definition, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now
            )
            set_condition(
                definition,
                "Established",
                "True",
                ("InitialNamesAccepted", "the initial names have been accepted"),
                now,
            )
        else:
            set_condition(definition, "NamesAccepted", "False", conflict, now)
            if not has_condition(definition, "Established"):
                set_condition(
                    definition,
                    "Established",
                    "False",
                    ("NotAccepted", "not all names are accepted"),
                    now,
                )
        stored = status.setdefault("storedVersions", [])
        for version in definition["spec"]["versions"]:
            if version.get("storage") and version["name"] not in stored:
                stored.append(version["name"])

    # -- serving

    def _serve(self, definition: Document) -> None:
        spec = definition["spec"]
        key = (spec["group"], spec["names"]["plural"])
        if self._served.get(key) == spec:
            return
        before = {
            resource.version
            for resource in self._registry
            if (resource.group, resource.plural) == key
        }
        storage_version = next(
            version["name"] for version in spec["versions"] if version.get("storage")
        )
        versions = sorted(spec["versions"], key=lambda version: version_order(version["name"]))
        conversion = _webhook_conversion(spec)
        found = {
            version["name"]: _resource(spec, version, storage_version, conversion)
            for version in versions
        }
        resources = [found[version["name"]] for version in versions if version.get("served")]
        self._registry.replace_group_resource(*key, resources)
        reconverted = (self._served.get(key) or {}).get("conversion") != spec.get("conversion")
        self._served[key] = spec
        defaulted = self._default_stored(found[storage_version])
        gone = before - {resource.version for resource in resources}
        if defaulted or gone or reconverted:
            self._hub.end(f"{key[1]}.{key[0]}")

    def _default_stored(self, resource: ResourceType) -> bool:
        """Apply the defaults of a schema to the objects that were stored before it.

        Upstream applies them whenever an object is read. Here it happens once, when the schema
        changes (or the server starts): the objects keep their revision, and the file keeps them as
        they were written.

        Returns:
            Whether any object has changed.
        """
        changed = False
        for entry in self._storage.scan(resource.identifier):
            if not resource.schema.node.has_defaults:
                return False
            document = entry.copy()
            if resource.conversion and document["apiVersion"] != resource.api_version:
                continue  # of another version; defaulted when it has been converted
            resource.schema.default(document)
            if document != entry.obj:
                self._storage.amend(resource.identifier, entry, document)
                changed = True
        return changed

    def _stop_serving(self, definition: Document) -> None:
        spec = definition["spec"]
        key = (spec["group"], spec["names"]["plural"])
        if self._served.pop(key, None) is None:
            return
        identifier = f"{key[1]}.{key[0]}"
        self._terminating.pop(identifier, None)
        self._registry.replace_group_resource(*key, ())
        self._hub.end(identifier)

    # -- deletion

    def _terminate(self, entry: Entry, definition: Document) -> None:
        metadata = definition["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            return
        spec = definition["spec"]
        identifier = f"{spec['names']['plural']}.{spec['group']}"
        self._terminating[identifier] = metadata["name"]
        now = timestamp(self._clock())
        resource = next(
            (each for each in self._registry if each.identifier == identifier), None
        ) or _resource(spec, spec["versions"][0], spec["versions"][0]["name"])
        for instance in self._storage.scan(identifier):
            if instance.obj["metadata"].get("deletionTimestamp") is None:
                self._deleter.delete(resource, instance, DeleteOptions(propagation="Background"))
        if self._storage.scan(identifier):
            set_condition(
                definition,
                "Terminating",
                "True",
                ("InstanceDeletionInProgress", "CustomResource deletion is in progress"),
                now,
            )
            if definition != entry.obj:
                self._storage.put(DEFINITIONS, entry.key, definition)
            return
        set_condition(
            definition,
            "Terminating",
            "False",
            ("InstanceDeletionCompleted", "removed all instances"),
            now,
        )
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
        if metadata["finalizers"]:
            self._storage.put(DEFINITIONS, entry.key, definition)
        else:
            self._storage.delete(DEFINITIONS, entry.key, definition)
