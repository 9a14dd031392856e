"""Rules for RBAC, Leases, PodDisruptionBudgets, EndpointSlices and PriorityClasses."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import subdomain_fault

from .fields import immutable
from .meta import label_selector, path_segment_fault
from .workloads import at_most_everything, int_or_percent

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "disruption_budget",
    "endpoint_slice",
    "lease",
    "priority_class",
    "role",
    "role_binding",
]

_RBAC = "rbac.authorization.k8s.io"


def role(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Role or ClusterRole."""
    namespaced = obj.get("kind") == "Role"
    for index, rule in enumerate(items(obj, "rules")):
        here = f"rules[{index}]"
        if not rule.get("verbs"):
            detail = "verbs must contain at least one value"
            found.append(why.required(f"{here}.verbs", detail))
        urls = rule.get("nonResourceURLs")
        if urls:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                found.append(why.invalid(f"{here}.nonResourceURLs", urls, detail))
            if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                found.append(why.invalid(f"{here}.nonResourceURLs", urls, detail))
            continue
        for key, noun in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(key):
                detail = f"resource rules must supply at least one {noun}"
                found.append(why.required(f"{here}.{key}", detail))


def role_binding(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a RoleBinding or ClusterRoleBinding."""
    namespaced = obj.get("kind") == "RoleBinding"
    reference = field(obj, "roleRef")
    if reference.get("apiGroup") != _RBAC:
        value = reference.get("apiGroup", "")
        found.append(why.not_supported("roleRef.apiGroup", value, (_RBAC,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        found.append(why.not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    name = reference.get("name", "")
    if not name:
        found.append(why.required("roleRef.name"))
    elif path_segment_fault(name):
        found.append(why.invalid("roleRef.name", name, path_segment_fault(name)))
    for index, subject in enumerate(items(obj, "subjects")):
        _subject(found, subject, f"subjects[{index}]", namespaced=namespaced)
    if old is not None and reference != field(old, "roleRef"):
        found.append(why.invalid("roleRef", reference, "cannot change roleRef"))


def _subject(found: list[Cause], subject: Document, path: str, *, namespaced: bool) -> None:
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    name = subject.get("name", "")
    if kind == "ServiceAccount":
        fault = subdomain_fault(name) if name else ""
        if fault:
            found.append(why.invalid(f"{path}.name", name, fault))
        if group:
            found.append(why.not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(why.required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _RBAC:
            found.append(why.not_supported(f"{path}.apiGroup", group, (_RBAC,)))
    else:
        supported = ("ServiceAccount", "User", "Group")
        found.append(why.not_supported(f"{path}.kind", kind, supported))


def lease(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Lease."""
    spec = field(obj, "spec")
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        detail = "must be greater than 0"
        found.append(why.invalid("spec.leaseDurationSeconds", seconds, detail))
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        found.append(why.invalid("spec.leaseTransitions", transitions, detail))


def disruption_budget(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a PodDisruptionBudget."""
    spec = field(obj, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        detail = "minAvailable and maxUnavailable cannot be both set"
        shown = form("policy.PodDisruptionBudgetSpec", spec)
        found.append(why.invalid("spec", shown, detail))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            int_or_percent(found, f"spec.{key}", spec[key])
            at_most_everything(found, f"spec.{key}", spec[key])
    label_selector(found, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    supported = ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in supported:
        found.append(why.not_supported("spec.unhealthyPodEvictionPolicy", policy, supported))


def endpoint_slice(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate an EndpointSlice."""
    kind = obj.get("addressType", "")
    supported = ("FQDN", "IPv4", "IPv6")
    if kind and kind not in supported:
        found.append(why.not_supported("addressType", kind, supported))
    endpoints = list(items(obj, "endpoints"))
    if len(endpoints) > 1000:
        found.append(why.too_many("endpoints", len(endpoints), 1000))
        return
    version = {"IPv4": 4, "IPv6": 6}.get(kind)
    for index, endpoint in enumerate(endpoints):
        here = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            found.append(why.required(here, "must contain at least 1 address"))
        elif len(addresses) > 100:
            found.append(why.too_many(here, len(addresses), 100))
        for position, address in enumerate(addresses):
            if version is not None:
                _slice_address(found, address, version, here, position)
    if old is not None:
        immutable(found, "addressType", kind, old.get("addressType"))


def _slice_address(
    found: list[Cause], address: str, version: int, path: str, position: int
) -> None:
    """Validate an address of one IP version; loopback is allowed, as pods have such addresses."""
    try:
        if ipaddress.ip_address(address).version != version:
            found.append(why.invalid(path, address, f"must be an IPv{version} address"))
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(f"{path}[{position}]", address, detail))


def priority_class(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PriorityClass."""
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        found.append(why.forbidden("metadata.name", detail))
    elif value > 1_000_000_000:
        detail = "maximum allowed value of a user defined priority is 1000000000"
        found.append(why.forbidden("value", detail))
    if old is not None and old.get("value", 0) != value:
        found.append(why.forbidden("value", "may not be changed in an update."))
