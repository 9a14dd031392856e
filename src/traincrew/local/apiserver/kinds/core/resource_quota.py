"""ResourceQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.resources import (
    COMPUTE_RESOURCES,
    HUGE_PAGES,
    KNOWN_RESOURCES,
    any_resource_faults,
)
from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ResourceQuota."""
    status = field(obj, "status")
    used = field(status, "used")
    shown: dict[bool, list[str]] = {False: [], True: []}
    for resource, hard in sorted(field(status, "hard").items()):
        shown[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, 0)}/{hard}")
    return [name_of(obj), ", ".join(shown[False]), ", ".join(shown[True]), age_of(obj, now)]


_COUNTS = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)

_FOR_PODS = frozenset(
    (
        "pods",
        *(f"{kind}{name}" for kind in ("", "limits.", "requests.") for name in ("cpu", "memory")),
    )
)

_FOR_CLAIMS = frozenset(("persistentvolumeclaims", "requests.storage"))

_PLAIN_SCOPES = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "CrossNamespacePodAffinity",
)

# The resources each scope can be combined with.
_SCOPES = {
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": _FOR_PODS,
    "Terminating": _FOR_PODS,
    "NotTerminating": _FOR_PODS,
    "PriorityClass": _FOR_PODS,
    "CrossNamespacePodAffinity": _FOR_PODS,
    "VolumeAttributesClass": _FOR_CLAIMS,
}

_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


def _is_for_quotas(name: str) -> bool:
    known = name in COMPUTE_RESOURCES or (name in KNOWN_RESOURCES and name != "storage")
    return known or name.startswith(HUGE_PAGES)


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ResourceQuota."""
    spec = field(obj, "spec")
    _amounts(found, field(spec, "hard"), "spec.hard")
    _scopes(found, spec)
    if spec.get("scopeSelector") is not None:
        _scope_selector(found, spec)
    status = field(obj, "status")
    for key in ("hard", "used"):
        _amounts(found, field(status, key), f"status.{key}")
    if old is not None:
        scopes = spec.get("scopes") or []
        if set(scopes) != set(field(old, "spec").get("scopes") or ()):
            found.append(why.invalid("spec.scopes", scopes or None, "field is immutable"))


def _amounts(found: list[Cause], amounts: Document, path: str) -> None:
    for name, value in sorted(amounts.items()):
        here = f"{path}[{name}]"
        faults = any_resource_faults(name)
        if "/" not in name and not _is_for_quotas(name):
            faults.append("must be a standard resource for quota")
        found.extend(why.invalid(here, name, fault) for fault in faults)
        number = parse(value)
        if number < 0:
            found.append(why.invalid(here, str(value), "must be greater than or equal to 0"))
        extended = "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
        if (name in _COUNTS or extended) and number.denominator != 1:
            found.append(why.invalid(here, str(value), "must be an integer"))


def _unsuitable(scope: str, hard: Document) -> int:
    """Return how many of the limited resources a scope does not apply to."""
    suitable = _SCOPES.get(scope)
    if suitable is None:
        return 0
    return sum(_is_for_quotas(name) and name not in suitable for name in hard)


def _scopes(found: list[Cause], spec: Document) -> None:
    scopes, here = spec.get("scopes") or [], "spec.scopes"
    hard = field(spec, "hard")
    unsuitable = {scope: _unsuitable(scope, hard) for scope in set(scopes)}
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(why.invalid(here, scopes, "unsupported scope"))
        if count := unsuitable[scope]:
            detail = "unsupported scope applied to resource"
            found += [why.invalid(here, scopes, detail)] * count
    _conflicts(found, spec, scopes, here)


def _conflicts(found: list[Cause], spec: Document, scopes: list[str], path: str) -> None:
    found.extend(
        why.invalid(path, spec.get("scopes"), "conflicting scopes")
        for pair in _OPPOSITES
        if set(pair) <= set(scopes)
    )


def _as_struct(requirement: Document) -> Document:
    """Return a scope selector requirement as Go's JSON encoder prints the internal type."""
    return {
        "ScopeName": requirement.get("scopeName", ""),
        "Operator": requirement.get("operator", ""),
        "Values": requirement.get("values"),
    }


def _scope_selector(found: list[Cause], spec: Document) -> None:
    here, selector = "spec.scopeSelector.matchExpressions", spec["scopeSelector"]
    requirements = list(items(selector, "matchExpressions"))
    scopes = {each.get("scopeName", "") for each in requirements}
    unsuitable = {scope: _unsuitable(scope, field(spec, "hard")) for scope in scopes}
    for requirement in requirements:
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        if scope not in _SCOPES:
            found.append(why.invalid(f"{here}.scopeName", scope, "unsupported scope"))
        if count := unsuitable[scope]:
            shown = {"MatchExpressions": [_as_struct(each) for each in requirements]}
            detail = "unsupported scope applied to resource"
            found += [why.invalid(here, shown, detail)] * count
        if scope in _PLAIN_SCOPES and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            found.append(why.invalid(f"{here}.operator", operator, detail))
        if operator in {"In", "NotIn"}:
            if not values:
                detail = (
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
                    "selector"
                )
                found.append(why.required(f"{here}.values", detail))
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                detail = (
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
                    "selector"
                )
                found.append(why.invalid(f"{here}.values", values, detail))
        else:
            detail = "not a valid selector operator"
            found.append(why.invalid(f"{here}.operator", operator, detail))
    _conflicts(found, spec, [each.get("scopeName", "") for each in requirements], here)


STRATEGY = Strategy(
    columns="Name Request Limit Age",
    row=_row,
    validate=_validate,
)
