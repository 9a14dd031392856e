"""Which events are about a job, and what they warn of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from traincrew.cli.display.text import one_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from traincrew.cli.display.objects import Event, Job, Pod, Workload
    from traincrew.engine.objects import HasMetadata

__all__ = ["EventFilter", "Warned", "event_filter", "warnings_about"]

WARNINGS_KEPT = 50


class Warned(Struct, frozen=True, kw_only=True):
    """A Warning event about a job or one of its pods."""

    about: str
    reason: str
    message: str
    count: int


class EventFilter(NamedTuple):
    """The objects that events may be about, by UID, and by kind and name."""

    uids: Container[str]
    names: Container[tuple[str, str]]

    def covers(self, event: Event) -> bool:
        """Return whether an event is about one of the objects."""
        involved = event.involved_object
        if involved.uid:
            return involved.uid in self.uids
        return (involved.kind, involved.name) in self.names


def event_filter(job: Job, pods: Iterable[Pod], children: Iterable[Workload]) -> EventFilter:
    """Return a job, its pods and its children, to select their events."""
    objects: list[tuple[str, HasMetadata]] = [(job.kind, job), *(("Pod", pod) for pod in pods)]
    children = list(children)
    objects += [(kind, child) for kind in ("Job", "StatefulSet", "JobSet") for child in children]
    return EventFilter(
        frozenset(obj.metadata.uid for _, obj in objects),
        frozenset((kind, obj.metadata.name) for kind, obj in objects),
    )


def warnings_about(about: EventFilter, events: Iterable[Event]) -> tuple[Warned, ...]:
    """Return the newest Warning events about the objects, each with how often it happened."""
    found: dict[tuple[str, str, str], int] = {}
    for event in events:
        if event.type != "Warning" or not about.covers(event):
            continue
        name = f"{event.involved_object.kind} {event.involved_object.name}"
        key = (name, one_line(event.reason), one_line(event.message))
        found[key] = found.get(key, 0) + (event.count or 1)
    newest = list(found.items())[-WARNINGS_KEPT:]
    return tuple(
        Warned(about=name, reason=reason, message=message, count=count)
        for (name, reason, message), count in newest
    )
