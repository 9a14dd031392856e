"""What the admission of a Workload adds to the pods of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.plan.shared.queueing import kueue, workloads
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.plan.shared.views import WorkloadView

Document = dict[str, Any]
_MAPS = ("labels", "annotations", "nodeSelector")


class AdmissionConflictError(Exception):
    """Two parts of an admission, or one and the template, want different values of a field."""


class Addition(Struct, kw_only=True):
    """What is added to the pods of one set."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    nodeSelector: dict[str, str] = field(default_factory=dict)  # noqa: N815 - a field of pods
    tolerations: list[Document] = field(default_factory=list)
    gates: list[str] = field(default_factory=list)

    def merge(self, more: Mapping[str, Any], source: str) -> None:
        """Add what something asks for.

        Args:
            more: Labels, annotations, a node selector and tolerations.
            source: What asks for it, for people.

        Raises:
            AdmissionConflictError: Something else wants another value.
        """
        for name in _MAPS:
            mine: dict[str, str] = getattr(self, name)
            for key, value in (more.get(name) or {}).items():
                if mine.setdefault(key, value) != value:
                    raise AdmissionConflictError(
                        f"{source} wants {name} {key}={value}, and another part of the admission"
                        f" {key}={mine[key]}"
                    )
        self.tolerations += [
            each for each in more.get("tolerations") or () if each not in self.tolerations
        ]

    def add_to(self, template: Document) -> Document:
        """Return a template with the addition.

        Raises:
            AdmissionConflictError: The template wants another value of a field.
        """
        metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
        for name in ("labels", "annotations"):
            if added := getattr(self, name):
                metadata[name] = _merged(metadata.get(name) or {}, added, f"metadata.{name}")
        if self.nodeSelector:
            before = spec.get("nodeSelector") or {}
            spec["nodeSelector"] = _merged(before, self.nodeSelector, "spec.nodeSelector")
        if self.tolerations:
            before = spec.get("tolerations") or []
            spec["tolerations"] = [
                *before,
                *(each for each in self.tolerations if each not in before),
            ]
        if self.gates:
            before = spec.get("schedulingGates") or []
            names = {each.get("name") for each in before}
            added_gates = [{"name": each} for each in self.gates if each not in names]
            spec["schedulingGates"] = [*before, *added_gates]
        return {**template, "metadata": metadata, "spec": spec}


def _merged(before: Mapping[str, str], added: Mapping[str, str], path: str) -> dict[str, str]:
    for key, value in added.items():
        if before.get(key, value) != value:
            raise AdmissionConflictError(
                f"template.{path}: {key}={before[key]}, and the queue's admission wants"
                f" {key}={value}"
            )
    return {**before, **added}


def assignments(found: WorkloadView) -> Iterator[Document]:
    """Yield what was assigned to each set of pods."""
    yield from (found.status.get("admission") or {}).get("podSetAssignments") or ()


def flavors_of(found: WorkloadView) -> list[str]:
    """Return the names of all flavors that were assigned to a Workload."""
    names = (name for each in assignments(found) for name in (each.get("flavors") or {}).values())
    return sorted(dict.fromkeys(names))


def counts(found: WorkloadView, finished: Mapping[str, int]) -> dict[str, int]:
    """Return how many pods of each set there may be: as admitted, less what was given back.

    Args:
        found: The Workload.
        finished: How many pods of each set have ended for good: they need no quota.
    """
    asked, back = workloads.asked(found), workloads.reclaimed(found)
    return {
        name: min(
            each.get("count", asked.get(name, 0)),
            asked.get(name, 0) - back.get(name, 0) + finished.get(name, 0),
        )
        for each in assignments(found)
        if (name := each["name"])
    }


def admitted(found: WorkloadView) -> dict[str, int]:
    """Return how many pods of each set were admitted."""
    asked = workloads.asked(found)
    return {
        each["name"]: each.get("count", asked.get(each["name"], 0)) for each in assignments(found)
    }


def additions(found: WorkloadView, flavors: Mapping[str, Document]) -> dict[str, Addition]:
    """Return what is added to the pods of each set.

    Args:
        found: An admitted Workload.
        flavors: ``spec`` of every flavor of its assignments.

    Raises:
        AdmissionConflictError: Parts of the admission exclude each other.
    """
    requests = {
        each["name"]: each.get("topologyRequest") or {} for each in found.spec.get("podSets") or ()
    }
    result: dict[str, Addition] = {}
    for each in assignments(found):
        name = each["name"]
        added = Addition(labels={kueue.POD_SET: name})
        if each.get("topologyAssignment"):
            added.gates.append(kueue.TOPOLOGY_GATE)
            added.annotations[kueue.OF_WORKLOAD] = found.metadata.name
            if not requests.get(name, {}).keys() & {"required", "preferred", "unconstrained"}:
                added.annotations[kueue.UNCONSTRAINED_TOPOLOGY] = "true"
        for flavor in sorted(set((each.get("flavors") or {}).values())):
            spec = flavors.get(flavor, {})
            wants = {"nodeSelector": spec.get("nodeLabels"), "tolerations": spec.get("tolerations")}
            added.merge(wants, f"ResourceFlavor {flavor}")
        for check in found.status.get("admissionChecks") or ():
            for update in check.get("podSetUpdates") or ():
                if update.get("name") == name:
                    added.merge(update, f"AdmissionCheck {check.get('name')}")
        result[name] = added
    return result


def digest_of(added: Mapping[str, Addition]) -> str:
    """Return a hash of all that is added."""
    return digest({name: added[name] for name in sorted(added)})
