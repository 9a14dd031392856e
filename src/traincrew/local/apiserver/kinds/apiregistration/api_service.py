"""APIServices: stored; requests to the group of a remote one are not forwarded.

Rules: ``pkg/apis/apiregistration/validation`` and ``pkg/registry/apiservice`` of kube-aggregator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.fields import service_port
from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_1035_fault, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_STATUSES = ("False", "True", "Unknown")


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an APIService."""
    service = field(obj, "spec").get("service")
    hosted = "Local"
    if service is not None:
        hosted = f"{service.get('namespace', '')}/{service.get('name', '')}"
    available = "Unknown"
    for condition in items(obj, "status", "conditions"):
        if condition.get("type") == "Available":
            available = str(condition.get("status"))
            if available != "True" and condition.get("reason"):
                available += f" ({condition['reason']})"
            break
    return [name_of(obj), hosted, available, age_of(obj, now)]


def _default(obj: Document) -> None:
    service = field(obj, "spec").get("service")
    if type(service) is dict:
        service.setdefault("port", 443)


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an APIService."""
    spec = field(obj, "spec")
    group, version = spec.get("group", ""), spec.get("version", "")
    name = obj["metadata"]["name"]
    if name != f"{version}.{group}" and not path_segment_fault(name):
        wanted = why.quote(f"{version}.{group}")
        detail = f'must be `spec.version+"."+spec.group`: {wanted}'
        found.append(why.invalid("metadata.name", name, detail))
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        found.append(why.required("spec.group", detail))
    if group and (fault := subdomain_fault(group)):
        found.append(why.invalid("spec.group", group, fault))
    if fault := label_1035_fault(version):
        found.append(why.invalid("spec.version", version, fault))
    for key, limit in (("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)):
        value = spec.get(key, 0)
        if not 0 < value <= limit:
            detail = f"must be positive and less than {limit}"
            found.append(why.invalid(f"spec.{key}", value, detail))
    _location(found, spec)
    for index, condition in enumerate(items(obj, "status", "conditions")):
        if condition.get("status") not in _STATUSES:
            here = f"status.conditions[{index}].status"
            found.append(why.not_supported(here, condition.get("status", ""), _STATUSES))


def _location(found: list[Cause], spec: Document) -> None:
    """Validate where the group is served, and how that is verified."""
    bundle, insecure = spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    service = spec.get("service")
    skip = "spec.insecureSkipTLSVerify"
    if service is None:
        if bundle:
            size = f"{len(bundle) * 3 // 4 - bundle.count('=')} bytes"
            detail = "local APIServices may not have a caBundle"
            found.append(why.invalid("spec.caBundle", size, detail))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            found.append(why.invalid(skip, insecure, detail))
        return
    found.extend(
        why.required(f"spec.service.{key}") for key in ("namespace", "name") if not service.get(key)
    )
    service_port(found, "spec.service.port", service.get("port", 443))
    if insecure and bundle:
        found.append(why.invalid(skip, insecure, "may not be true if caBundle is present"))


def _availability(context: WriteContext, obj: Document) -> Document:
    """Return the condition of an APIService, which the server alone decides."""
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": timestamp(context.clock()),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    if field(obj, "spec").get("service") is not None:
        condition["status"] = "False"
        condition["reason"] = "NotForwarded"
        condition["message"] = (
            "the embedded cluster stores APIService objects, but forwards no requests to the "
            "servers of other programs"
        )
    return condition


def _prepare_create(context: WriteContext, new: Document) -> None:
    new["status"] = {"conditions": [_availability(context, new)]}


def _prepare_update(
    context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    remote = [field(each, "spec").get("service") is not None for each in (new, old)]
    if remote[0] != remote[1]:
        new["status"] = {"conditions": [_availability(context, new)]}


STRATEGY = Strategy(
    columns="Name Service Available Age",
    row=_row,
    name_fault=path_segment_fault,
    default=_default,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    reset_by_status=("labels", "annotations", "finalizers", "ownerReferences"),
)
