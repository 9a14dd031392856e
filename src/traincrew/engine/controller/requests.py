"""Reconcile requests, and mappers from a changed object to the requests it triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from traincrew.engine.objects import HasMetadata, controller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T_contra = TypeVar("T_contra", bound=HasMetadata, contravariant=True)


class Request(NamedTuple):
    """The object to reconcile; ``namespace`` is empty for cluster-scoped ones."""

    namespace: str
    name: str


def _never(_old: object, _new: object) -> bool:
    return False


class Mapper(Generic[T_contra]):
    """Maps an object to reconcile requests, like controller-runtime's ``MapFunc``.

    Args:
        to_requests: Returns the requests for one state of an object.
        unchanged: Returns whether the old and the new state certainly map to the same requests, so
            that `to_requests` need not be called twice for an object that was modified.
    """

    __slots__ = ("to_requests", "unchanged")

    def __init__(
        self,
        to_requests: Callable[[T_contra], Iterable[Request]],
        unchanged: Callable[[T_contra, T_contra], bool] = _never,
    ) -> None:
        self.to_requests = to_requests
        self.unchanged = unchanged

    def __call__(self, obj: T_contra) -> Iterable[Request]:
        """Return the requests for this object."""
        return self.to_requests(obj)


def _itself(obj: HasMetadata) -> list[Request]:
    return [Request(obj.metadata.namespace, obj.metadata.name)]


def _same_key(_old: HasMetadata, _new: HasMetadata) -> bool:
    return True


def _same_owners(old: HasMetadata, new: HasMetadata) -> bool:
    return old.metadata.owner_references is new.metadata.owner_references


own_key: Mapper[HasMetadata] = Mapper(_itself, _same_key)
"""Maps an object to itself."""


def owner_key(kind: str, group: str | None = None) -> Mapper[HasMetadata]:
    """Return a mapper to the controller owner of an object, if the owner is of this kind.

    Args:
        kind: Such as ``Job``.
        group: API group the owner must have (empty for the core group); any by default.
    """

    def to_requests(obj: HasMetadata) -> list[Request]:
        owner = controller_of(obj)
        if owner is None or owner.kind != kind:
            return []
        if group is not None and owner.api_version.rpartition("/")[0] != group:
            return []
        return [Request(obj.metadata.namespace, owner.name)]

    return Mapper(to_requests, _same_owners)
