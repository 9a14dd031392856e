"""Compile the CEL rules of a schema, and refuse those that a real API server refuses.

Rules and messages: apiextensions' ``pkg/apis/apiextensions/validation`` (``validation.go`` and
``cel_validation.go``) and ``pkg/apiserver/schema/cel/compilation.go``.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why

from .celtypes import BOOL, DYN, STRING, Type, assignable, of_schema, smallest
from .compiler import compile_expression
from .operators import CelError, CostExceededError
from .program import CompilationError, Program
from .rules import RUNTIME_BUDGET, CelRules, Place, Rule
from .values import needs_conversion

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "MAX_DEFINITION_SOURCE",
    "compilation_fault",
    "compile_rules",
    "evaluate",
]

Schema = dict[str, Any]

EXPRESSION_COST_LIMIT = 10_000_000
"""Estimated cost of one rule, times the values it applies to (``StaticEstimatedCostLimit``)."""

DEFINITION_COST_LIMIT = 100_000_000
"""Estimated cost of all rules of a schema (``StaticEstimatedCRDCostLimit``)."""

MAX_DEFINITION_SOURCE = 30_000
"""Characters of all rules of a schema: compiling takes microseconds for each."""

_REQUEST = 3 * 1024 * 1024
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


# -- expressions on plain documents

_CONDITION = dict.fromkeys(("object", "oldObject", "request", "authorizer"), DYN)


@lru_cache(maxsize=256)
def _compiled(source: str) -> Program:
    return compile_expression(source, _CONDITION)


def evaluate(source: str, variables: dict[str, Any]) -> Any:
    """Evaluate a match condition of a webhook on plain documents.

    Raises:
        ValueError: the source is not an expression, or it cannot be evaluated on these variables.
    """
    try:
        return _compiled(source).run(variables, RUNTIME_BUDGET)[0]
    except CostExceededError:
        raise CelError("operation cancelled: actual cost limit exceeded") from None


def compilation_fault(source: str) -> str:
    """Return why a match condition cannot be compiled; empty if it can."""
    if len(source) > MAX_DEFINITION_SOURCE:
        return f"compilation failed: must have at most {MAX_DEFINITION_SOURCE} characters"
    try:
        _compiled(source)
    except CompilationError as error:
        return f"compilation failed: {error}"
    return ""


# -- rules


def compile_rules(open_api_v3_schema: Schema) -> CelRules:
    """Compile every rule of a schema.

    ``CelRules.faults`` has those that do not compile, ``CelRules.costly`` those that cost too much.
    Both are refused in new schemas. Of stored ones, those that do not compile refuse every object.
    """
    ruled: set[int] = set()
    if not _find_rules(open_api_v3_schema, ruled):
        return CelRules(None, [])
    compiler = _Compiler(ruled)
    size = _source_size(open_api_v3_schema, ruled)
    if size > MAX_DEFINITION_SOURCE:
        detail = (
            f"all rules of a version have {size} characters; this server allows"
            f" {MAX_DEFINITION_SOURCE}"
        )
        refused = Rule("", None, fault=f"rule compiler initialization error: {detail}")
        whole = Place(open_api_v3_schema, [refused], {}, None, None, convert=False, keys=())
        return CelRules(whole, [why.forbidden(".x-kubernetes-validations", detail)])
    root = compiler.compile(_with_metadata(open_api_v3_schema), "", "", 1, 1)
    compiler.check_total()
    return CelRules(root, compiler.found, compiler.costly)


def _rules_of(schema: Schema) -> list[Any]:
    entries = schema.get("x-kubernetes-validations")
    return entries if type(entries) is list else []


def _find_rules(schema: Schema | list[Any], found: set[int]) -> bool:
    """Collect the identities of the schemas that have rules, or have rules below them."""
    ruled = type(schema) is dict and "x-kubernetes-validations" in schema
    for each in schema.values() if type(schema) is dict else schema:
        # A call for each text would take most of the time.
        if (type(each) is dict or type(each) is list) and _find_rules(each, found):
            ruled = True
    if ruled and type(schema) is dict:
        found.add(id(schema))
    return ruled


def _source_size(schema: Any, ruled: set[int]) -> int:
    """Return the characters of all rules.

    Args:
        schema: a schema, or a list of schemas.
        ruled: the schemas that may have some, as `_find_rules` has found them.
    """
    if type(schema) is list:
        return sum(_source_size(each, ruled) for each in schema)
    if id(schema) not in ruled:
        return 0
    size = sum(
        len(str(entry.get(key) or ""))
        for entry in _rules_of(schema)
        if type(entry) is dict
        for key in ("rule", "messageExpression")
    )
    return size + sum(_source_size(each, ruled) for each in schema.values())


_TEXT: Schema = {"type": "string"}


def _with_metadata(schema: Schema) -> Schema:
    """Return the root schema as rules see it: of metadata only name and generateName."""
    names = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
    own = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": names}
    declared = {key: item for key, item in schema.get("properties", {}).items() if key not in own}
    return {**schema, "properties": {**declared, **own}}


class _Compiler:
    """Compiles the rules of a schema.

    Attributes:
        found: causes, for rules that do not compile.
        costly: causes, for rules that cost too much.
        total: estimated cost of all rules.
        expensive: those that contribute most to it.
    """

    def __init__(self, ruled: set[int]) -> None:
        self.ruled = ruled
        self.converted: dict[int, bool] = {}
        self.found: list[Cause] = []
        self.costly: list[Cause] = []
        self.total = 0.0
        self.expensive: list[tuple[float, str]] = []

    def compile(
        self, schema: Schema, path: str, lost: str, count: float, largest: float
    ) -> Place | None:
        """Compile the rules of a schema and of the schemas below it.

        Args:
            schema: the schema.
            path: its path below ``openAPIV3Schema``.
            lost: path of an enclosing list whose items have no key, so that there is no old value
                to compare with; empty when there is none.
            count: how many values of this schema an object may have; infinite if any number.
            largest: how many fit into a request; 1 outside of lists and maps.
        """
        rules: list[Rule] = []
        entries = _rules_of(schema)
        if entries:
            values = (
                count if count != math.inf else min(_REQUEST // (smallest(schema) + 1), largest)
            )
            self_type = of_schema(schema) or DYN
            for index, entry in enumerate(entries):
                here = f"{path}.x-kubernetes-validations[{index}]"
                rule = self._rule(entry, self_type, schema, here, (lost, values))
                if rule is not None:
                    rules.append(rule)
        fields: dict[str, Place] = {}
        for key, item in (schema.get("properties") or {}).items():
            if id(item) in self.ruled:
                place = self.compile(item, f"{path}.properties[{key}]", lost, count, largest)
                if place is not None:
                    fields[key] = place
        items = values_place = None
        inner = schema.get("items")
        if type(inner) is dict and id(inner) in self.ruled:
            uncorrelatable = "" if schema.get("x-kubernetes-list-type") == "map" else path
            more = count * _bound(schema, "maxItems")
            items = self.compile(inner, f"{path}.items", lost or uncorrelatable, more, math.inf)
        inner = schema.get("additionalProperties")
        if type(inner) is dict and id(inner) in self.ruled:
            more = count * _bound(schema, "maxProperties")
            values_place = self.compile(inner, f"{path}.additionalProperties", lost, more, math.inf)
        if not rules and not fields and items is None and values_place is None:
            return None
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        converted = bool(rules) and needs_conversion(schema, self.converted)
        return Place(schema, rules, fields, items, values_place, converted, keys)

    def _rule(
        self, entry: Any, kind: Type, schema: Schema, path: str, place: tuple[str, float]
    ) -> Rule | None:
        lost, values = place
        source = (entry.get("rule") or "").strip()
        if len(self.found) > why.MAX_CAUSES:  # a response does not name more
            return Rule(source, None, fault="rule compile error: too many rules do not compile")
        message = (entry.get("message") or "").strip()
        _check_texts(entry, source, message, path, self.found)
        field_path = entry.get("fieldPath")
        if field_path and not _is_field(schema, field_path):
            self.found.append(why.invalid(f"{path}.fieldPath", field_path, "must be a valid path"))
        if not source:
            return None
        optional = entry.get("optionalOldSelf")
        old = Type("optional", (kind,), kind.size) if optional else kind
        variables = {"self": kind, "oldSelf": old}
        try:
            program = self._expression(source, variables, BOOL, f"{path}.rule", values)
        except CompilationError as error:
            return Rule(source, None, fault=f"rule compile error: {error}")
        message_source = (entry.get("messageExpression") or "").strip()
        message_program = None
        if message_source:
            here = f"{path}.messageExpression"
            with suppress(CompilationError):
                message_program = self._expression(message_source, variables, STRING, here, values)
        transition = "oldSelf" in program.names
        if transition and lost:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"openAPIV3Schema{lost}"
            )
            self.found.append(why.invalid(f"{path}.rule", source, detail))
        if optional is not None and not transition:
            detail = "may not be set if oldSelf is not used in rule"
            self.found.append(why.invalid(f"{path}.optionalOldSelf", optional, detail))
        return Rule(
            source,
            program,
            message,
            message_program,
            entry.get("reason") or "FieldValueInvalid",
            field_path or "",
            transition,
            bool(optional),
        )

    def _expression(
        self, source: str, variables: dict[str, Type], wanted: Type, path: str, values: float
    ) -> Program:
        """Compile an expression.

        Raises:
            CompilationError: it cannot be; this is among the causes already.
        """
        try:
            program = _compiled_as(wanted, source, variables)
        except CompilationError as error:
            self.found.append(why.invalid(path, _shortened(source), str(error)))
            raise
        cost = program.cost * values if program.cost else 0.0
        self.total += cost
        if cost >= DEFINITION_COST_LIMIT / 100:
            self.expensive.append((cost, path))
        if cost > EXPRESSION_COST_LIMIT:
            what = "rule" if wanted is BOOL else "messageExpression"
            detail = _cost_fault(f"estimated {what} cost", cost, EXPRESSION_COST_LIMIT)
            self.costly.append(why.forbidden(path, detail))
        return program

    def check_total(self) -> None:
        """Check the cost of all rules together."""
        if self.total <= DEFINITION_COST_LIMIT:
            return
        self.expensive.sort(key=lambda each: -each[0])
        for cost, path in self.expensive[:4]:
            name = "contributed to estimated rule cost total exceeding cost limit"
            del cost
            self.costly.append(why.forbidden(path, f"{name} for entire OpenAPIv3 schema"))
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        self.costly.append(why.forbidden("", _cost_fault(name, self.total, DEFINITION_COST_LIMIT)))


def _compiled_as(wanted: Type, source: str, variables: dict[str, Type]) -> Program:
    """Compile a rule or a message."""
    message = wanted is STRING
    try:
        program = compile_expression(source, variables)
    except CompilationError as error:
        prefix = "messageExpression " if message else ""
        raise CompilationError(f"{prefix}compilation failed: {error}") from None
    if not assignable(wanted, program.kind):
        name, kind = ("messageExpression", "string") if message else ("cel expression", "bool")
        raise CompilationError(f"{name} must evaluate to a {kind}")
    return program


def _bound(schema: Schema, key: str) -> float:
    value = schema.get(key)
    return max(value, 0) if type(value) is int else math.inf


def _cost_fault(name: str, cost: float, limit: int) -> str:
    factor = cost / limit
    shown = (
        "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    )
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems,"
        " maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _shortened(source: str) -> str:
    return source if len(source) <= 10_000 else source[:10_000] + "…"


def _check_texts(entry: Document, source: str, message: str, path: str, found: list[Cause]) -> None:
    """Check the texts of a rule, independently of what the expression does."""
    if not source:
        found.append(why.required(f"{path}.rule", "rule is not specified"))
    elif entry.get("message") and not message:
        detail = "must be non-empty if specified"
        found.append(why.invalid(f"{path}.message", entry["message"], detail))
    elif "\n" in message:
        found.append(why.invalid(f"{path}.message", message, "must not contain line breaks"))
    elif "\n" in source and not message:
        detail = "message must be specified if rule contains line breaks"
        found.append(why.required(f"{path}.message", detail))
    if entry.get("messageExpression") and not entry["messageExpression"].strip():
        detail = "messageExpression must be non-empty if specified"
        found.append(why.required(f"{path}.messageExpression", detail))
    reason = entry.get("reason")
    if reason and reason not in _REASONS:
        found.append(why.not_supported(f"{path}.reason", reason, _REASONS))


def _is_field(schema: Schema, field_path: str) -> bool:
    """Return whether a path such as ``.spec.replicas`` or ``.labels['x']`` leads to a field."""
    from traincrew.local.apiserver.values.jsonpath import JsonPathError, compile_path

    if not field_path.startswith((".", "[")):
        return False
    try:
        compile_path(field_path)
    except JsonPathError:
        return False
    name = field_path.lstrip(".").split(".")[0].split("[")[0]
    return not name or name in (schema.get("properties") or {})
