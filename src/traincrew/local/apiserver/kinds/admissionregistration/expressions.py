"""The CEL expressions of a policy, compiled: what is wrong with them, and what evaluates them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.apiserver.cel.admission import (
    OBJECT,
    PATCHES,
    CompilationError,
    Program,
    Scope,
)
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import decode, encode
from traincrew.local.apiserver.values.documents import field as part_of
from traincrew.local.apiserver.values.documents import items
from traincrew.local.apiserver.values.names import qualified_name_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.cel.celtypes import Type
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "MAX_SOURCE",
    "Expressions",
    "compile_in",
    "compiled",
    "compiles",
    "mutation_source",
    "source_size",
    "validate_expressions",
    "validated",
]

MAX_SOURCE = 30_000
"""Characters of all expressions of a policy: compiling takes microseconds for each."""

_MAX_CONDITIONS = 64
_MAX_AUDIT_ANNOTATIONS = 20
_MAX_AUDIT_EXPRESSION = 5 * 1024
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package"
        " namespace return var void while",
    )
)

Compiled = Program | CompilationError


class Expressions(Struct, frozen=True):
    """The expressions of a policy, in the order of its spec: programs, or why there is none.

    Attributes:
        conditions: those of ``matchConditions``.
        variables: by name.
        validations: those of ``validations``.
        messages: their ``messageExpression``; None without one.
        annotations: those of ``auditAnnotations``.
        mutations: those of ``mutations``, of a mutating policy.
    """

    conditions: list[Compiled] = field(default_factory=list)
    variables: dict[str, Compiled] = field(default_factory=dict)
    validations: list[Compiled] = field(default_factory=list)
    messages: list[Compiled | None] = field(default_factory=list)
    annotations: list[Compiled] = field(default_factory=list)
    mutations: list[Compiled] = field(default_factory=list)

    def faults(self) -> Iterator[str]:
        """Yield why expressions do not compile; variables fail only where they are used."""
        found = [*self.conditions, *self.validations, *self.messages, *self.annotations]
        yield from (str(each) for each in found if isinstance(each, CompilationError))


def compiled(spec: Document) -> Expressions:
    """Compile the expressions of the ``spec`` of a policy; cached by its content."""
    return _compiled(encode(spec))


@lru_cache(maxsize=64)
def _compiled(spec: bytes) -> Expressions:
    return compile_in(decode(spec))


def compile_in(spec: Document, **types: Type) -> Expressions:
    """Compile the expressions of a policy with these types of objects and parameters."""
    conditions = Scope(params=bool(spec.get("paramKind")), **types)
    scope = Scope(params=bool(spec.get("paramKind")), **types)
    found = Expressions()
    for each in items(spec, "matchConditions"):
        found.conditions.append(_attempt(conditions, _text(each, "expression").strip(), "bool"))
    for each in items(spec, "variables"):
        try:
            program: Compiled = scope.declare(_text(each, "name"), _text(each, "expression"))
        except CompilationError as error:
            program = error
        found.variables[_text(each, "name")] = program
    for each in items(spec, "validations"):
        found.validations.append(_attempt(scope, _text(each, "expression"), "bool"))
        source = _text(each, "messageExpression")
        message = _attempt(scope, source, "string", authorizer=False) if source.strip() else None
        found.messages.append(message)
    for each in items(spec, "auditAnnotations"):
        source = _text(each, "valueExpression").strip()
        found.annotations.append(_attempt(scope, source, "string", "null_type"))
    for each in items(spec, "mutations"):
        returned = PATCHES if each.get("patchType") == "JSONPatch" else OBJECT
        found.mutations.append(_attempt(scope, mutation_source(each), returned, messages=True))
    return found


def mutation_source(mutation: Document) -> str:
    """Return the expression of an entry of ``mutations``."""
    part = "jsonPatch" if mutation.get("patchType") == "JSONPatch" else "applyConfiguration"
    return _text(part_of(mutation, part), "expression").strip()


def _attempt(
    scope: Scope, source: str, *returned: str, authorizer: bool = True, messages: bool = False
) -> Compiled:
    try:
        return scope.compile(source, *returned, authorizer=authorizer, messages=messages)
    except CompilationError as error:
        return error


def _text(entry: Document, key: str) -> str:
    value = entry.get(key)
    return value if type(value) is str else ""


# -- rules


def validated(found: list[Cause], spec: Document) -> Expressions | None:
    """Validate match conditions and variables of a policy; return its expressions.

    Rules and messages: ``pkg/apis/admissionregistration/validation/validation.go``.

    Returns:
        None if they are too long to be compiled.
    """
    size = source_size(spec)
    if size > MAX_SOURCE:
        detail = f"all expressions have {size} characters; this server allows {MAX_SOURCE}"
        found.append(why.forbidden("spec", detail))
        return None
    programs = compiled(spec)
    _conditions(found, spec, programs)
    _variables(found, spec, programs)
    return programs


def validate_expressions(found: list[Cause], obj: Document, spec: Document) -> None:
    """Validate what a validating policy has expressions for."""
    programs = validated(found, spec)
    if programs is None:
        return
    if not items(spec, "validations") and not items(spec, "auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        found.append(why.required("spec.validations", detail))
        found.append(why.required("spec.auditAnnotations", detail))
    _validations(found, spec, programs)
    _annotations(found, obj, spec, programs)


def source_size(spec: Document) -> int:
    """Return the characters of all expressions of a policy."""
    return sum(map(len, _sources(spec)))


def _sources(spec: Document) -> Iterator[str]:
    for key in ("matchConditions", "variables", "validations", "auditAnnotations"):
        for each in items(spec, key):
            for name in ("expression", "messageExpression", "valueExpression"):
                yield _text(each, name)
    yield from map(mutation_source, items(spec, "mutations"))


def _conditions(found: list[Cause], spec: Document, programs: Expressions) -> None:
    conditions = list(items(spec, "matchConditions"))
    if len(conditions) > _MAX_CONDITIONS:
        found.append(why.too_many("spec.matchConditions", len(conditions), _MAX_CONDITIONS))
    names: set[str] = set()
    for index, each in enumerate(conditions):
        path = f"spec.matchConditions[{index}]"
        source = _text(each, "expression")
        if not source.strip():
            found.append(why.required(f"{path}.expression"))
        else:
            compiles(found, f"{path}.expression", source.strip(), programs.conditions[index])
        name = _text(each, "name")
        if not name:
            found.append(why.required(f"{path}.name"))
        faults = qualified_name_faults(name) if name else ()
        found += [why.invalid(f"{path}.name", name, fault) for fault in faults]
        if name and name in names:
            found.append(why.duplicate(f"{path}.name", name))
        names.add(name)


def _variables(found: list[Cause], spec: Document, programs: Expressions) -> None:
    for index, each in enumerate(items(spec, "variables")):
        path = f"spec.variables[{index}]"
        name, source = _text(each, "name"), _text(each, "expression")
        if not name.strip():
            found.append(why.required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            found.append(why.invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if not source.strip():
            found.append(why.required(f"{path}.expression", "expression is not specified"))
        else:
            compiles(found, f"{path}.expression", source, programs.variables[name])


def _validations(found: list[Cause], spec: Document, programs: Expressions) -> None:
    for index, each in enumerate(items(spec, "validations")):
        path = f"spec.validations[{index}]"
        source = _text(each, "expression")
        if not source.strip():
            found.append(why.required(f"{path}.expression", "expression is not specified"))
        else:
            compiles(found, f"{path}.expression", source, programs.validations[index])
        words = _text(each, "messageExpression")
        message = programs.messages[index]
        if words and message is None:
            detail = "must be non-empty if specified"
            found.append(why.invalid(f"{path}.messageExpression", words, detail))
        elif message is not None:
            compiles(found, f"{path}.messageExpression", words, message)
        text = _text(each, "message")
        if text and not text.strip():
            found.append(why.invalid(f"{path}.message", text, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", text.strip()):
            found.append(why.invalid(f"{path}.message", text, "must not contain line breaks"))
        reason = each.get("reason")
        if reason is not None and reason not in _REASONS:
            found.append(why.not_supported(f"{path}.reason", reason, _REASONS))


def _annotations(found: list[Cause], obj: Document, spec: Document, programs: Expressions) -> None:
    annotations = list(items(spec, "auditAnnotations"))
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        detail = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        found.append(why.invalid("spec.auditAnnotations", annotations, detail))
    keys: set[str] = set()
    for index, each in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        key, source = _text(each, "key"), _text(each, "valueExpression").strip()
        whole = f"{obj['metadata']['name']}/{key}"
        found += [why.invalid(f"{path}.key", whole, each) for each in qualified_name_faults(whole)]
        if not source:
            detail = "valueExpression is not specified"
            found.append(why.required(f"{path}.valueExpression", detail))
        elif len(source) > _MAX_AUDIT_EXPRESSION:
            detail = f"must not exceed {_MAX_AUDIT_EXPRESSION} bytes in length"
            found.append(why.required(f"{path}.valueExpression", detail))
        else:
            shown = each["valueExpression"]
            compiles(found, f"{path}.valueExpression", shown, programs.annotations[index])
        if key in keys:
            found.append(why.duplicate(f"{path}.key", key))
        keys.add(key)


def compiles(found: list[Cause], path: str, source: Any, program: Compiled) -> None:
    """Add a cause if an expression does not compile."""
    if isinstance(program, CompilationError):
        found.append(why.invalid(path, source, str(program)))
