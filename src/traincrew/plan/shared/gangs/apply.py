"""Makes the pods of a plan members of a gang: the one place that does so, for every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared import writes
from traincrew.plan.shared.gangs import membership

if TYPE_CHECKING:
    from traincrew.plan.shared.model import Plan

Document = dict[str, Any]


def apply(plan: Plan, *, engine: str, group: str, priority_class: str) -> None:
    """Change what a plan creates, in place; pods that exist are left alone.

    Args:
        plan: The plan.
        engine: The scheduler that the pods belong to; empty for none.
        group: Name of the PodGroup; empty for pods that belong to none, although others of the
            attempt do.
        priority_class: PriorityClass of pods whose template names none; empty for none.
    """
    if not engine and not priority_class:
        return

    def changed(template: Document) -> Document:
        if priority_class:
            template = membership.with_priority(template, priority_class)
        return membership.as_member(template, engine, group) if engine and group else template

    def document(found: Document) -> Document:
        if found["kind"] not in membership.WORKLOADS:
            return found
        if found["kind"] == "Pod":
            found = changed(found)
        else:
            template = changed(found["spec"]["template"])
            found = {**found, "spec": {**found["spec"], "template": template}}
        return membership.mark(found, engine) if engine else found

    writes.change(plan, document, changed)
