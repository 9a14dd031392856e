"""The termination of an instance, as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from traincrew.local.node.records.record import Terminated
from traincrew.local.node.runtime.logs import tail_of

if TYPE_CHECKING:
    from traincrew.local.node.runtime.instances import Exit, Instance

__all__ = ["epoch", "terminated", "to_second"]

Document = Mapping[str, Any]

_MESSAGE_LIMIT = 4096
_FALLBACK_LINES = 80
_FALLBACK_LIMIT = 2048


def terminated(instance: Instance, end: Exit, container: Document) -> Terminated:
    """Return the `terminated` state of an instance.

    Args:
        instance: The instance.
        end: How it ended.
        container: Of the pod's spec; names the path of the termination message.
    """
    reason = end.reason or ("Completed" if end.exit_code == 0 else "Error")
    return Terminated(
        end.exit_code,
        reason,
        end.signal,
        end.message or _termination_message(instance, end.exit_code, container),
        to_second(end.started_at),
        to_second(end.finished_at),
        instance.container_id,
    )


def _termination_message(instance: Instance, exit_code: int, container: Document) -> str:
    try:
        with (instance.directory / "termination-log").open("rb") as file:
            message = file.read(_MESSAGE_LIMIT).decode("utf-8", "replace")
    except OSError:
        message = ""
    policy = container.get("terminationMessagePolicy")
    if not message and exit_code and policy == "FallbackToLogsOnError":
        message = tail_of(instance.log, _FALLBACK_LINES, _FALLBACK_LIMIT)
    return message


def to_second(text: str) -> str:
    """Return an RFC 3339 time without fractions, as in API objects."""
    return text.partition(".")[0].removesuffix("Z") + "Z" if text else ""


def epoch(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time; 0 for an empty one."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
