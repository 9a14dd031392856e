"""FlowSchemas: stored; this server answers all requests as they come.

Rules: ``pkg/apis/flowcontrol`` of Kubernetes (``v1/defaults.go``, ``validation/validation.go``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, conditions_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["EXEMPT", "STRATEGY", "condition_types"]

EXEMPT = "exempt"
"""Name of the FlowSchema and of the priority level that nothing limits."""

_MAX_PRECEDENCE = 10_000
_EVERYTHING: Document = {
    "resourceRules": [
        {
            "verbs": ["*"],
            "apiGroups": ["*"],
            "resources": ["*"],
            "clusterScope": True,
            "namespaces": ["*"],
        }
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _for_groups(*names: str) -> list[Document]:
    subjects = [{"kind": "Group", "group": {"name": name}} for name in names]
    return [{"subjects": subjects, **_EVERYTHING}]


# What upstream's server creates and keeps (``flowcontrol/bootstrap/default.go``).
_FIXED: dict[str, Document] = {
    EXEMPT: {
        "priorityLevelConfiguration": {"name": EXEMPT},
        "matchingPrecedence": 1,
        "rules": _for_groups("system:masters"),
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": _MAX_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": _for_groups("system:unauthenticated", "system:authenticated"),
    },
}
_METHODS = ("ByNamespace", "ByUser")
# The kind of a subject, and the field that describes it.
_SUBJECTS = {"ServiceAccount": "serviceAccount", "Group": "group", "User": "user"}
_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
)


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a FlowSchema."""
    spec = field(obj, "spec")
    method = spec.get("distinguisherMethod")
    return [
        name_of(obj),
        field(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence", 0),
        NONE if method is None else method.get("type", ""),
        age_of(obj, now),
        conditions_of(obj).get("Dangling", "?"),
    ]


def _default(obj: Document) -> None:
    spec = obj.setdefault("spec", {})
    if type(spec) is dict and not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a FlowSchema."""
    spec = field(obj, "spec")
    precedence, here = spec["matchingPrecedence"], "spec.matchingPrecedence"
    if precedence <= 0:
        found.append(why.invalid(here, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        detail = f"must not be greater than {_MAX_PRECEDENCE}"
        found.append(why.invalid(here, precedence, detail))
    if precedence == 1 and obj["metadata"]["name"] != EXEMPT:
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        found.append(why.invalid(here, precedence, detail))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = {"Type": method.get("type", "")}  # upstream prints the internal struct
        found.append(why.not_supported("spec.distinguisherMethod.type", shown, _METHODS))
    level = field(spec, "priorityLevelConfiguration").get("name", "")
    here = "spec.priorityLevelConfiguration.name"
    if not level:
        found.append(why.required(here, "must reference a priority level"))
    elif fault := subdomain_fault(level):
        found.append(why.invalid(here, level, fault))
    for index, rule in enumerate(items(spec, "rules")):
        _rule(found, rule, f"spec.rules[{index}]")
    name = obj["metadata"]["name"]
    if name in _FIXED and spec != _FIXED[name]:
        shown = form("flowcontrol.FlowSchemaSpec", spec)
        found.append(why.invalid("spec", shown, f"spec of '{name}' must equal the fixed value"))
    condition_types(found, obj)


def condition_types(found: list[Cause], obj: Document) -> None:
    """Validate the types of the conditions in the status."""
    seen = set()
    for index, condition in enumerate(items(obj, "status", "conditions")):
        here, kind = f"status.conditions[{index}].type", condition.get("type", "")
        if kind in seen:
            found.append(why.duplicate(here, kind))
        seen.add(kind)
        if not kind:
            found.append(why.required(here))


def _rule(found: list[Cause], rule: Document, path: str) -> None:
    subjects = list(items(rule, "subjects"))
    if not subjects:
        found.append(why.required(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(subjects):
        _subject(found, subject, f"{path}.subjects[{index}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        found.append(why.required(path, detail))
    for index, each in enumerate(items(rule, "resourceRules")):
        _resource_rule(found, each, f"{path}.resourceRules[{index}]")
    for index, each in enumerate(items(rule, "nonResourceRules")):
        _url_rule(found, each, f"{path}.nonResourceRules[{index}]")


def _subject(found: list[Cause], subject: Document, path: str) -> None:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        found.append(why.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS)))
        return
    own = _SUBJECTS[kind]
    here, described = f"{path}.{own}", subject.get(own)
    if described is None:
        found.append(why.required(here, f"{own} is required when subject kind is '{kind}'"))
    else:
        name = described.get("name", "")
        if not name:
            found.append(why.required(f"{here}.name"))
        elif kind == "ServiceAccount" and name != "*" and (fault := subdomain_fault(name)):
            found.append(why.invalid(f"{here}.name", name, fault))
        if kind == "ServiceAccount":
            namespace = described.get("namespace", "")
            if not namespace:
                detail = "must specify namespace for service account"
                found.append(why.required(f"{here}.namespace", detail))
            elif fault := label_fault(namespace):
                found.append(why.invalid(f"{here}.namespace", namespace, fault))
    for other, key in (("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")):
        if key != own and subject.get(key) is not None:
            detail = f"{key} is forbidden when subject kind is not '{other}'"
            found.append(why.forbidden(f"{path}.{key}", detail))


def _resource_rule(found: list[Cause], rule: Document, path: str) -> None:
    _verbs(found, rule, path)
    for key, word in (("apiGroups", "api group"), ("resources", "resource")):
        values = rule.get(key) or []
        if not values:
            detail = f"resource rules must supply at least one {word}"
            found.append(why.required(f"{path}.{key}", detail))
        else:
            _alone(found, values, f"{path}.{key}", f"{word}s")
    namespaces, here = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        found.append(why.required(here, detail))
    elif "*" in namespaces:
        _alone(found, namespaces, here, "namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for index, namespace in enumerate(namespaces):
            if fault := label_fault(namespace):
                found.append(why.invalid(f"{here}[{index}]", namespace, intro + fault))


def _url_rule(found: list[Cause], rule: Document, path: str) -> None:
    _verbs(found, rule, path)
    urls, here = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not urls:
        found.append(why.required(here, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        _alone(found, urls, here, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if fault := _url_fault(url):
                found.append(why.invalid(f"{here}[{index}]", url, fault))


def _verbs(found: list[Cause], rule: Document, path: str) -> None:
    verbs, here = rule.get("verbs") or [], f"{path}.verbs"
    if not verbs:
        found.append(why.required(here, "verbs must contain at least one value"))
    elif "*" in verbs:
        _alone(found, verbs, here, "verbs")
    elif not set(verbs) <= set(_VERBS):
        found.append(why.not_supported(here, verbs, _VERBS))


def _alone(found: list[Cause], values: list[str], path: str, word: str) -> None:
    """Refuse what is listed beside the wildcard."""
    if "*" in values and len(values) > 1:
        detail = f"if '*' is present, must not specify other {word}"
        found.append(why.invalid(path, values, detail))


def _url_fault(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


STRATEGY = Strategy(
    columns="Name PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL",
    row=_row,
    default=_default,
    validate=_validate,
)
