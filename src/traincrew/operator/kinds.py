"""The kinds that the operator serves: those of the plans, converted for engine and reconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from traincrew.engine.resources import Resource
from traincrew.operator.kind import OperatedKind
from traincrew.plan.kinds import KINDS
from traincrew.plan.shared.kind import Options
from traincrew.plan.shared.reporting import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.operator.options import OperatorOptions
    from traincrew.plan.shared import kind as plans
    from traincrew.plan.shared.model import Decision, Observed


def resource_of(kind: plans.PlannedKind) -> Resource:
    """Return the resource of the jobs of a kind."""
    defined = kind.definition
    return Resource(defined.group, defined.version, defined.plural, defined.kind)


def _of_child(child: plans.Child) -> Resource:
    return Resource(child.group, child.version, child.plural, child.kind)


RESOURCES = tuple(map(resource_of, KINDS))
"""The resources of all kinds of jobs."""
INSTALLED = tuple(kind for kind in KINDS if not kind.definition.project)
"""The kinds that are installed on clusters, and served there."""
INSTALLED_RESOURCES = tuple(map(resource_of, INSTALLED))
"""Their resources."""
PROJECT_KINDS = tuple(kind for kind in KINDS if kind.definition.project)
"""The kinds of other projects, which are served where that is asked for."""
OF_OTHERS = tuple(kind.definition.kind for kind in PROJECT_KINDS)
"""Their names."""
SCALABLE = tuple(resource_of(kind) for kind in KINDS if kind.definition.scale is not None)
"""The resources that can be scaled."""
SCALE_SERVED = tuple(
    resource_of(kind) for kind in KINDS if kind.definition.scale or kind.definition.not_scalable
)
"""The resources with a ``scale`` subresource, which may refuse every write."""


def between(resource: Resource) -> tuple[Resource, ...]:
    """Return the resources of what jobs are made of, whose own children own the pods.

    Args:
        resource: The jobs.
    """
    return tuple(
        found
        for kind in KINDS
        if kind.descendants and resource_of(kind) == resource
        for child in kind.children
        if (found := _of_child(child)) in RESOURCES
    )


def _reporting(
    kind: plans.PlannedKind, chosen: Options, options: OperatorOptions, certificate: str
) -> Options:
    """Add where the jobs of a kind report their progress."""
    if options.progress is None:
        return chosen
    url, plural = options.progress.url, kind.definition.plural
    return structs.replace(
        chosen, endpoint=Endpoint(url=url, certificate=certificate, plural=plural)
    )


def _with_options(
    kind: plans.PlannedKind, options: Options
) -> Callable[[Observed, datetime], Decision]:
    return lambda observed, now: kind.plan(observed, now, options)


def all_kinds(options: OperatorOptions, certificate: str = "") -> list[OperatedKind]:
    """Return the kinds that an operator serves, with the options bound.

    Args:
        options: The options.
        certificate: What pods have to trust in order to report their progress.
    """
    chosen = Options(
        helper_image=options.helper_image,
        git_image=options.git_image,
        accelerators=options.accelerators,
    )
    return [
        OperatedKind(
            resource=resource_of(kind),
            component=kind.component,
            label=kind.label,
            selector=kind.selector,
            children=tuple(
                (_of_child(child), child.view) for child in kind.children if child.watched
            ),
            unwatched=tuple(_of_child(child) for child in kind.children if not child.watched),
            descendants=tuple(map(_of_child, kind.descendants)),
            references=tuple(Resource(*each) for each in kind.references),
            protection=kind.protection,
            plan=_with_options(kind, _reporting(kind, chosen, options, certificate)),
            written=kind.written,
            project=kind.definition.project,
        )
        for kind in KINDS
        if not kind.definition.project or kind.definition.kind in options.kinds
    ]
