"""What individual built-in kinds do on create and update, in addition to the general rules.

Every function gets the document about to be stored and may change it; an exception rejects the
write. Those for updates also get the old document, and the fields that were sent empty
(`updates.emptied`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from traincrew.local.apiserver.admission import limits, pods, storage
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.errors import invalid
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .addresses import Addresses

__all__ = ["CREATE", "DEFAULTED_ON_READ", "UPDATE", "WriteContext"]


class WriteContext(Protocol):
    """What these functions may use."""

    storage: Storage
    addresses: Addresses
    clock: Callable[[], float]


def _create_namespace(_context: WriteContext, new: Document) -> None:
    name = new["metadata"]["name"]
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    spec = new.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    new["status"] = {"phase": "Active"}


def _update_namespace(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    # Only the finalize subresource removes finalizers.
    new.setdefault("spec", {})["finalizers"] = old["spec"].get("finalizers", [])
    labels = new["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = new["metadata"]["name"]


def _qos_class(spec: Document) -> str:
    """Return the QoS class from cpu and memory requests and limits; missing ones count as zero.

    Rules: ``pkg/apis/core/helper/qos``.
    """
    holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if any(field(spec, "resources").values()):
        holders = [spec]
    totals: dict[str, dict[str, Fraction]] = {"requests": {}, "limits": {}}
    guaranteed = True
    for holder in holders:
        if not holder.get("resources"):
            guaranteed = False
            continue
        for kind, total in totals.items():
            amounts = field(holder, "resources", kind)
            given = {name: parse(amounts.get(name, "0")) for name in ("cpu", "memory")}
            # A numerator compares faster than its fraction.
            positive = {name: amount for name, amount in given.items() if amount.numerator > 0}
            for name, amount in positive.items():
                total[name] = total[name] + amount if name in total else amount
            guaranteed = guaranteed and (kind == "requests" or len(positive) == len(given))
    if not any(totals.values()):
        return "BestEffort"
    return "Guaranteed" if guaranteed and totals["requests"] == totals["limits"] else "Burstable"


def _create_pod(context: WriteContext, new: Document) -> None:
    spec = new["spec"]
    limits.complete(context.storage, new)
    pods.admit(context.storage, new)
    status: Document = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(context.clock()),
            }
        ]
    new["status"] = status


def _update_pod(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    spec, before = new["spec"], old["spec"]
    for key in ("priority", "preemptionPolicy"):
        if key in before:
            spec.setdefault(key, before[key])
    # qosClass is set once and survives every write of the status.
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def _create_service(context: WriteContext, new: Document) -> None:
    new["status"] = {"loadBalancer": {}}
    context.addresses.assign(new, None)


def _update_service(
    context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    context.addresses.assign(new, old)


def _create_claim(context: WriteContext, new: Document) -> None:
    storage.set_class(context.storage, new)
    storage.protect(new, storage.CLAIM_PROTECTION)
    new["status"] = {"phase": "Pending"}


def _create_volume(context: WriteContext, new: Document) -> None:
    storage.protect(new, storage.VOLUME_PROTECTION)
    now = timestamp(context.clock())
    new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _update_volume(
    context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    status, before = field(new, "status"), field(old, "status")
    key = "lastPhaseTransitionTime"
    if status.get("phase") != before.get("phase") and status.get(key) == before.get(key):
        new["status"] = {**status, key: timestamp(context.clock())}


def _create_priority_class(context: WriteContext, new: Document) -> None:
    pods.admit_priority_class(context.storage, new)


def _update_priority_class(
    context: WriteContext, new: Document, _old: Document, _sent: frozenset[str]
) -> None:
    pods.admit_priority_class(context.storage, new)


def _create_definition(_context: WriteContext, new: Document) -> None:
    versions = new["spec"].get("versions") or ()
    stored = [each.get("name", "") for each in versions if each.get("storage")]
    new["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}}
    new["status"]["storedVersions"] = stored


def _update_immutable_data(
    _context: WriteContext, new: Document, old: Document, sent: frozenset[str]
) -> None:
    if not old.get("immutable"):
        return
    fields = ["data", "binaryData"] if new["kind"] == "ConfigMap" else ["data"]
    changed = [key for key in fields if key in sent or (new.get(key) or {}) != (old.get(key) or {})]
    if not new.get("immutable"):
        changed.insert(0, "immutable")
    if changed:
        detail = "field is immutable when `immutable` is set"
        faults = [causes.forbidden(key, detail) for key in changed]
        raise invalid("", new["kind"], new["metadata"]["name"], faults)


def _create_daemon_set(_context: WriteContext, new: Document) -> None:
    annotations = new["metadata"]["annotations"]
    annotations[TEMPLATE_GENERATION] = str(max(1, int(annotations[TEMPLATE_GENERATION])))


def _update_daemon_set(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    before = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    changed = new["spec"].get("template") != old["spec"].get("template")
    number = int(before) + 1 if changed and before.isdigit() else before
    new["metadata"]["annotations"][TEMPLATE_GENERATION] = str(number)


DEFAULTED_ON_READ = {"persistentvolumeclaims": ("status.phase",)}
"""Defaults that upstream sets when it reads an object, and stores with the next write."""

CREATE: dict[str, Callable[[Any, Document], None]] = {
    "customresourcedefinitions.apiextensions.k8s.io": _create_definition,
    "daemonsets.apps": _create_daemon_set,
    "namespaces": _create_namespace,
    "persistentvolumeclaims": _create_claim,
    "persistentvolumes": _create_volume,
    "pods": _create_pod,
    "priorityclasses.scheduling.k8s.io": _create_priority_class,
    "services": _create_service,
}
UPDATE: dict[str, Callable[[Any, Document, Document, frozenset[str]], None]] = {
    "configmaps": _update_immutable_data,
    "daemonsets.apps": _update_daemon_set,
    "namespaces": _update_namespace,
    "persistentvolumes": _update_volume,
    "pods": _update_pod,
    "priorityclasses.scheduling.k8s.io": _update_priority_class,
    "secrets": _update_immutable_data,
    "services": _update_service,
}
