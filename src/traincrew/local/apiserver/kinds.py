"""What single built-in kinds do on top of the general rules when they are written.

Every function gets the document about to be stored and may change it; raising refuses the write.
Those for updates also get the old one, and the fields that were sent empty (`updates.emptied`).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Protocol

from . import causes, podadmission
from .defaults_workloads import TEMPLATE_GENERATION
from .errors import invalid
from .objectmeta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from .addresses import Addresses
    from .storage import Storage

__all__ = ["CREATE", "STORED_WITHOUT", "UPDATE", "Surroundings"]

Document = dict[str, Any]


class Surroundings(Protocol):
    """What these functions may look at."""

    storage: Storage
    addresses: Addresses
    clock: Callable[[], float]


def _create_namespace(_around: Surroundings, new: Document) -> None:
    name = new["metadata"]["name"]
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    spec = new.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    new["status"] = {"phase": "Active"}


def _update_namespace(
    _around: Surroundings, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    # Only the finalize subresource takes finalizers away.
    new.setdefault("spec", {})["finalizers"] = old["spec"].get("finalizers", [])
    labels = new["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = new["metadata"]["name"]


def _qos_class(spec: Document) -> str:
    """Guaranteed, Burstable or BestEffort, from the containers' cpu and memory."""
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    any_set, all_limited = False, True
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            any_set = any_set or name in requests or name in limits
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                all_limited = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if all_limited else "Burstable"


def _create_pod(around: Surroundings, new: Document) -> None:
    spec = new["spec"]
    podadmission.admit(around.storage, new)
    status: Document = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(around.clock()),
            }
        ]
    new["status"] = status


def _update_pod(_around: Surroundings, new: Document, old: Document, _sent: frozenset[str]) -> None:
    spec, before = new["spec"], old["spec"]
    for field in ("priority", "preemptionPolicy"):
        if field in before:
            spec.setdefault(field, before[field])
    # qosClass is decided once, whoever writes the status.
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def _fold_string_data(_around: Surroundings, new: Document) -> None:
    for name, text in (new.pop("stringData", None) or {}).items():
        if isinstance(text, str):
            encoded = base64.b64encode(text.encode()).decode()
            new["data"] = (new.get("data") or {}) | {name: encoded}


def _create_service(around: Surroundings, new: Document) -> None:
    new["status"] = {"loadBalancer": {}}
    around.addresses.assign(new, None)


def _update_service(
    around: Surroundings, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    around.addresses.assign(new, old)


def _create_claim(_around: Surroundings, new: Document) -> None:
    new["status"] = {"phase": "Pending"}


def _create_definition(_around: Surroundings, new: Document) -> None:
    versions = new["spec"].get("versions") or ()
    stored = [each.get("name", "") for each in versions if each.get("storage")]
    new["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}}
    new["status"]["storedVersions"] = stored


def _update_immutable_data(
    _around: Surroundings, new: Document, old: Document, sent: frozenset[str]
) -> None:
    if not old.get("immutable"):
        return
    fields = ["data", "binaryData"] if new["kind"] == "ConfigMap" else ["data"]
    changed = [
        field
        for field in fields
        if field in sent or (new.get(field) or {}) != (old.get(field) or {})
    ]
    if not new.get("immutable"):
        changed.insert(0, "immutable")
    if changed:
        detail = "field is immutable when `immutable` is set"
        faults = [causes.forbidden(field, detail) for field in changed]
        raise invalid("", new["kind"], new["metadata"]["name"], faults)


def _update_secret(
    around: Surroundings, new: Document, old: Document, sent: frozenset[str]
) -> None:
    _fold_string_data(around, new)
    _update_immutable_data(around, new, old, sent)


def _create_daemon_set(_around: Surroundings, new: Document) -> None:
    annotations = new["metadata"]["annotations"]
    annotations[TEMPLATE_GENERATION] = str(max(1, int(annotations[TEMPLATE_GENERATION])))


def _update_daemon_set(
    _around: Surroundings, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    before = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "0")
    changed = new["spec"].get("template") != old["spec"].get("template")
    number = int(before) + 1 if changed and before.isdigit() else before
    new["metadata"]["annotations"][TEMPLATE_GENERATION] = str(number)


STORED_WITHOUT = {"persistentvolumeclaims": "status.phase"}
"""A default that upstream makes when it reads the object back, and stores with the next write."""

CREATE: dict[str, Callable[[Any, Document], None]] = {
    "customresourcedefinitions.apiextensions.k8s.io": _create_definition,
    "daemonsets.apps": _create_daemon_set,
    "namespaces": _create_namespace,
    "persistentvolumeclaims": _create_claim,
    "persistentvolumes": _create_claim,
    "pods": _create_pod,
    "secrets": _fold_string_data,
    "services": _create_service,
}
UPDATE: dict[str, Callable[[Any, Document, Document, frozenset[str]], None]] = {
    "configmaps": _update_immutable_data,
    "daemonsets.apps": _update_daemon_set,
    "namespaces": _update_namespace,
    "pods": _update_pod,
    "secrets": _update_secret,
    "services": _update_service,
}
