"""What happens to one object, given the state of its owners and dependents. Pure.

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
    """It exists and stays, or goes without waiting for its dependents."""
    ABSENT = auto()
    """It does not exist."""
    WAITING = auto()
    """It goes as soon as its dependents are gone (foreground deletion)."""


class Keep(Struct, frozen=True):
    """Nothing to do."""


class DropOwners(Struct, frozen=True):
    """Take references to these owners off the object; somebody else still needs it."""

    uids: frozenset[str]


class Delete(Struct, frozen=True):
    """Delete the object.

    Attributes:
        propagation: What happens to its own dependents.
        unblock: Break a cycle first: it must not block its owner any more.
    """

    propagation: Literal["Background", "Foreground", "Orphan"]
    unblock: bool = False


class Orphan(Struct, frozen=True):
    """Take the object off the owners of its dependents, then let it go."""


class Finish(Struct, frozen=True):
    """No dependent is in the way of the foreground deletion any more: let it go."""


class Await(Struct, frozen=True):
    """Foreground deletion: these dependents have to go first."""

    uids: frozenset[str]


Verdict = Keep | DropOwners | Delete | Orphan | Finish | Await


def decide(item: Item, owners: Mapping[str, Owner], dependents: Sequence[Item]) -> Verdict:
    """Decide about one object.

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
    lost = by_state[Owner.ABSENT] | by_state[Owner.WAITING]
    if by_state[Owner.SOLID]:
        return DropOwners(frozenset(lost)) if lost else Keep()
    if by_state[Owner.WAITING] and dependents:
        # Its own dependents go first too. If one of them waits in turn for this object, somebody
        # has to give in.
        return Delete("Foreground", unblock=any(other.awaits_dependents for other in dependents))
    finalizers = item.metadata.finalizers
    if ORPHAN in finalizers:
        return Delete("Orphan")
    if FOREGROUND in finalizers:
        return Delete("Foreground")
    return Delete("Background")
