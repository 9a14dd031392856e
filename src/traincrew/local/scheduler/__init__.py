"""The scheduler of the embedded cluster: `plan` decides where pods go, `controller` binds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.scheduler.controller import Scheduler

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager

__all__ = ["add_scheduler"]


def add_scheduler(manager: Manager, events: EventRecorder) -> None:
    """Register the scheduler; before `Manager.run`."""
    manager.add(Scheduler(manager, events).controller)
