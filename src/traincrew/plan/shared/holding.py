"""Objects that jobs refer to are held by a finalizer, so that nobody deletes one that is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.plan.shared.model import ObjectKey


class Holding(NamedTuple):
    """How a kind holds the objects that its jobs refer to.

    Attributes:
        finalizer: The finalizer of objects in use.
        named: Returns the object that a job with this ``spec``, which may be invalid, refers to.
    """

    finalizer: str
    named: Callable[[dict[str, Any]], ObjectKey | None]


def next_finalizers(
    finalizer: str, found: Sequence[str], *, used: bool, deleting: bool
) -> list[str] | None:
    """Return the finalizers that an object should have; None if it has them.

    An object that is not used keeps the finalizer until somebody deletes it: most are used again.

    Args:
        finalizer: The finalizer of objects in use.
        found: The finalizers of the object.
        used: Whether a job refers to the object.
        deleting: Whether somebody has deleted the object: it gets no finalizer any more.
    """
    if finalizer not in found:
        return [*found, finalizer] if used and not deleting else None
    if deleting and not used:
        return [each for each in found if each != finalizer]
    return None
