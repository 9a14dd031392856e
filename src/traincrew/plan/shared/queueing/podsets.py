"""The pods that a job asks a queue for, as sets of equal ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.plan.shared.queueing import kueue
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

Document = dict[str, Any]
POD_INDEX = "apps.kubernetes.io/pod-index"
"""Label of the pods of a StatefulSet."""


class PodSet(Struct, frozen=True, kw_only=True):
    """Equal pods of a job.

    Attributes:
        role: Their role in the job.
        template: Their template, as the user has written it.
        count: How many there are.
        least: How many are sufficient, if the job can run with fewer.
        index_label: Label of the pods with their number in the set; empty if there is none.
    """

    role: str
    template: Document
    count: int
    least: int | None = None
    index_label: str = ""

    @property
    def name(self) -> str:
        """The name in a Workload."""
        return name_of(self.role)

    @property
    def least_count(self) -> int | None:
        """`least`, unless it changes nothing."""
        if self.least is None or not 0 < self.least < self.count:
            return None
        return self.least


def name_of(role: str) -> str:
    """Return the name of the pods of a role in a Workload."""
    return re.sub("[^-a-z0-9]", "-", role.lower()).strip("-")[:63].rstrip("-")


def document(pods: PodSet) -> Document:
    """Return an entry of ``spec.podSets`` of a Workload."""
    found: Document = {
        "name": pods.name,
        "count": pods.count,
        "template": _template(pods.template),
    }
    if (least := pods.least_count) is not None:
        found["minCount"] = least
    if (topology := _topology(pods)) is not None:
        found["topologyRequest"] = topology
    return found


def fingerprint(pods: Sequence[PodSet]) -> str:
    """Return the hash of everything but the numbers of pods."""
    return digest([(each.name, _template(each.template)) for each in pods])


def _template(template: Document) -> Document:
    """Return a template with the metadata that a Workload may have: labels and annotations."""
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    spec = {"restartPolicy": "Never", **template["spec"]}
    return {"metadata": kept, "spec": spec} if kept else {"spec": spec}


def _topology(pods: PodSet) -> Document | None:
    """Return what annotations of the template ask of the topology; None if they ask nothing.

    Source: `pkg/controller/jobframework/tas.go`.
    """
    annotations = (pods.template.get("metadata") or {}).get("annotations") or {}
    found: Document = {}
    if kueue.REQUIRED_TOPOLOGY in annotations:
        found["required"] = annotations[kueue.REQUIRED_TOPOLOGY]
    elif kueue.PREFERRED_TOPOLOGY in annotations:
        found["preferred"] = annotations[kueue.PREFERRED_TOPOLOGY]
    elif kueue.UNCONSTRAINED_TOPOLOGY in annotations:
        found["unconstrained"] = annotations[kueue.UNCONSTRAINED_TOPOLOGY] in {"true", "True", "1"}
    if kueue.POD_SET_GROUP in annotations and ("required" in found or "preferred" in found):
        found["podSetGroupName"] = annotations[kueue.POD_SET_GROUP]
    size = str(annotations.get(kueue.SLICE_SIZE, ""))
    if kueue.SLICE_TOPOLOGY in annotations and size.isdecimal():
        found["podSetSliceRequiredTopology"] = annotations[kueue.SLICE_TOPOLOGY]
        found["podSetSliceSize"] = int(size)
    if not found:
        return None
    if pods.index_label:
        found["podIndexLabel"] = pods.index_label
    return found
