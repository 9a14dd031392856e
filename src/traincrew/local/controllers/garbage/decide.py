"""Decide what to do with an object, given the state of its owners and dependents. Pure.

Rules: `pkg/controller/garbagecollector` (`attemptToDeleteItem`, `processDeletingDependentsItem`).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from traincrew.local.controllers.garbage.graph import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.local.controllers.garbage.graph import Item


class Owner(Enum):
    """State of an owner."""

    SOLID = auto()
    """It exists and is not waiting for its dependents."""
    ABSENT = auto()
    """It does not exist: the server has confirmed this for exactly this object."""
    UNKNOWN = auto()
    """Whether it exists is unknown."""
    WAITING = auto()
    """It is deleted as soon as its dependents are gone (foreground deletion)."""


class Keep(Struct, frozen=True):
    """Nothing to do."""


class DropOwners(Struct, frozen=True):
    """Remove the references to these owners; another owner still needs the object."""

    uids: frozenset[str]


class Delete(Struct, frozen=True):
    """Delete the object.

    Attributes:
        propagation: Deletion policy for its own dependents.
        unblock: Break a cycle first, so that it does not block its owner any more.
    """

    propagation: Literal["Background", "Foreground", "Orphan"]
    unblock: bool = False


class Orphan(Struct, frozen=True):
    """Remove the object from the owners of its dependents, then its finalizer."""


class Finish(Struct, frozen=True):
    """No dependent blocks the foreground deletion any more: remove the finalizer."""


class Await(Struct, frozen=True):
    """Foreground deletion: these dependents have to be deleted first."""

    uids: frozenset[str]


Verdict = Keep | DropOwners | Delete | Orphan | Finish | Await


def decide(item: Item, owners: Mapping[str, Owner], dependents: Sequence[Item]) -> Verdict:
    """Decide what to do with one object.

    Args:
        item: The object.
        owners: State of each of its owners, by UID.
        dependents: Objects that name it as owner.
    """
    if item.orphans_dependents:
        return Orphan()
    if item.awaits_dependents:
        blocking = {other.uid for other in dependents if other.blocks(item.uid)}
        if not blocking:
            return Finish()
        return Await(frozenset(other.uid for other in dependents if not other.is_deleting))
    if item.is_deleting or not owners:
        return Keep()
    by_state: dict[Owner, set[str]] = {state: set() for state in Owner}
    for uid, state in owners.items():
        by_state[state].add(uid)
    if by_state[Owner.UNKNOWN]:
        return Keep()
    lost = by_state[Owner.ABSENT] | by_state[Owner.WAITING]
    if by_state[Owner.SOLID]:
        return DropOwners(frozenset(lost)) if lost else Keep()
    if by_state[Owner.WAITING] and dependents:
        # Its own dependents are deleted first, too. If one of them waits for this object in turn,
        # the cycle has to be broken.
        return Delete("Foreground", unblock=any(other.awaits_dependents for other in dependents))
    finalizers = item.metadata.finalizers
    if ORPHAN in finalizers:
        return Delete("Orphan")
    if FOREGROUND in finalizers:
        return Delete("Foreground")
    return Delete("Background")
