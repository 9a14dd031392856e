"""The description of a kind for the reconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from traincrew.api.kind import Project
    from traincrew.engine.resources import Resource
    from traincrew.plan.shared.kind import Protection, Written
    from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed
    from traincrew.plan.shared.views import ChildView


class OperatedKind(Struct, frozen=True, kw_only=True):
    """A kind of training job, as the reconciler needs it.

    Attributes:
        resource: The resource of the training jobs.
        component: Source component of the events.
        label: Label of children and pods whose value is the name of the job.
        selector: Selects the children and pods of all jobs; by default, those with the label.
        children: Resources of a job's children, each with the view for its plan.
        descendants: Resources whose objects belong to children, and own the pods.
        references: Resources of the objects that jobs refer to.
        protection: How those objects are protected as long as a job refers to them; not at all by
            default.
        unwatched: Resources of other children, which are created and not cached.
        plan: The decisions.
        written: Returns the events for children that were created or deleted, and for the job when
            its time to live is over; none by default.
        project: The other project whose kind it is, if any.
    """

    resource: Resource
    component: str
    label: str
    selector: str = ""
    children: tuple[tuple[Resource, type[ChildView]], ...]
    unwatched: tuple[Resource, ...] = ()
    descendants: tuple[Resource, ...] = ()
    references: tuple[Resource, ...] = ()
    protection: Protection | None = None
    plan: Callable[[Observed, datetime], Decision]
    written: Callable[[Written, Sequence[ChildKey]], list[Event]] = lambda _what, _keys: []
    project: Project | None = None
