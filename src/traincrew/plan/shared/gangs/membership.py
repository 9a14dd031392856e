"""How pods belong to a gang.

An annotation of the object that the operator creates (a Pod, or the StatefulSet or Job of it) names
the engine. So an attempt keeps what it began with: neither an engine that is installed later nor
another operator changes it, and what makes pods is not written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared.schedulers import COSCHEDULING, ENGINES, KAI, KUBERNETES, VOLCANO
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.plan.shared.model import ChildKey
    from traincrew.plan.shared.views import ChildView

ENGINE = "traincrew.dev/gang-scheduler"
"""Annotation of what makes pods of a gang: the name of the engine."""
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
KAI_ANNOTATION = "pod-group-name"
KAI_OPT_OUT = "kai.scheduler/skip-podgrouper"
"""Annotation of pods, ``true`` for those whose group KAI's podgrouper must not choose. KAI knows it
since 0.15 (docs/developer/designs/external-podgroups). Before, it puts pods that have an owner into
groups of its own."""
WORKLOADS = frozenset({"Pod", "StatefulSet", "Job"})
"""Kinds of children that are pods or make them."""

Document = dict[str, Any]


def as_member(template: Document, engine: str, group: str) -> Document:
    """Make the pods of a template members of a PodGroup."""
    metadata = template.get("metadata") or {}
    if engine == KUBERNETES:
        return podtemplate.with_spec(template, schedulingGroup={"podGroupName": group})
    field = "labels" if engine == COSCHEDULING else "annotations"
    ours = {
        COSCHEDULING: {COSCHEDULING_LABEL: group},
        KAI: {KAI_ANNOTATION: group, KAI_OPT_OUT: "true"},
        VOLCANO: {VOLCANO_ANNOTATION: group},
    }[engine]
    return {
        **template,
        "metadata": {**metadata, field: {**(metadata.get(field) or {}), **ours}},
    }


def with_priority(template: Document, priority_class: str) -> Document:
    """Give pods a PriorityClass, unless their template has a priority."""
    if "priority" in template["spec"]:
        return template
    return podtemplate.with_default(template, priorityClassName=priority_class)


def mark(document: Document, engine: str) -> Document:
    """Note in a child which engine its pods belong to."""
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ENGINE: engine}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def engine_in_use(children: Iterable[tuple[ChildKey, ChildView]]) -> str | None:
    """Return the engine that the pods of an attempt belong to.

    Returns:
        Its name; empty if they belong to none; None if nothing has been created yet, or all of it
        is being deleted.
    """
    found: str | None = None
    for key, view in children:
        if key.kind in WORKLOADS and view.metadata.deletion_timestamp is None:
            named = view.metadata.annotations.get(ENGINE, "")
            if named in ENGINES:
                return named
            found = ""
    return found
