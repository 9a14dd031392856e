"""The served resources: built-in ones and those that CustomResourceDefinitions add."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from traincrew.local.apiserver import schema as schemas
from traincrew.local.apiserver.values.errors import qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["ALL_VERBS", "Registry", "ResourceType", "ScalePaths", "Subresource", "version_order"]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource as discovery lists it.

    Attributes:
        name: last part of the path, such as ``status``.
        kind: kind that it reads and writes.
        verbs: supported verbs.
        group: group of the kind, when it differs from the resource's.
        version: version of the kind, likewise.
    """

    name: str
    kind: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths of the fields that ``Scale`` shows, such as ``.spec.replicas``."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = None


@dataclass(frozen=True)
class ResourceType:
    """A resource in one of its served versions.

    Attributes:
        group: API group, empty for the core group.
        version: such as ``v1``.
        plural: name in paths.
        kind: name in objects.
        namespaced: whether objects live in a namespace.
        singular: singular name.
        short_names: abbreviations that kubectl accepts.
        categories: such as ``all``.
        verbs: supported verbs.
        status: whether ``status`` is written through its own subresource only.
        generation: which changes raise ``metadata.generation``: those of the spec (or also of
            annotations), those of anything except metadata and status, or none.
        scale: paths of the replica fields, if the resource can be scaled.
        subresources: subresources other than status and scale.
        create_on_update: PUT creates a missing object.
        unconditional_update: PUT without a resourceVersion overwrites.
        significant_empty: fields where sending an empty list or map counts as a change, although
            it is not stored.
        orphan_by_default: DELETE without a propagation policy orphans the dependents.
        returns_deleted: DELETE returns the object instead of a Status.
        storage_version: version in which objects are stored, when it is another one.
        identifier: key of the stored objects, when another resource shares them.
        custom: the version's entry in the CustomResourceDefinition, for custom resources.
        load_schema: loads the schema, once, when it is first needed.
        from_storage: converts a stored object to this version.
        to_storage: converts an object of this version to the stored one.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    status: bool = False
    generation: Literal["spec", "spec and annotations", "content"] | None = None
    scale: ScalePaths | None = None
    subresources: tuple[Subresource, ...] = ()
    create_on_update: bool = False
    unconditional_update: bool = True
    significant_empty: tuple[str, ...] = ()
    orphan_by_default: bool = False
    returns_deleted: bool = False
    storage_version: str = ""
    identifier: str = ""
    custom: Document | None = None
    list_kind: str = ""
    load_schema: Callable[[], schemas.ObjectSchema] | None = None
    from_storage: Callable[[Document], Document] | None = None
    to_storage: Callable[[Document], Document] | None = None
    subresource_index: dict[str, Subresource] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "singular", self.singular or self.kind.lower())
        set_(self, "list_kind", self.list_kind or f"{self.kind}List")
        set_(self, "storage_version", self.storage_version or self.version)
        set_(self, "identifier", self.identifier or qualified(self.plural, self.group))
        extra = list(self.subresources)
        if self.scale is not None:
            extra.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
        if self.status:
            extra.append(Subresource("status", self.kind))
        extra.sort(key=lambda subresource: subresource.name)
        set_(self, "subresources", tuple(extra))
        set_(self, "subresource_index", {each.name: each for each in extra})

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of objects, such as ``batch/v1`` or ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def schema(self) -> schemas.ObjectSchema:
        """The schema of the kind."""
        if self.load_schema is not None:
            return self.load_schema()
        return schemas.load_builtin(self.group, self.version, self.kind)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that orders versions by preference (v2, v1, v1beta2, v1alpha1)."""
    digits = ""
    rest = version.removeprefix("v")
    while rest and rest[0].isdigit():
        digits += rest[0]
        rest = rest[1:]
    if not version.startswith("v") or not digits:
        return (3, 0, 0, version)
    if not rest:
        return (0, -int(digits), 0, "")
    for rank, word in ((1, "beta"), (2, "alpha")):
        number = rest.removeprefix(word)
        if number != rest and number.isdigit():
            return (rank, -int(digits), -int(number), "")
    return (3, 0, 0, version)


class Registry:
    """The served resources; changes with the CustomResourceDefinitions.

    Attributes:
        generation: rises with every change; caches of derived documents are keyed by it.
    """

    def __init__(self, builtins: Iterable[ResourceType]) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self._builtin_groups: list[str] = []
        self.generation = 0
        for resource in builtins:
            self._types[resource.group, resource.version, resource.plural] = resource
            if resource.group not in self._builtin_groups:
                self._builtin_groups.append(resource.group)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the resource that a path names; None if it is not served."""
        return self._types.get((group, version, plural))

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._types.values())

    def replace_group_resource(
        self, group: str, plural: str, versions: Iterable[ResourceType]
    ) -> None:
        """Serve exactly these versions of a resource; without any, stop serving it."""
        for key in [key for key in self._types if key[0] == group and key[2] == plural]:
            del self._types[key]
        for resource in versions:
            self._types[group, resource.version, plural] = resource
        self.generation += 1

    def groups(self) -> dict[str, dict[str, list[ResourceType]]]:
        """Return all resources by group and version, both in order of preference."""
        groups: dict[str, dict[str, list[ResourceType]]] = {
            group: {} for group in self._builtin_groups
        }
        for resource in self._types.values():
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        order = [name for name in groups if name in self._builtin_groups]
        order += sorted(name for name in groups if name not in self._builtin_groups)
        return {
            name: dict(sorted(groups[name].items(), key=lambda item: version_order(item[0])))
            for name in order
            if groups[name]
        }

    def by_kind(self, group: str, kind: str) -> list[ResourceType]:
        """Return the versions of a kind, the preferred one first."""
        found = [
            resource
            for resource in self._types.values()
            if resource.group == group and resource.kind == kind
        ]
        return sorted(found, key=lambda resource: version_order(resource.version))
