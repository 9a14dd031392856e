"""MutatingAdmissionPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

from .expressions import compiles, mutation_source, validated
from .matching import default_policy, mutable_operations, shown_kind, validate_policy

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

    from .expressions import Expressions

__all__ = ["STRATEGY"]

_REINVOCATIONS = ("IfNeeded", "Never")
_PARTS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a policy."""
    spec = field(obj, "spec")
    return [name_of(obj), len(spec.get("mutations") or ()), shown_kind(spec), age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a policy; one whose spec has not changed is not compiled again."""
    spec = field(obj, "spec")
    if old is not None and field(old, "spec") == spec:
        return
    validate_policy(found, spec)
    mutable_operations(found, field(spec, "matchConstraints"), "spec.matchConstraints")
    programs = validated(found, spec)
    mutations = list(items(spec, "mutations"))
    if not mutations:
        detail = "mutations must contain at least one item"
        found.append(why.required("spec.mutations", detail))
    _mutations(found, mutations, programs)
    policy = spec.get("reinvocationPolicy")
    if not policy:
        found.append(why.required("spec.reinvocationPolicy"))
    elif policy not in _REINVOCATIONS:
        found.append(why.not_supported("spec.reinvocationPolicy", policy, _REINVOCATIONS))


def _mutations(found: list[Cause], mutations: list[Document], programs: Expressions | None) -> None:
    """Validate the mutations, whose expressions are compiled if the rest of the policy is valid."""
    if programs is None:
        return
    for index, (mutation, program) in enumerate(zip(mutations, programs.mutations, strict=True)):
        path = f"spec.mutations[{index}]"
        kind = mutation.get("patchType")
        part = _PARTS.get(str(kind))
        if not kind:
            found.append(why.required(f"{path}.patchType"))
            continue
        if part is None:
            found.append(why.not_supported(f"{path}.patchType", kind, sorted(_PARTS)))
            continue
        other = next(each for each in _PARTS.values() if each != part)
        if mutation.get(part) is None:
            detail = f"must be specified when patchType is {kind}"
            found.append(why.required(f"{path}.{part}", detail))
        elif not (source := mutation_source(mutation)):
            found.append(why.required(f"{path}.{part}.expression"))
        else:
            compiles(found, f"{path}.{part}.expression", source, program)
        if mutation.get(other) is not None:
            detail = f"must not be specified when patchType is {kind}"
            found.append(why.invalid(f"{path}.{other}", f"{{{other}}}", detail))


STRATEGY = Strategy(
    columns="Name Mutations:integer ParamKind Age",
    row=_row,
    default=default_policy,
    validate=_validate,
)
