"""What policies and their bindings share: the rules for what they match.

Rules and messages: ``pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.meta import label_selector, path_segment_fault
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_1035_fault, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "default_binding",
    "default_policy",
    "mutable_operations",
    "shown_kind",
    "shown_parameter",
    "validate_binding",
    "validate_policy",
]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
_FAILURE_POLICIES = ("Fail", "Ignore")
_SCOPES = ("*", "Cluster", "Namespaced")
_RULES = ("resourceRules", "excludeResourceRules")


def _default_matching(matching: Any) -> None:
    """Fill in the defaults of ``matchConstraints`` or ``matchResources``, in place."""
    if type(matching) is not dict:
        return
    matching.setdefault("matchPolicy", "Equivalent")
    matching.setdefault("namespaceSelector", {})
    matching.setdefault("objectSelector", {})
    for key in _RULES:
        for rule in items(matching, key):
            rule.setdefault("scope", "*")


def _validate_matching(found: list[Cause], matching: Document | None, path: str) -> None:
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


def _validate_param_ref(found: list[Cause], reference: Document | None, path: str) -> None:
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


# -- policies and bindings


def default_policy(obj: Document) -> None:
    """Fill in the defaults of a policy, in place."""
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("failurePolicy", "Fail")
        _default_matching(spec.get("matchConstraints"))


def default_binding(obj: Document) -> None:
    """Fill in the defaults of a binding, in place."""
    spec = obj.get("spec")
    if type(spec) is dict:
        _default_matching(spec.get("matchResources"))


def shown_kind(spec: Document) -> str:
    """Return the cell of the ``paramKind`` of a policy."""
    kind = spec.get("paramKind")
    if kind is None:
        return "<unset>"
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def shown_parameter(spec: Document) -> str:
    """Return the cell of the ``paramRef`` of a binding."""
    reference = spec.get("paramRef")
    if reference is None:
        return "<unset>"
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    if (selector := reference.get("selector")) is not None:
        return _shown_selector(selector)
    return "<unset>"


def _shown_selector(selector: Document) -> str:
    """Return a selector as upstream prints it here: its Go type."""
    labels = "".join(
        f"{key}: {value}," for key, value in sorted(field(selector, "matchLabels").items())
    )
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in items(selector, "matchExpressions")
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def validate_policy(found: list[Cause], spec: Document) -> None:
    """Validate what both kinds of policies have, except their expressions."""
    failure = spec.get("failurePolicy")
    if failure not in _FAILURE_POLICIES:
        found.append(why.not_supported("spec.failurePolicy", failure, _FAILURE_POLICIES))
    if (kind := spec.get("paramKind")) is not None:
        _param_kind(found, kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        found.append(why.required("spec.matchConstraints"))
    else:
        _validate_matching(found, constraints, "spec.matchConstraints")
        if not items(constraints, "resourceRules"):
            found.append(why.required("spec.matchConstraints.resourceRules"))


def _param_kind(found: list[Cause], kind: Document, path: str) -> None:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    here = f"{path}.apiVersion"
    if not api_version:
        found.append(why.required(here))
    elif api_version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {api_version}"
        found.append(why.invalid(here, api_version, detail))
    else:
        group, _, version = api_version.rpartition("/")
        if group and (fault := subdomain_fault(group)):
            found.append(why.invalid(here, group, fault))
        if not version:
            found.append(why.invalid(here, api_version, "version must be specified"))
        elif fault := label_1035_fault(version):
            found.append(why.invalid(here, version, fault))
    if not name:
        found.append(why.required(f"{path}.kind"))
    elif fault := label_1035_fault(name.lower()):
        detail = f"may have mixed case, but should otherwise match: {fault}"
        found.append(why.invalid(f"{path}.kind", name, detail))


def mutable_operations(found: list[Cause], matching: Document, path: str) -> None:
    """Refuse the operations that mutating policies cannot match."""
    for rule in items(matching, "resourceRules"):
        found += [
            why.not_supported(f"{path}.resourceRules.operations", each, _MUTABLE)
            for each in rule.get("operations") or ()
            if each not in _MUTABLE
        ]


def validate_binding(found: list[Cause], spec: Document) -> None:
    """Validate what both kinds of bindings have."""
    if not (name := spec.get("policyName")):
        found.append(why.required("spec.policyName"))
    elif fault := subdomain_fault(name):
        found.append(why.invalid("spec.policyName", name, fault))
    _validate_param_ref(found, spec.get("paramRef"), "spec.paramRef")
    _validate_matching(found, spec.get("matchResources"), "spec.matchResources")
