"""What a kind says of itself: the resources that serve it, and its `Strategy`.

A strategy holds what only this kind does, as upstream's strategies do (``pkg/registry``): the
packages above ask it at each step of a request and name no kind. It is imported when it is first
asked: a server starts with the resources alone.
"""

from __future__ import annotations

import copy
import re
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from traincrew.local.apiserver import schema as schemas
from traincrew.local.apiserver.values.errors import qualified
from traincrew.local.apiserver.values.names import subdomain_fault
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traincrew.local.apiserver.requests.conversions import Conversions, WebhookConversion
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.usage import Usage

__all__ = [
    "ALL_VERBS",
    "Part",
    "ResourceType",
    "ScalePaths",
    "Strategy",
    "Subresource",
    "WriteContext",
]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_MAX_WARNINGS = 500  # more than a response has room for


def _name_and_creation(obj: Document, _now: float) -> list[Any]:
    """Return the cells of kinds without a printer of their own."""
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


class Allocator(Protocol):
    """Assigns the addresses of Services."""

    def assign(self, new: Document, old: Document | None) -> None:
        """Set the addresses and ports of a Service, in place; keep those of the stored object."""


class WriteContext(Protocol):
    """What `Strategy.prepare_create` and `Strategy.prepare_update` may use."""

    @property
    def storage(self) -> Storage:
        """The stored objects; a strategy reads them and never writes."""

    @property
    def addresses(self) -> Allocator:
        """Assigns the addresses of Services."""

    @property
    def clock(self) -> Callable[[], float]:
        """Returns seconds since the epoch."""

    @property
    def service_accounts(self) -> bool:
        """Whether pods get an account and its token (the admission plugin ServiceAccount)."""


class Part(NamedTuple):
    """What updates of one subresource write.

    Attributes:
        written: returns the object to store: the stored one with what the subresource changes. Gets
            the context, the new object, which it may change, and the stored one; it rejects by an
            exception what only this subresource refuses.
        accepted: returns the stored object with the changes that are accepted, so that the rules of
            other updates see none. Gets the object to store and the stored one; None if those
            rules hold.
    """

    written: Callable[[WriteContext, Document, Document], Document]
    accepted: Callable[[Document, Document], Document] | None = None


class Strategy(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one kind does differently from others; the defaults are those of custom resources.

    Attributes:
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
        admit: does what upstream's admission plugins do that change objects, in place, or rejects
            an object by an exception; before the webhooks, and again if they have changed it. Gets
            the stored object in an update. Applied twice it changes nothing.
        prepare_create: completes a new object, in place, or rejects it by an exception; after the
            webhooks.
        prepare_update: the same for an update; gets the context, the new and the stored object, and
            the fields that were sent empty (`significant_empty` of the resource).
        prepare_for_user: completes a new object with who creates it, in place; gets the object and
            the ``userInfo``.
        parts: what updates of subresources write, by name; the status has a rule of its own, which
            holds if it is not here.
        limit_faults: yields how an object violates one item of a LimitRange; gets the item, the
            object, and the stored object in an update.
        missing_requests: returns what an object does not request although quotas count it, as text;
            gets the object and the names in the quotas.
        decode_fault: returns what upstream's decoder refuses beyond the schema, or an empty string.
        decoded_always: whether it is asked even for objects that are valid by their schema.
        kept_empty: name of a field of which an empty list is no missing one, for the defaults.
        defaulted_on_read: paths of defaults that upstream sets when it reads an object, and stores
            with the next write.
        status_on_create: whether a new object brings its status.
        reset_by_status: metadata that updates of the status do not change
            (``GetResetFields`` of upstream's strategies).
        undeletable: names of objects that may not be deleted.
        grace_seconds: returns the grace period of an object; gets the one that the client wants.
            None for kinds that are deleted at once.
        spec_finalizers: whether ``spec.finalizers`` hold up a deletion, too.
        begin_deletion: marks an object whose deletion begins, in place; gets the time.
        warn: yields warnings about a valid object that is about to be stored; gets the stored one
            in an update of more than the status. Semantics and texts: upstream's
            ``WarningsOnCreate`` and ``WarningsOnUpdate``.
        measure: returns what a stored object uses, as an object of this kind, or None if that is
            not known; for kinds that are measured, not stored (`ResourceType.measures`).
    """

    selectable: FieldLabels = FieldLabels()
    columns: str = "Name Created_At:date"
    row: Callable[[Document, float], list[Any]] = _name_and_creation
    default: Callable[[Document], None] | None = None
    default_after_uid: Callable[[Document], None] | None = None
    name_fault: Callable[[str], str] | None = subdomain_fault
    validate: Callable[[list[Cause], Document, Document | None], None] | None = None
    admit: Callable[[WriteContext, Document, Document | None], None] | None = None
    prepare_create: Callable[[WriteContext, Document], None] | None = None
    prepare_update: Callable[[WriteContext, Document, Document, frozenset[str]], None] | None = None
    prepare_for_user: Callable[[Document, Document], None] | None = None
    parts: Mapping[str, Part] = MappingProxyType({})
    limit_faults: Callable[[Document, Document, Document | None], Iterator[str]] | None = None
    missing_requests: Callable[[Document, list[str]], str] | None = None
    decode_fault: Callable[[Document], str] | None = None
    decoded_always: bool = False
    kept_empty: str = ""
    defaulted_on_read: tuple[str, ...] = ()
    status_on_create: bool = False
    reset_by_status: tuple[str, ...] = ()
    undeletable: frozenset[str] = frozenset()
    grace_seconds: Callable[[Document, int | None], int] | None = None
    spec_finalizers: bool = False
    begin_deletion: Callable[[Document, str], None] | None = None
    warn: Callable[[Document, Document | None], Iterator[str]] | None = None
    measure: Callable[[Document, Usage], Document | None] | None = None

    def warnings(self, obj: Document, old: Document | None = None) -> list[str]:
        """Return the ``Warning`` headers about an object; for the arguments see `warn`."""
        return [] if self.warn is None else list(islice(self.warn(obj, old), _MAX_WARNINGS))


_NO_STRATEGY = Strategy()


class Subresource(msgspec.Struct, frozen=True):
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


class ScalePaths(msgspec.Struct, frozen=True):
    """Paths of the fields that ``Scale`` shows, such as ``.spec.replicas``."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = None


class ResourceType(msgspec.Struct, frozen=True, dict=True):
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
        create_on_update: PUT creates a missing object, that of its status too
            (``AllowCreateOnUpdate``; ``Service`` is the one kind that has both).
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
        conversion: the webhook that converts its objects, instead of the two functions above;
            those of a resource that is `bound` use what it has answered.
        package: holds the file with the kind's strategy; empty without one.
        strategy_file: name of that file, when it is not the kind's.
        measures: key of the stored objects whose use this resource shows; it stores nothing.
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
    conversion: WebhookConversion | None = None
    package: str = ""
    strategy_file: str = ""
    measures: str = ""

    def __post_init__(self) -> None:
        extra = list(self.subresources)
        if self.scale is not None:
            extra.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
        if self.status:
            extra.append(Subresource("status", self.kind))
        for name, value in (
            ("singular", self.singular or self.kind.lower()),
            ("list_kind", self.list_kind or f"{self.kind}List"),
            ("storage_version", self.storage_version or self.version),
            ("identifier", self.identifier or qualified(self.plural, self.group)),
            ("subresources", tuple(sorted(extra, key=lambda subresource: subresource.name))),
        ):
            msgspec.structs.force_setattr(self, name, value)

    def bound(self, conversions: Conversions) -> ResourceType:
        """Return the resource for one request, with what its conversion webhook has answered."""
        stored = f"{self.group}/{self.storage_version}"
        bound = copy.copy(self)
        for name, api_version in (("from_storage", self.api_version), ("to_storage", stored)):
            convert = partial(conversions.converted, api_version=api_version)
            msgspec.structs.force_setattr(bound, name, convert)
        return bound

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of objects, such as ``batch/v1`` or ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def subresource_index(self) -> dict[str, Subresource]:
        """The subresources by name."""
        return {each.name: each for each in self.subresources}

    @cached_property
    def strategy(self) -> Strategy:
        """What the kind does differently from others."""
        if not self.package:
            return _NO_STRATEGY
        file = self.strategy_file or re.sub("(?<=[a-z])(?=[A-Z])", "_", self.kind).lower()
        strategy: Strategy = import_module(f"{self.package}.{file}").STRATEGY
        return strategy

    @cached_property
    def schema(self) -> schemas.ObjectSchema:
        """The schema of the kind."""
        if self.load_schema is not None:
            return self.load_schema()
        return schemas.load_builtin(
            self.group, self.version, self.kind, reset_by_status=self.strategy.reset_by_status
        )
