"""Rules for ResourceQuotas and LimitRanges (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_faults
from traincrew.local.quantity import parse

from .resources import COMPUTE_RESOURCES, KNOWN_RESOURCES, resource_name_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["limit_range", "resource_quota"]

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
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
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


def _any_resource(name: str) -> list[str]:
    """Return the errors of a resource name of any kind."""
    faults = list(qualified_name_faults(name))
    known = name in COMPUTE_RESOURCES or name in KNOWN_RESOURCES or name.startswith(_HUGE_PAGES)
    if not faults and "/" not in name and not known:
        faults.append("must be a standard resource type or fully qualified")
    return faults


def _is_for_quotas(name: str) -> bool:
    known = name in COMPUTE_RESOURCES or (name in KNOWN_RESOURCES and name != "storage")
    return known or name.startswith(_HUGE_PAGES)


# --- quotas ---------------------------------------------------------------------------------------


def resource_quota(found: list[Cause], obj: Document, old: Document | None) -> None:
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
        faults = _any_resource(name)
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


# --- limit ranges ---------------------------------------------------------------------------------

_TYPES = frozenset(("Container", "PersistentVolumeClaim", "Pod"))
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def limit_range(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a LimitRange."""
    seen: set[str] = set()
    for index, limit in enumerate(items(obj, "spec", "limits")):
        here, kind = f"spec.limits[{index}]", limit.get("type", "")
        faults = list(qualified_name_faults(kind))
        if not faults and "/" not in kind and kind not in _TYPES:
            faults.append("must be a standard limit type or fully qualified")
        found.extend(why.invalid(f"{here}.type", kind, fault) for fault in faults)
        if kind in seen:
            found.append(why.duplicate(f"{here}.type", kind))
        seen.add(kind)
        _names(found, limit, kind, here)
        names = {name for key in _bounds(kind) for name in field(limit, key)}
        for name in sorted(names):
            _order(found, limit, name, here)


def _bounds(kind: str) -> Iterator[str]:
    """Yield the fields that apply to a type of limit."""
    return (key for key in _BOUNDS if kind != "Pod" or not key.startswith("default"))


def _names(found: list[Cause], limit: Document, kind: str, path: str) -> None:
    rule = resource_name_faults if kind in {"Pod", "Container"} else _any_resource
    for key in _BOUNDS:
        if kind == "Pod" and key.startswith("default"):
            if limit.get(key):
                detail = "may not be specified when `type` is 'Pod'"
                found.append(why.forbidden(f"{path}.{key}", detail))
            continue
        if key == _BOUNDS[-1] and kind == "PersistentVolumeClaim":
            named = {*field(limit, "min"), *field(limit, "max")}
            if "storage" not in named:
                detail = (
                    "either minimum or maximum storage value is required, but neither was provided"
                )
                found.append(why.required(f"{path}.limits", detail))
        for name in sorted(field(limit, key)):
            place = f"{path}.{key}[{name}]"
            found.extend(why.invalid(place, name, fault) for fault in rule(name))


def _order(found: list[Cause], limit: Document, name: str, path: str) -> None:
    """Check the order of the bounds of one resource (min, defaults, max)."""
    kind = limit.get("type", "")
    values = {
        key: (text, parse(text))
        for key in _bounds(kind)
        if (text := field(limit, key).get(name)) is not None
    }

    def compare(low: str, high: str, place: str, shown: str, detail: str) -> None:
        if low in values and high in values and values[low][1] > values[high][1]:
            text = detail.format(values[low][0], values[high][0])
            found.append(why.invalid(f"{path}.{place}[{name}]", values[shown][0], text))

    compare("min", "max", "min", "min", "min value {} is greater than max value {}")
    given = "defaultRequest"
    detail = "min value {} is greater than default request value {}"
    compare("min", given, given, given, detail)
    compare(given, "max", given, given, "default request value {} is greater than max value {}")
    detail = "default request value {} is greater than default limit value {}"
    compare(given, "default", given, given, detail)
    compare("min", "default", "default", "min", "min value {} is greater than default value {}")
    compare("default", "max", "default", "max", "default value {} is greater than max value {}")
    _ratio(found, values, f"{path}.maxLimitRequestRatio[{name}]")
    alike = "default" in values and given in values and values["default"][1] != values[given][1]
    if alike and ("/" in name or name.startswith("hugepages-")):
        detail = (
            f"default value {values['default'][0]} must equal to defaultRequest value "
            f"{values[given][0]} in {name}"
        )
        found.append(why.invalid(f"{path}.{given}[{name}]", values[given][0], detail))


def _ratio(found: list[Cause], values: dict[str, tuple[str, Any]], path: str) -> None:
    if "maxLimitRequestRatio" not in values:
        return
    text, ratio = values["maxLimitRequestRatio"]
    if ratio < 1:
        found.append(why.invalid(path, text, f"ratio {text} is less than 1"))
    least, most = values.get("min"), values.get("max")
    if least is not None and most is not None and least[1] and ratio > most[1] / least[1]:
        detail = f"ratio {text} is greater than max/min = {float(most[1] / least[1]):f}"
        found.append(why.invalid(path, text, detail))
