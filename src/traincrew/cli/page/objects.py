"""Typed views of what the page shows besides the view model: times of pods and of events."""

from __future__ import annotations

from msgspec import field

from traincrew.cli.display import objects
from traincrew.cli.jobview import objects as model_objects  # noqa: TC001  # msgspec reads it

__all__ = ["Event", "Pod", "PodStatus"]


class PodStatus(objects.PodStatus, frozen=True, gc=False, kw_only=True):
    """The status of a pod, with the times of its conditions."""

    conditions: list[model_objects.Condition] = field(default_factory=list)  # type: ignore[assignment]


class Pod(objects.Pod, frozen=True, gc=False, kw_only=True):
    """A pod."""

    status: PodStatus = field(default_factory=PodStatus)


class Event(objects.Event, frozen=True, gc=False, kw_only=True):
    """An event, with its times; which of them are set depends on the component."""

    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        """When it happened last, RFC 3339; empty if it does not say."""
        return self.last_timestamp or self.event_time or self.first_timestamp or ""
