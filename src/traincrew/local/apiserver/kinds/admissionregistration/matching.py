"""What policies and their bindings share: the rules for what they match.

Rules and messages: ``pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.meta import label_selector, path_segment_fault
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["default_matching", "validate_matching", "validate_param_ref"]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_RULES = ("resourceRules", "excludeResourceRules")


def default_matching(matching: Any) -> None:
    """Fill in the defaults of ``matchConstraints`` or ``matchResources``, in place."""
    if type(matching) is not dict:
        return
    matching.setdefault("matchPolicy", "Equivalent")
    matching.setdefault("namespaceSelector", {})
    matching.setdefault("objectSelector", {})
    for key in _RULES:
        for rule in items(matching, key):
            rule.setdefault("scope", "*")


def validate_matching(found: list[Cause], matching: Document | None, path: str) -> None:
    """Validate ``matchConstraints`` or ``matchResources``."""
    if matching is None:
        return
    policy = matching.get("matchPolicy")
    if policy not in {"Equivalent", "Exact"}:
        found.append(why.not_supported(f"{path}.matchPolicy", policy, ["Equivalent", "Exact"]))
    for key in ("namespaceSelector", "objectSelector"):
        label_selector(found, field(matching, key), f"{path}.{key}")
    for key in _RULES:
        for index, rule in enumerate(items(matching, key)):
            _rule(found, rule, f"{path}.{key}[{index}]")


def _rule(found: list[Cause], rule: Document, path: str) -> None:
    names: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        here = f"{path}.resourceNames[{index}]"
        if fault := path_segment_fault(name):
            found.append(why.invalid(here, name, fault))
        if name in names:
            found.append(why.duplicate(here, name))
        names.add(name)
    for key, several in (
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ):
        values = rule.get(key) or []
        if not values:
            found.append(why.required(f"{path}.{key}"))
        if len(values) > 1 and "*" in values:
            detail = f"if '*' is present, must not specify other {several}"
            found.append(why.invalid(f"{path}.{key}", values, detail))
        for index, value in enumerate(values):
            if key == "operations" and value not in _OPERATIONS:
                found.append(why.not_supported(f"{path}.{key}[{index}]", value, _OPERATIONS))
            if key == "apiVersions" and not value:
                found.append(why.required(f"{path}.{key}[{index}]"))
    _resources(found, rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope", "*")
    if scope not in _SCOPES:
        found.append(why.not_supported(f"{path}.scope", scope, _SCOPES))


def _resources(found: list[Cause], resources: list[str], path: str) -> None:
    if not resources:
        found.append(why.required(path))
    whole: set[str] = set()  # x of x/*
    parts: set[str] = set()  # x of */x
    without = False
    for index, each in enumerate(resources):
        here = f"{path}[{index}]"
        if not each:
            found.append(why.required(here))
            continue
        resource, slash, part = each.partition("/")
        if not slash:
            without = each != "*"
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {each}"
            found.append(why.invalid(here, each, detail))
        if part in parts:
            detail = f"if '*/{part}' is present, must not specify {each}"
            found.append(why.invalid(here, each, detail))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(part)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        found.append(why.invalid(path, resources, detail))
    if "*" in resources and without:
        detail = "if '*' is present, must not specify other resources without subresources"
        found.append(why.invalid(path, resources, detail))


def validate_param_ref(found: list[Cause], reference: Document | None, path: str) -> None:
    """Validate ``paramRef`` of a binding."""
    if reference is None:
        return
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        if fault := path_segment_fault(name):
            found.append(why.invalid(f"{path}.name", name, fault))
        if selector is not None:
            detail = "name and selector are mutually exclusive"
            found.append(why.forbidden(f"{path}.name", detail))
    if selector is not None:
        label_selector(found, selector, f"{path}.selector")
        if name:
            detail = "name and selector are mutually exclusive"
            found.append(why.forbidden(f"{path}.selector", detail))
    if not name and selector is None:
        found.append(why.required(path, "one of name or selector must be specified"))
    action, here = reference.get("parameterNotFoundAction"), f"{path}.parameterNotFoundAction"
    if not action:
        found.append(why.required(here))
    elif action not in {"Allow", "Deny"}:
        found.append(why.not_supported(here, action, ["Deny", "Allow"]))
