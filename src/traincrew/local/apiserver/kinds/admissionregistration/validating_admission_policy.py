"""ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_1035_fault, subdomain_fault

from .expressions import validate_expressions
from .matching import default_matching, validate_matching

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_POLICIES = ("Fail", "Ignore")


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a policy."""
    spec = field(obj, "spec")
    kind = spec.get("paramKind")
    shown = "<unset>"
    if kind is not None:
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    return [name_of(obj), len(spec.get("validations") or ()), shown, age_of(obj, now)]


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("failurePolicy", "Fail")
        default_matching(spec.get("matchConstraints"))


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a policy; one whose spec has not changed is not compiled again."""
    spec = field(obj, "spec")
    if old is not None and field(old, "spec") == spec:
        return
    failure = spec.get("failurePolicy")
    if failure not in _POLICIES:
        found.append(why.not_supported("spec.failurePolicy", failure, _POLICIES))
    if (kind := spec.get("paramKind")) is not None:
        _param_kind(found, kind, "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        found.append(why.required("spec.matchConstraints"))
    else:
        validate_matching(found, constraints, "spec.matchConstraints")
        if not items(constraints, "resourceRules"):
            found.append(why.required("spec.matchConstraints.resourceRules"))
    validate_expressions(found, obj, spec)


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


STRATEGY = Strategy(
    columns="Name Validations:integer ParamKind Age",
    row=_row,
    default=_default,
    validate=_validate,
)
