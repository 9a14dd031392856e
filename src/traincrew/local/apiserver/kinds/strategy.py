"""What a kind says of itself: the resources that serve it, and its `Strategy`.

A strategy holds what only this kind does, as upstream's strategies do (``pkg/registry``): the
packages above ask it at each step of a request and name no kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from traincrew.local.apiserver import schema as schemas
from traincrew.local.apiserver.values.errors import qualified
from traincrew.local.apiserver.values.names import subdomain_fault
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["ALL_VERBS", "PROXY_VERBS", "ResourceType", "ScalePaths", "Strategy", "Subresource"]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
PROXY_VERBS = ("create", "delete", "get", "patch", "update")


_MAX_WARNINGS = 500  # more than a response has room for


def _name_and_creation(obj: Document, _now: float) -> list[Any]:
    """Return the cells of kinds without a printer of their own."""
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


@dataclass(frozen=True, eq=False, kw_only=True)
class Strategy:
    """What one kind does differently from others; the defaults are those of custom resources.

    Attributes:
        resources: how the kind is served: one row for each version.
        selectable: the fields that a ``fieldSelector`` may name.
        columns: names of the columns in kubectl's order; ``*`` marks those of ``-o wide``,
            ``:integer`` and the like give the type, ``_`` is a space.
        row: returns the cells of an object, one per column; gets the time in seconds since the
            epoch, for ages.
        default: fills in the static defaults, in place, as upstream does when it decodes an object
            (``pkg/apis/*/v1/defaults.go``). They depend on nothing but the object, whose values
            may have any type; applied twice they change nothing.
        default_after_uid: fills in what depends on the name and UID of a new object, in place.
        name_fault: returns what is wrong with a name, or an empty string; None for kinds that only
            occur in requests and have no name.
        validate: appends what is wrong with an object, with upstream's messages, which people know
            and search for. Gets the list, the object, which is defaulted and has the right types,
            and the stored object in an update.
        warn: yields warnings about a valid object that is about to be stored; gets the stored one
            in an update of more than the status. Semantics and texts: upstream's
            ``WarningsOnCreate`` and ``WarningsOnUpdate``.
    """

    resources: tuple[ResourceType, ...] = ()
    selectable: FieldLabels = field(default_factory=FieldLabels)
    columns: str = "Name Created_At:date"
    row: Callable[[Document, float], list[Any]] = _name_and_creation
    default: Callable[[Document], None] | None = None
    default_after_uid: Callable[[Document], None] | None = None
    name_fault: Callable[[str], str] | None = subdomain_fault
    validate: Callable[[list[Cause], Document, Document | None], None] | None = None
    warn: Callable[[Document, Document | None], Iterator[str]] | None = None

    def __post_init__(self) -> None:
        for resource in self.resources:
            object.__setattr__(resource, "strategy", self)

    def warnings(self, obj: Document, old: Document | None = None) -> list[str]:
        """Return the ``Warning`` headers about an object; for the arguments see `warn`."""
        return [] if self.warn is None else list(islice(self.warn(obj, old), _MAX_WARNINGS))


_NO_STRATEGY = Strategy()


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
        strategy: what the kind does differently from others.
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
    strategy: Strategy = field(init=False, compare=False, repr=False, default=_NO_STRATEGY)

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
