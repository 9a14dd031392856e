"""Adoption of containers of an earlier node: running, terminated since then, or lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.node.containers.ends import terminated, to_second
from traincrew.local.node.records.record import ContainerRecord, Terminated
from traincrew.local.node.runtime.instances import Instance, instances_of
from traincrew.local.node.sandbox import files

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Earlier", "adopt"]

Document = Mapping[str, Any]

_LOST = "The container could not be located when the pod was terminated"


class Earlier(NamedTuple):
    """What an earlier node left of a container.

    Attributes:
        instance: is running, or has ended and is not yet reported.
        next_number: of the next instance.
        failures: number of restarts so far.
    """

    instance: Instance | None
    next_number: int
    failures: int = 0


def adopt(
    record: ContainerRecord, directory: Path, shown: Document, container: Document, *, is_init: bool
) -> Earlier:
    """Restore the record of a container to where an earlier node left it.

    Args:
        record: Of the container, still in its initial state.
        directory: Of its instances.
        shown: Its status in the API.
        container: Of the pod's spec.
        is_init: Whether it is an init container, not a sidecar.
    """
    known = instances_of(directory)
    if not known:
        return Earlier(None, _note_lost(record, shown, is_init=is_init))
    current = known[-1]
    record.image = shown.get("image", record.image)
    record.image_id = shown.get("imageID", "")
    if len(known) > 1 and (before := known[-2].exit()) is not None:
        record.end(terminated(known[-2], before, container))
    if current.processes() is None and current.exit() is None:
        # The node went down just before it started.
        current.abandon()
        if current.processes() is None:
            return Earlier(None, current.number + 1, current.number)
    _restore(record, current, shown)
    return Earlier(current, current.number + 1, current.number)


def _restore(record: ContainerRecord, instance: Instance, shown: Document) -> None:
    """Restore the state of a container as it was reported before."""
    end = instance.exit()
    since = to_second(end.started_at if end is not None else instance.started_at())
    record.run(instance.container_id, since, instance.number)
    same = shown.get("containerID") == instance.container_id
    record.started = same and bool(shown.get("started"))
    record.ready = same and bool(shown.get("ready"))


def _note_lost(record: ContainerRecord, shown: Document, *, is_init: bool) -> int:
    """Record a container as killed of which the API knows and no files are left.

    Returns:
        The number of the next instance.
    """
    restarts = int(shown.get("restartCount") or 0)
    if not shown.get("containerID"):
        return restarts
    state = shown.get("state") or {}
    ended = state.get("terminated") or (shown.get("lastState") or {}).get("terminated")
    if state.get("running") or not ended:
        started = (state.get("running") or {}).get("startedAt", "")
        end = Terminated(137, "ContainerStatusUnknown", 9, _LOST, started, files.now())
    else:
        end = Terminated(
            int(ended.get("exitCode", 137)),
            str(ended.get("reason", "")),
            int(ended.get("signal", 0)),
            str(ended.get("message", "")),
            str(ended.get("startedAt", "")),
            str(ended.get("finishedAt", "")),
            str(ended.get("containerID", "")),
        )
    record.restarts = restarts
    record.container_id = shown["containerID"]
    if is_init:
        # Its volumes are gone as well, so it has to run again.
        record.last = end
    else:
        record.end(end)
    return restarts + 1
