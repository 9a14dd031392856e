"""The scheduler of the embedded cluster: `plan` assigns pods to nodes, `controller` binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.scheduler.controller import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder

__all__ = ["add_scheduler"]


def add_scheduler(manager: Manager, events: EventRecorder, names: Iterable[str] = ()) -> None:
    """Register the scheduler; must be called before `Manager.run`.

    Args:
        manager: Runs it.
        events: Records its events.
        names: Further values of `spec.schedulerName` that it handles, besides its own.
    """
    manager.add(Scheduler(manager, events, names).controller)
