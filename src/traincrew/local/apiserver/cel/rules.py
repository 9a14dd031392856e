"""CEL rules of custom resources: ``x-kubernetes-validations``.

The expressions run in the Rust CEL interpreter of the ``common-expression-language`` package.
The semantics around it (escaped names, transition rules, correlation of old and new, messages) are
those of ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``. Cost limits are not enforced:
this server runs for one user, on that user's machine.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.paths import Key, Path, render

from .library import FUNCTIONS
from .source import CelSyntaxError, escape, faults, rename_functions, tokens, uses
from .values import convert, interpreter, needs_conversion, open_names, sample

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["CelRules", "compilation_fault", "compile_rules", "evaluate"]

Schema = dict[str, Any]

_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
_ABSENT: Any = object()
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


class _Expression:
    """A compiled expression and the functions it calls."""

    def __init__(self, source: str) -> None:
        self._program = interpreter().compile(rename_functions(source))
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
    """A place in the schema that has rules, or has places with rules below it."""

    schema: Schema
    rules: list[_Rule]
    fields: dict[str, _Node]
    items: _Node | None
    values: _Node | None
    convert: bool
    keys: tuple[str, ...]
    functions: dict[str, Any]


@lru_cache(maxsize=256)
def _compiled(source: str) -> _Expression:
    return _Expression(source)


def evaluate(source: str, variables: dict[str, Any]) -> Any:
    """Evaluate an expression on plain documents.

    Raises:
        ValueError: The source is not an expression, or it cannot be evaluated on these variables.
    """
    try:
        expression = _compiled(source)
        return expression.run(_context(variables, expression.functions))
    except _ERRORS as error:
        raise ValueError(_reword(error)) from None


def compilation_fault(source: str) -> str:
    """Return why an expression on plain documents cannot be compiled; empty if it can."""
    try:
        _compiled(source)
    except (CelSyntaxError, *_ERRORS) as error:
        return f"compilation failed: ERROR: {error}"
    return ""


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
        """Return the causes of the rules that an object breaks.

        Args:
            obj: the object, valid by its schema.
            old: the stored object when this is an update; without it transition rules (those
                that use ``oldSelf``) do not apply.
        """
        found: list[Cause] = []
        if self._root is not None:
            _walk(self._root, obj, _ABSENT if old is None else old, None, found)
        return found


# --- compiling ----------------------------------------------------------------------------------


def compile_rules(open_api_v3_schema: Schema) -> CelRules:
    """Compile every rule of a schema; ``CelRules.faults`` has those that do not compile."""
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
    """Return the root schema as rules see it: of metadata only name and generateName."""
    names = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
    own = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": names}
    declared = {key: item for key, item in schema.get("properties", {}).items() if key not in own}
    return {**schema, "properties": {**declared, **own}}


def _compile(schema: Schema, path: str, uncorrelatable: str, found: list[Cause]) -> _Node | None:
    """Compile the rules of a schema and of the schemas below it.

    Args:
        schema: the schema.
        path: its path below ``openAPIV3Schema``.
        uncorrelatable: path of an enclosing list whose items have no key, so that there is no old
            value to compare with; empty when there is none.
        found: causes, extended in place.
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
    functions: dict[str, Any] = {}
    for rule in rules:
        functions |= rule.expression.functions
        if rule.message_expression is not None:
            functions |= rule.message_expression.functions
    return _Node(schema, rules, fields, items, values, needs_conversion(schema), keys, functions)


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
    """Evaluate an expression once on a sample value of its schema, to find type errors.

    The sample has every type the schema declares, so a type error here occurs for every value.
    Where the schema leaves a type open, nothing is checked.
    """
    if "optional" in source or "hasValue" in source:
        return []
    names = {token.text for token in tokens(source) if token.kind == "name"}
    schema = _referenced(schema, names)  # a pod template has a thousand fields, a rule uses a few
    if not names.isdisjoint(open_names(schema, "self")):
        return []
    value = convert(schema, sample(schema))
    try:
        expression.run(_context({"self": value, "oldSelf": value}, expression.functions))
    except TypeError as error:
        return [f"found no matching overload: {str(error).partition(' CEL ')[0]}"]
    except _ERRORS:
        pass  # depends on the value
    return []


def _referenced(schema: Schema, names: set[str]) -> Schema:
    """Return the part of a schema that an expression can reach with the names it uses."""
    referenced = dict(schema)
    if properties := schema.get("properties"):
        referenced["properties"] = {
            key: _referenced(item, names)
            for key, item in properties.items()
            if escape(key) in names
        }
    for key in ("items", "additionalProperties"):
        if type(schema.get(key)) is dict:
            referenced[key] = _referenced(schema[key], names)
    return referenced


# --- evaluating ---------------------------------------------------------------------------------


class _Evaluation:
    """One place in an object and the CEL contexts its rules share, each built once."""

    def __init__(self, node: _Node, value: Any, old: Any) -> None:
        self.node = node
        self.value = value
        self.old = _ABSENT if old is None else old

    def _converted(self, value: Any) -> Any:
        return convert(self.node.schema, value) if self.node.convert else value

    @cached_property
    def plain(self) -> Any:
        """The context of rules that use self, and oldSelf if there is an old value."""
        variables = {"self": self._converted(self.value)}
        if self.old is not _ABSENT:
            variables["oldSelf"] = self._converted(self.old)
        return _context(variables, self.node.functions)

    @cached_property
    def optional(self) -> Any:
        """The context of rules with ``optionalOldSelf``."""
        kind = interpreter().OptionalValue
        old = kind.none() if self.old is _ABSENT else kind.of(self._converted(self.old))
        return _context({"self": self._converted(self.value), "oldSelf": old}, self.node.functions)

    def of(self, rule: _Rule) -> Any:
        """Return the context of a rule."""
        return self.optional if rule.optional_old else self.plain


def _context(variables: dict[str, Any], functions: dict[str, Any]) -> Any:
    return interpreter().Context(variables=variables, functions=functions)


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
    """Return the old items of a list by key; empty if its items have no keys."""
    if not node.keys or type(old) is not list:
        return {}
    return {_key(node, item): item for item in old}


def _apply(node: _Node, value: Any, old: Any, path: Path, found: list[Cause]) -> None:
    evaluation = _Evaluation(node, value, old)
    unchanged = old is not _ABSENT and old == value
    for rule in node.rules:
        if rule.transition:
            if evaluation.old is _ABSENT and not rule.optional_old:
                continue
        elif unchanged:
            continue  # ratcheting: the stored value breaks the rule in the same way
        try:
            result = rule.expression.run(evaluation.of(rule))
        except _ERRORS as error:
            found.append(_evaluation_fault(rule, error, node, path))
            continue
        if result is not True:
            found.append(_violation(rule, evaluation, path))


def _type_name(node: _Node) -> str:
    return node.schema.get("type") or "any"


def _reword(error: Exception) -> str:
    """Translate an error of the interpreter into cel-go's message."""
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


def _violation(rule: _Rule, evaluation: _Evaluation, path: Path) -> Cause:
    where = render(path)
    if rule.field_path:
        where = (where + rule.field_path).lstrip(".")
    detail = rule.message or f"failed rule: {rule.source}"
    if rule.message_expression is not None:
        try:
            text = rule.message_expression.run(evaluation.of(rule))
        except _ERRORS:
            text = ""
        if type(text) is str and text.strip() and "\n" not in text:
            detail = text.strip()
    where = where or "<nil>"
    if rule.reason == "FieldValueForbidden":
        return why.forbidden(where, detail)
    if rule.reason == "FieldValueRequired":
        return why.required(where, detail)
    # Objects and lists are not repeated in the message.
    whole = _type_name(evaluation.node) in {"object", "array"}
    if rule.reason == "FieldValueDuplicate":
        text = "Duplicate value" if whole else f"Duplicate value: {why.show(evaluation.value)}"
        return why.Cause(rule.reason, text, where)
    value = "" if whole else f"{why.show(evaluation.value)}: "
    return why.Cause("FieldValueInvalid", f"Invalid value: {value}{detail}", where)
