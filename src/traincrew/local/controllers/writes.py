"""What a decision says should be written: plain data, executed by `shell`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject


class Note(Struct, frozen=True):
    """An event about the object that was reconciled."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


class Deletion(Struct, frozen=True):
    """An object to delete.

    Attributes:
        pod: What to delete, as it was seen: the server refuses if another took its name.
        release: A finalizer to take off first, so that the deletion does not count as a failure.
    """

    pod: AnyObject
    release: str = ""


class Status(Struct, frozen=True):
    """A status to write, as a whole; only the difference to what was seen is sent."""

    value: dict[str, Any]
