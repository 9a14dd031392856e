"""CEL rules of custom resources: ``x-kubernetes-validations``.

The expressions run in the Rust CEL interpreter of the ``common-expression-language`` package.
Semantics around it (escaped names, transition rules, correlation of old and new, messages) are
those of ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``. Cost limits are not enforced:
this server runs for one user, on that user's machine.
"""

from __future__ import annotations

import importlib.util
import logging
from datetime import UTC, date, datetime, time
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import msgspec

from . import causes as why
from .cel_library import FUNCTIONS
from .cel_source import CelSyntaxError, escape, faults, rename_functions, tokens, uses
from .paths import Key, Path, render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .causes import Cause

__all__ = ["CelRules", "compile_rules"]

Document = dict[str, Any]
Schema = dict[str, Any]

_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
_ABSENT: Any = object()
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


@cache
def _interpreter() -> Any:
    """The extension module of the CEL package.

    The package itself imports its command line tool, which takes half a second; the module beside
    it needs none of that.
    """
    package = importlib.util.find_spec("cel")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("cel", list(places or ()))
    if spec is None or spec.loader is None:
        raise ImportError("the package common-expression-language is not installed completely")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A function that refuses its arguments is an answer here, not an incident.
    logging.getLogger("cel").addHandler(logging.NullHandler())
    logging.getLogger("cel").propagate = False
    return module


class _Expression:
    """A compiled expression and the functions it calls."""

    def __init__(self, source: str) -> None:
        self._program = _interpreter().compile(rename_functions(source))
        called = set(self._program.functions())
        self.functions = {
            _registered(name): function
            for name, function in FUNCTIONS.items()
            if _registered(name).rpartition(".")[2] in called
        }

    def run(self, context: Any) -> Any:
        return self._program.execute(context)


def _registered(name: str) -> str:
    return {"size": "size_of_value"}.get(name, name)


class _Rule(msgspec.Struct):
    """One entry of ``x-kubernetes-validations``."""

    source: str
    expression: _Expression
    message: str
    message_expression: _Expression | None
    reason: str
    field_path: str
    transition: bool
    optional_old: bool

    def describe(self) -> str:
        return self.message or self.source


class _Node(msgspec.Struct):
    """A place in the schema that has rules, or has some below it."""

    schema: Schema
    rules: list[_Rule]
    fields: dict[str, _Node]
    items: _Node | None
    values: _Node | None
    convert: bool
    keys: tuple[str, ...]


class CelRules:
    """The compiled rules of one schema.

    Attributes:
        faults: rules that cannot be compiled, as causes for the definition that has them; their
            fields are paths below ``openAPIV3Schema``.
    """

    def __init__(self, root: _Node | None, found: list[Cause]) -> None:
        self._root = root
        self.faults = found

    def __bool__(self) -> bool:
        return self._root is not None

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """What the rules find wrong with an object.

        Args:
            obj: the object, valid by its schema.
            old: the stored object when this is an update; without it rules about ``oldSelf`` do
                not apply.
        """
        found: list[Cause] = []
        if self._root is not None:
            _walk(self._root, obj, _ABSENT if old is None else old, None, found)
        return found


# --- compiling ----------------------------------------------------------------------------------


def compile_rules(open_api_v3_schema: Schema) -> CelRules:
    """Compile every rule of a schema; see ``CelRules.faults`` for what does not compile."""
    found: list[Cause] = []
    if not _has_rules(open_api_v3_schema):
        return CelRules(None, found)
    schema = _with_metadata(open_api_v3_schema)
    return CelRules(_compile(schema, "", "", found), found)


def _has_rules(schema: Any) -> bool:
    if type(schema) is dict:
        return "x-kubernetes-validations" in schema or any(map(_has_rules, schema.values()))
    return type(schema) is list and any(map(_has_rules, schema))


_TEXT: Schema = {"type": "string"}


def _with_metadata(schema: Schema) -> Schema:
    """The root as rules see it: of metadata, name and generateName only."""
    names = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
    own = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": names}
    declared = {key: item for key, item in schema.get("properties", {}).items() if key not in own}
    return {**schema, "properties": {**declared, **own}}


def _compile(schema: Schema, path: str, uncorrelatable: str, found: list[Cause]) -> _Node | None:
    """The rules of a schema and those below it.

    Args:
        schema: where.
        path: below ``openAPIV3Schema``.
        uncorrelatable: path of the list above whose items have no identity, so that there is no
            old value for them; empty when there is none.
        found: faults, extended in place.
    """
    rules: list[_Rule] = []
    for index, entry in enumerate(schema.get("x-kubernetes-validations") or ()):
        here = f"{path}.x-kubernetes-validations[{index}]"
        rule = _compile_rule(entry, schema, here, uncorrelatable, found)
        if rule is not None:
            rules.append(rule)
    fields: dict[str, _Node] = {}
    for key, item in (schema.get("properties") or {}).items():
        if type(item) is dict and _has_rules(item):
            node = _compile(item, f"{path}.properties[{key}]", uncorrelatable, found)
            if node is not None:
                fields[key] = node
    items = values = None
    inner = schema.get("items")
    if type(inner) is dict and _has_rules(inner):
        lost = "" if schema.get("x-kubernetes-list-type") == "map" else path
        items = _compile(inner, f"{path}.items", uncorrelatable or lost, found)
    inner = schema.get("additionalProperties")
    if type(inner) is dict and _has_rules(inner):
        values = _compile(inner, f"{path}.additionalProperties", uncorrelatable, found)
    if not rules and not fields and items is None and values is None:
        return None
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return _Node(schema, rules, fields, items, values, _needs_conversion(schema), keys)


def _compile_rule(
    entry: Any, schema: Schema, path: str, uncorrelatable: str, found: list[Cause]
) -> _Rule | None:
    count = len(found)
    source = (entry.get("rule") or "").strip()
    message = (entry.get("message") or "").strip()
    _check_texts(entry, source, message, path, found)
    field_path = entry.get("fieldPath")
    if field_path and not _is_field(schema, field_path):
        found.append(why.invalid(f"{path}.fieldPath", field_path, "must be a valid path"))
    if not source or len(found) > count:
        return None
    optional = entry.get("optionalOldSelf")
    expression = _check_expression(source, schema, bool(optional), f"{path}.rule", found)
    message_source = (entry.get("messageExpression") or "").strip()
    message_expression = None
    if message_source:
        here = f"{path}.messageExpression"
        message_expression = _check_expression(message_source, schema, bool(optional), here, found)
    transition = expression is not None and uses(source, "oldSelf")
    if transition and uncorrelatable:
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"openAPIV3Schema{uncorrelatable}"
        )
        found.append(why.invalid(f"{path}.rule", source, detail))
    if optional is not None and expression is not None and not transition:
        detail = "may not be set if oldSelf is not used in rule"
        found.append(why.invalid(f"{path}.optionalOldSelf", optional, detail))
    if expression is None or len(found) > count:
        return None
    return _Rule(
        source,
        expression,
        message,
        message_expression,
        entry.get("reason") or "FieldValueInvalid",
        entry.get("fieldPath") or "",
        transition,
        bool(optional),
    )


def _check_texts(entry: Document, source: str, message: str, path: str, found: list[Cause]) -> None:
    """What must hold of a rule's texts, whatever the expression says."""
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
    """Whether a path such as ``.spec.replicas`` or ``.labels['x']`` leads to a field."""
    from .jsonpath import JsonPathError, compile_path

    if not field_path.startswith((".", "[")):
        return False
    try:
        compile_path(field_path)
    except JsonPathError:
        return False
    name = field_path.lstrip(".").split(".")[0].split("[")[0]
    return not name or name in (schema.get("properties") or {})


def _check_expression(
    source: str, schema: Schema, optional: bool, path: str, found: list[Cause]
) -> _Expression | None:
    try:
        wrong = faults(source, schema, optional_old_self=optional)
        if not wrong:
            expression = _Expression(source)
            wrong = _type_faults(expression, schema, source)
    except (CelSyntaxError, *_ERRORS) as error:
        wrong = [str(error)]
    if wrong:
        detail = "compilation failed: " + "; ".join(f"ERROR: {each}" for each in wrong)
        found.append(why.invalid(path, source, detail))
        return None
    return expression


def _type_faults(expression: _Expression, schema: Schema, source: str) -> list[str]:
    """Run an expression once on a made-up value of its schema, to find operators that do not fit.

    Such a value has every type the schema declares, so what fails here for its types fails for
    every value; where the schema leaves a type open nothing can be said.
    """
    if "optional" in source or "hasValue" in source:
        return []
    names = {token.text for token in tokens(source) if token.kind == "name"}
    schema = _reached(schema, names)  # a pod template has a thousand fields, a rule names a few
    if not names.isdisjoint(_open_names(schema, "self")):
        return []
    sample = _convert(schema, _sample(schema))
    try:
        expression.run(_context(sample, sample, expression))
    except TypeError as error:
        return [f"found no matching overload: {str(error).partition(' CEL ')[0]}"]
    except _ERRORS:
        pass  # depends on the value
    return []


def _reached(schema: Schema, names: set[str]) -> Schema:
    """The part of a schema an expression can look at with the names it uses."""
    reached = dict(schema)
    if properties := schema.get("properties"):
        reached["properties"] = {
            key: _reached(item, names) for key, item in properties.items() if escape(key) in names
        }
    for key in ("items", "additionalProperties"):
        if type(schema.get(key)) is dict:
            reached[key] = _reached(schema[key], names)
    return reached


def _open_names(schema: Schema, name: str) -> Iterator[str]:
    """Names of the fields that may hold values of several types."""
    if not schema.get("type") or schema.get("x-kubernetes-preserve-unknown-fields"):
        yield name
    for key, item in (schema.get("properties") or {}).items():
        yield from _open_names(item, escape(key) or "")
    for key in ("items", "additionalProperties"):
        if type(schema.get(key)) is dict:
            yield from _open_names(schema[key], name)


_SAMPLES = {"integer": 1, "number": 1.0, "boolean": True}
_FORMAT_SAMPLES = {"date-time": "2020-01-01T00:00:00Z", "date": "2020-01-01", "duration": "1s"}


def _sample(schema: Schema) -> Any:
    kind = schema.get("type")
    if kind == "object":
        extra = schema.get("additionalProperties")
        if type(extra) is dict:
            return {"a": _sample(extra)}
        return {key: _sample(item) for key, item in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [_sample(schema["items"])]
    if kind == "string":
        return (schema.get("enum") or [_FORMAT_SAMPLES.get(schema.get("format", ""), "a")])[0]
    return _SAMPLES.get(kind or "")


# --- values as CEL sees them --------------------------------------------------------------------

_CONVERTED_FORMATS = ("byte", "date", "date-time", "duration")


def _needs_conversion(schema: Any) -> bool:
    """Whether values differ in CEL: escaped names, times, doubles."""
    if type(schema) is not dict:
        return False
    if schema.get("type") == "number" or (
        schema.get("type") == "string" and schema.get("format") in _CONVERTED_FORMATS
    ):
        return True
    properties = schema.get("properties") or {}
    if any(escape(key) != key for key in properties):
        return True
    inner = [*properties.values(), schema.get("items"), schema.get("additionalProperties")]
    return any(map(_needs_conversion, inner))


def _convert(schema: Any, value: Any) -> Any:
    if type(schema) is not dict:
        return value
    kind = type(value)
    if kind is dict:
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        result = {}
        for key, item in value.items():
            if key in properties:
                name = escape(key)
                if name is not None:
                    result[name] = _convert(properties[key], item)
            else:
                result[key] = _convert(extra, item)
        return result
    if kind is list:
        return [_convert(schema.get("items"), item) for item in value]
    if kind is int and schema.get("type") == "number":
        return float(value)
    if kind is str and schema.get("type") == "string":
        return _convert_text(schema.get("format"), value)
    return value


def _convert_text(form: Any, value: str) -> Any:
    if form == "date-time":
        return datetime.fromisoformat(value.replace("z", "Z"))
    if form == "date":
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    if form == "byte":
        import base64

        return base64.b64decode(value)
    if form == "duration":
        return _interpreter().evaluate("duration(text)", {"text": value})
    return value


# --- evaluating ---------------------------------------------------------------------------------


def _context(value: Any, old: Any, expression: _Expression) -> Any:
    variables = {"self": value}
    if old is not _ABSENT:
        variables["oldSelf"] = old
    return _interpreter().Context(variables=variables, functions=expression.functions)


def _walk(node: _Node, value: Any, old: Any, path: Path, found: list[Cause]) -> None:
    if value is None:
        return
    if node.rules:
        _apply(node, value, old, path, found)
    kind = type(value)
    if kind is dict:
        before = old if type(old) is dict else {}
        for key, child in node.fields.items():
            if key in value:
                _walk(child, value[key], before.get(key, _ABSENT), (path, key), found)
        if node.values is not None:
            for key, item in value.items():
                if key not in node.fields:
                    _walk(node.values, item, before.get(key, _ABSENT), (path, Key(key)), found)
    elif kind is list and node.items is not None:
        known = _by_key(node, old)
        for index, item in enumerate(value):
            before = known.get(_key(node, item), _ABSENT) if known else _ABSENT
            _walk(node.items, item, before, (path, index), found)


def _key(node: _Node, item: Any) -> str:
    return why.show([item.get(key) for key in node.keys]) if type(item) is dict else ""


def _by_key(node: _Node, old: Any) -> dict[str, Any]:
    """The old items of a list whose items have an identity."""
    if not node.keys or type(old) is not list:
        return {}
    return {_key(node, item): item for item in old}


def _apply(node: _Node, value: Any, old: Any, path: Path, found: list[Cause]) -> None:
    unchanged = old is not _ABSENT and old == value
    ours = _convert(node.schema, value) if node.convert else value
    theirs = _ABSENT
    if old is not _ABSENT and old is not None:
        theirs = _convert(node.schema, old) if node.convert else old
    for rule in node.rules:
        before = theirs
        if rule.transition:
            if rule.optional_old:
                optional = _interpreter().OptionalValue
                before = optional.none() if theirs is _ABSENT else optional.of(theirs)
            elif theirs is _ABSENT:
                continue
        elif unchanged:
            continue  # ratcheting: it was stored like this
        try:
            result = rule.expression.run(_context(ours, before, rule.expression))
        except _ERRORS as error:
            found.append(_evaluation_fault(rule, error, node, path))
            continue
        if result is not True:
            found.append(_violation(rule, ours, before, node, path))


def _type_name(node: _Node) -> str:
    return node.schema.get("type") or "any"


def _reword(error: Exception) -> str:
    """An error of the interpreter in the words of cel-go."""
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, TypeError):
        return "no such overload"
    return str(error).partition(". Check ")[0]


def _evaluation_fault(rule: _Rule, error: Exception, node: _Node, path: Path) -> Cause:
    where = render(path) or "<nil>"
    text = _reword(error)
    if text == "no such overload":
        detail = (
            "'no such overload': call arguments did not match a supported operator, function or"
            f" macro signature for rule: {rule.describe()}"
        )
    else:
        detail = f"{text} evaluating rule: {rule.describe()}"
    return why.invalid(where, _type_name(node), detail)


def _violation(rule: _Rule, value: Any, old: Any, node: _Node, path: Path) -> Cause:
    where = render(path)
    if rule.field_path:
        where = (where + rule.field_path).lstrip(".")
    detail = rule.message or f"failed rule: {rule.source}"
    if rule.message_expression is not None:
        context = _context(value, old, rule.message_expression)
        try:
            text = rule.message_expression.run(context)
        except _ERRORS:
            text = ""
        if type(text) is str and text.strip() and "\n" not in text:
            detail = text.strip()
    where = where or "<nil>"
    if rule.reason == "FieldValueForbidden":
        return why.forbidden(where, detail)
    if rule.reason == "FieldValueRequired":
        return why.required(where, detail)
    if rule.reason == "FieldValueDuplicate":
        return why.duplicate(where, detail)
    return why.invalid(where, _type_name(node), detail)
