"""Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec import pod as pods
from traincrew.local.apiserver.kinds.podspec.defaults import default_pod_spec
from traincrew.local.apiserver.kinds.podspec.ephemeral import (
    EPHEMERAL,
    accepted_ephemeral,
    ephemeral_part,
)
from traincrew.local.apiserver.kinds.podspec.quality import qos_class
from traincrew.local.apiserver.kinds.podspec.resize import accepted_resize, resize_part
from traincrew.local.apiserver.kinds.podspec.templates import warn_of_name
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, conditions_of, name_of
from traincrew.local.apiserver.kinds.strategy import (
    Part,
    Strategy,
    WriteContext,
)
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import age
from traincrew.local.apiserver.values.selectors import FieldLabels
from traincrew.local.quotas import missing_requests

from . import limits, podadmission
from .limits import pod_faults
from .podsummary import pod_summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Pod; its status column is more specific than its phase."""
    spec, status = field(obj, "spec"), field(obj, "status")
    ready, total, reason, restarts, last_restart = pod_summary(obj, spec, status)
    shown = str(restarts)
    if restarts and last_restart is not None:
        shown = f"{restarts} ({age(last_restart, now)} ago)"
    addresses = [address.get("ip") for address in items(status, "podIPs")]
    gates = [gate.get("conditionType", "") for gate in items(spec, "readinessGates")]
    conditions = conditions_of(obj)
    open_gates = sum(conditions.get(gate) == "True" for gate in gates)
    return [
        name_of(obj),
        f"{ready}/{total}",
        reason,
        shown,
        age_of(obj, now),
        (addresses[0] if addresses else status.get("podIP")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{open_gates}/{len(gates)}" if gates else NONE,
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None:
        yield from warn_of_name(obj, "the Pod's hostname")
        yield from warn_of_template(obj, "")


def _requests_from_limits(container: Document) -> None:
    resources = container.get("resources")
    if type(resources) is not dict or type(resources.get("limits")) is not dict:
        return
    requests = resources.get("requests") or {}
    if resources["limits"] and type(requests) is dict:
        resources["requests"] = {**resources["limits"], **requests}


def _default(obj: Document) -> None:
    """Fill in the defaults of a Pod, in place."""
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    host_network = spec.get("hostNetwork") is True
    for name in ("initContainers", "containers"):
        if name not in spec:
            continue
        for container in items(spec, name):
            _requests_from_limits(container)
            if host_network:
                for port in items(container, "ports"):
                    if not port.get("hostPort") and "containerPort" in port:
                        port["hostPort"] = port["containerPort"]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    pods.pod(found, obj, created=old is None)
    if old is not None:
        pods.pod_update(found, obj, old)


def _admit(context: WriteContext, new: Document, old: Document | None) -> None:
    if old is None:
        limits.complete(context.storage, new)
        podadmission.admit(context.storage, new, service_accounts=context.service_accounts)
    else:
        podadmission.tolerate_lost_nodes(new)


def _prepare_create(context: WriteContext, new: Document) -> None:
    spec = new["spec"]
    status: Document = {"phase": "Pending", "qosClass": qos_class(spec)}
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


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    spec, before = new["spec"], old["spec"]
    for key in ("priority", "preemptionPolicy"):
        if key in before:
            spec.setdefault(key, before[key])
    # qosClass is set once and survives every write of the status.
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def _grace_seconds(obj: Document, wanted: int | None) -> int:
    """Return the grace period in seconds; 0 when it cannot have running containers."""
    spec = obj.get("spec", {})
    if not spec.get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
        return 0
    period = wanted if wanted is not None else spec.get("terminationGracePeriodSeconds", 30)
    return period if period >= 0 else 1


STRATEGY = Strategy(
    selectable=FieldLabels.of(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
        absent={"spec.hostNetwork": "false"},
    ),
    columns="Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*",
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
    admit=_admit,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    parts={
        EPHEMERAL: Part(ephemeral_part, accepted_ephemeral),
        "resize": Part(resize_part, accepted_resize),
    },
    limit_faults=pod_faults,
    reset_by_status=("deletionTimestamp", "ownerReferences"),
    grace_seconds=_grace_seconds,
    missing_requests=missing_requests,
)
