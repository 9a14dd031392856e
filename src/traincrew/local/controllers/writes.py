"""The writes of a plan as plain data; `context` executes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject


class Event(Struct, frozen=True):
    """An event about the object that was reconciled."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


class Deletion(Struct, frozen=True):
    """An object to delete.

    Attributes:
        pod: The pod as observed: the server refuses if another one has its name.
        release: A finalizer to remove first, so that the deletion does not count as a failure.
    """

    pod: AnyObject
    release: str = ""


class Status(Struct, frozen=True):
    """A whole status to write; only the difference to the observed one is sent."""

    value: dict[str, Any]
