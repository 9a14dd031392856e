"""Binding and eviction of pods, through their subresources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests import DeleteOptions, delete_options, write_options
from traincrew.local.apiserver.requests.objectmeta import meta_of, timestamp
from traincrew.local.apiserver.values import selectors
from traincrew.local.apiserver.values.errors import StatusError, bad_request, conflict, internal

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

    from .verbs import Verbs

__all__ = ["bind", "created_status", "evict", "set_condition"]

_BUDGETS = "poddisruptionbudgets.policy"
_MAX_DISRUPTED = 2000


def created_status() -> Document:
    """Return the Status of a POST to a subresource that creates no object."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def set_condition(
    status: Document, kind: str, value: str, now: str, *, reason: str = "", message: str = ""
) -> None:
    """Set a condition of a status; a changed value updates the transition time."""
    conditions = status.setdefault("conditions", [])
    condition = next((each for each in conditions if each["type"] == kind), None)
    if condition is None:
        condition = {"type": kind, "lastProbeTime": None}
        conditions.append(condition)
    if condition.get("status") != value:
        condition["lastTransitionTime"] = now
    condition["status"] = value
    for name, text in (("reason", reason), ("message", message)):
        if text:
            condition[name] = text
        else:
            condition.pop(name, None)


def bind(verbs: Verbs, call: Call, resource: ResourceType, entry: Entry, body: Document) -> None:
    """Handle a POST of a Binding: assign a pod to a node.

    Args:
        verbs: the verbs to write with.
        call: the request.
        resource: pods.
        entry: the pod.
        body: the Binding.

    Raises:
        StatusError: 400 without a node, 409 when the pod is bound, being deleted, or gated.
    """
    options = write_options(call, "CreateOptions")
    name = entry.key[1]
    target = body.get("target")
    if not isinstance(target, dict):
        target = {}
    node = target.get("name")
    if not node or not isinstance(node, str):
        raise bad_request("a Binding needs the name of a node: target.name")
    if target.get("kind", "Node") not in {"", "Node"}:
        raise bad_request(f"target.kind: a pod is bound to a Node, not to a {target['kind']}")
    pod = entry.copy()
    metadata, spec = pod["metadata"], pod["spec"]
    why = ""
    if (uid := meta_of(body).get("uid")) and uid != metadata["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {metadata['uid']}"
        )
    elif metadata.get("deletionTimestamp") is not None:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", "", name, why)
    spec["nodeName"] = node
    for field in ("annotations", "labels"):
        if extra := meta_of(body).get(field):
            metadata[field] = (metadata.get(field) or {}) | extra
    set_condition(pod.setdefault("status", {}), "PodScheduled", "True", timestamp(verbs.clock()))
    verbs.update(resource, entry, pod, options, both_parts=True, tracking_subresource="binding")


def _is_ready(pod: Document) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions") or ()
    )


def evict(verbs: Verbs, call: Call, resource: ResourceType, entry: Entry, body: Document) -> None:
    """Handle a POST of an Eviction: delete a pod if its disruption budget allows it.

    Raises:
        StatusError: 429 when the budget does not allow it, 500 when there is more than one budget.
    """
    raw = body.get("deleteOptions")
    options = delete_options(call, raw if isinstance(raw, dict) else {})
    pod = entry.obj
    status = pod.get("status", {})
    finished = status.get("phase") in {"Succeeded", "Failed", "Pending"}
    terminating = pod["metadata"].get("deletionTimestamp") is not None
    if not finished and not terminating:
        budget = _budget_for(verbs, pod)
        if budget is not None:
            _use_disruption(verbs, budget, entry, options)
    if not options.dry_run and not terminating:
        marked = entry.copy()
        set_condition(
            marked.setdefault("status", {}),
            "DisruptionTarget",
            "True",
            timestamp(verbs.clock()),
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        entry = verbs.update(
            resource, entry, marked, write_options(call, "CreateOptions"), subresource="status"
        )
        options = options._replace(resource_version=None)
    verbs.deleter.delete(resource, entry, options)


def _budget_for(verbs: Verbs, pod: Document) -> Entry | None:
    labels = pod["metadata"].get("labels") or {}
    found = [
        entry
        for entry in verbs.storage.scan(_BUDGETS, pod["metadata"]["namespace"])
        if selectors.from_label_selector(entry.obj["spec"].get("selector"))(labels)
    ]
    if len(found) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    return found[0] if found else None


def _too_many(message: str, budget: str, detail: str, seconds: int) -> StatusError:
    return StatusError(
        429,
        "TooManyRequests",
        message,
        {
            "causes": [{"reason": "DisruptionBudget", "message": detail}],
            "retryAfterSeconds": seconds,
            "name": budget,
        },
    )


def _use_disruption(verbs: Verbs, budget: Entry, pod: Entry, options: DeleteOptions) -> None:
    """Use up one allowed disruption of a budget, or reject the eviction."""
    name = budget.key[1]
    obj = budget.copy()
    status = obj.setdefault("status", {})
    if not _is_ready(pod.obj):
        policy = obj["spec"].get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
        healthy = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
        if policy == "AlwaysAllow" or healthy:
            return
    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
        raise _too_many(
            refusal,
            name,
            f"The disruption budget {name} is still being processed by the server.",
            10,
        )
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _too_many(
            refusal,
            name,
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently",
            0,
        )
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) >= _MAX_DISRUPTED:
        raise _too_many(
            refusal,
            name,
            f"DisruptedPods map too big - too many evictions not confirmed by PDB controller: "
            f"{len(disrupted)}",
            0,
        )
    status["disruptionsAllowed"] -= 1
    disrupted[pod.key[1]] = timestamp(verbs.clock())
    if not options.dry_run:
        verbs.storage.put(_BUDGETS, budget.key, obj)
