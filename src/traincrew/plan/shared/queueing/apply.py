"""Adds an admission to the pods of a plan: the one place that does so, for every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared import writes
from traincrew.plan.shared.queueing import kueue
from traincrew.plan.shared.queueing.admission import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traincrew.plan.shared.model import ChildKey, Plan, Write
    from traincrew.plan.shared.queueing.admission import Addition
    from traincrew.plan.shared.views import ChildView

_MAKERS = frozenset({"StatefulSet", "Job"})
"""Kinds of children that make pods of a template, which an admission changes."""
_KINDS = _MAKERS | {"Pod"}
_OF_JOBS = frozenset({kueue.QUEUE, kueue.PRIORITY_CLASS, kueue.MAX_SECONDS})
Document = dict[str, Any]


def apply(
    plan: Plan,
    added: Mapping[str, Addition],
    pod_set: Callable[[Mapping[str, str]], str],
) -> None:
    """Change what a plan creates, in place; pods that exist are left alone.

    Args:
        plan: The plan.
        added: What is added to the pods of each set.
        pod_set: Returns the set of a pod with these labels.

    Raises:
        AdmissionConflictError: A template wants another value of a field.
    """
    mark = digest_of(added)

    def changed(template: Document) -> Document:
        template = _unqueued(template)
        labels = (template.get("metadata") or {}).get("labels") or {}
        addition = added.get(pod_set(labels))
        return addition.add_to(template) if addition is not None else template

    def document(found: Document) -> Document:
        found = _unqueued(found)
        if found["kind"] not in _KINDS:
            return found
        if found["kind"] == "Pod":
            return changed(found)
        template = changed(found["spec"]["template"])
        metadata = found["metadata"]
        annotations = {**(metadata.get("annotations") or {}), kueue.ADMISSION: mark}
        return {
            **found,
            "metadata": {**metadata, "annotations": annotations},
            "spec": {**found["spec"], "template": template},
        }

    writes.change(plan, document, changed)


def _unqueued(found: Document) -> Document:
    """Return a document without the labels of a queue, which children take over from their job.

    Kueue would queue a Job, a StatefulSet or a pod that has them by itself.
    """
    metadata = found.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if not labels.keys() & _OF_JOBS:
        return found
    kept = {key: value for key, value in labels.items() if key not in _OF_JOBS}
    return {**found, "metadata": {**metadata, "labels": kept}}


def outdated(
    children: Iterable[tuple[ChildKey, ChildView]], added: Mapping[str, Addition]
) -> dict[ChildKey, str]:
    """Return what makes pods of another admission, with its UID; it is replaced.

    The API lets nobody change the template of most Jobs. So nothing of an earlier admission stays.
    """
    mark = digest_of(added)
    return {
        key: view.metadata.uid
        for key, view in children
        if key.kind in _MAKERS and view.metadata.annotations.get(kueue.ADMISSION) != mark
    }


def without_pods(plan: Plan) -> None:
    """Remove from a plan what would create pods, or change what makes them."""

    def makes(write: Write) -> bool:
        if write.create is not None:
            return write.create["kind"] in _KINDS
        return write.patch is not None and write.patch.key.kind in _MAKERS

    stages = [[each for each in stage if not makes(each)] for stage in plan.stages]
    plan.stages = [stage for stage in stages if stage]
    plan.coming, plan.missing = {}, {}
