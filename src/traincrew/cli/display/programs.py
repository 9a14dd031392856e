"""The containers of a pod that is shown, by the rule of `traincrew.plan.shared.programs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.kinds import KINDS
from traincrew.plan.shared import programs

if TYPE_CHECKING:
    from traincrew.cli.display.objects import ContainerStatus, Pod

__all__ = ["by_importance", "program", "that_can_fail"]


def program(pod: Pod) -> ContainerStatus | None:
    """Return the status of the container that runs the program of a pod; None if it has none."""
    return programs.program(pod, _named(pod))


def that_can_fail(pod: Pod) -> list[ContainerStatus]:
    """Return the containers whose end may explain why a pod failed, the likeliest first."""
    return programs.that_can_fail(pod, _named(pod))


def by_importance(pod: Pod) -> list[ContainerStatus]:
    """Return all containers of a pod; the first one that is not well explains its state."""
    return programs.by_importance(pod, _named(pod))


def _named(pod: Pod) -> tuple[str, ...]:
    """Return the names by which the kind of the pod's job marks its program, if there is one."""
    found = (kind for kind in KINDS if kind.label in pod.metadata.labels)
    return next((kind.definition.containers for kind in found), ())
