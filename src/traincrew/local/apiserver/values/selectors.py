"""Label and field selectors, compiled into predicates.

Grammar and messages: ``k8s.io/apimachinery/pkg/labels`` and ``pkg/fields``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from .names import label_value_fault, qualified_name_fault
from .numbers import int64

__all__ = [
    "FieldLabels",
    "SelectorError",
    "field_selector",
    "from_label_selector",
    "label_selector",
    "selected_name",
]

Labels = Mapping[str, str]
LabelPredicate = Callable[[Labels], bool]
ObjectPredicate = Callable[[dict[str, Any]], bool]


class SelectorError(ValueError):
    """A selector that cannot be parsed, or that the kind does not support (HTTP 400)."""


def _everything(_: Any) -> bool:
    return True


def _nothing(_: Any) -> bool:
    return False


# --- labels -------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
# Tokens a requirement cannot begin with.
_NO_REQUIREMENT = frozenset({"", ",", "(", ")", "=", "==", "!=", "<", ">"})
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    """One pass over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            assert match is not None, "every character is part of some token"
            self.tokens.append(match[1])
            position = match.end()
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def error(self, detail: str) -> SelectorError:
        return SelectorError(f"unable to parse requirement: {detail}")

    def requirements(self) -> list[LabelPredicate]:
        found: list[LabelPredicate] = []
        if not self.tokens:
            return found
        while True:
            found.append(self.requirement())
            token = self.take()
            if not token:
                return found
            if token != ",":  # noqa: S105 - a token of the grammar
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if (following := self.peek()) in _NO_REQUIREMENT:
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def requirement(self) -> LabelPredicate:
        token = self.take()
        if token == "!":  # noqa: S105 - a token of the grammar, not a secret
            key = self._key(self.take())
            return lambda labels: key not in labels
        key = self._key(token)
        operator = self.peek()
        if operator in ("", ","):
            return lambda labels: key in labels
        self.take()
        if operator in ("in", "notin"):
            values = frozenset(self._values(key))
            if operator == "in":
                return lambda labels: labels.get(key) in values if key in labels else False
            return lambda labels: key not in labels or labels[key] not in values
        if operator in ("=", "==", "!="):
            value = "" if self.peek() in ("", ",") else self._value(key, self.take())
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
        if operator in ("<", ">"):
            return _numeric(key, operator, self.take())
        raise self.error(f"found '{operator}', expected: {_OPERATORS}")

    def _key(self, token: str) -> str:
        if token in ("", "(", ")", ",", "=", "==", "!=", "<", ">", "!"):
            raise self.error(f"found '{token}', expected: !, identifier, or 'end of string'")
        fault = qualified_name_fault(token)
        if fault:
            raise self.error(f'key: Invalid value: "{token}": {fault}')
        return token

    def _value(self, key: str, token: str) -> str:
        if token in ("(", ")", "=", "==", "!=", "<", ">", "!"):
            raise self.error(f"found '{token}', expected: identifier")
        fault = label_value_fault(token)
        if fault:
            raise self.error(f'values[0][{key}]: Invalid value: "{token}": {fault}')
        return token

    def _values(self, key: str) -> list[str]:
        if (token := self.take()) != "(":
            raise self.error(f"found '{token}' expected: '('")
        values: list[str] = []
        expect_value = True
        while True:
            token = self.take()
            if token == ")":  # noqa: S105 - a token of the grammar
                if expect_value:
                    values.append("")
                return values
            if token == ",":  # noqa: S105 - a token of the grammar
                if expect_value:
                    values.append("")
                expect_value = True
            elif not token:
                raise self.error("found '', expected: ',' or ')'")
            elif not expect_value:
                raise self.error(f"found '{token}', expected: ',' or ')'")
            else:
                values.append(self._value(key, token))
                expect_value = False


def _numeric(key: str, operator: str, token: str) -> LabelPredicate:
    limit = int64(token)
    if limit is None:
        raise SelectorError(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{token}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )

    def test(labels: Labels) -> bool:
        value = int64(labels.get(key, ""))
        if value is None:
            return False
        return value > limit if operator == ">" else value < limit

    return test


def _all(predicates: list[Any]) -> Callable[[Any], bool]:
    if not predicates:
        return _everything
    if len(predicates) == 1:
        only: Callable[[Any], bool] = predicates[0]
        return only
    return lambda subject: all(predicate(subject) for predicate in predicates)


@lru_cache(maxsize=1024)
def label_selector(text: str) -> LabelPredicate:
    """Compile ``a=b,c in (d,e),!f`` and the like; the empty text selects everything.

    Raises:
        SelectorError: the text is no selector.
    """
    return _all(_Parser(text).requirements())


def from_label_selector(spec: Mapping[str, Any] | None) -> LabelPredicate:
    """Compile a ``metav1.LabelSelector``; None selects nothing, an empty one everything.

    Raises:
        SelectorError: an expression is invalid.
    """
    if spec is None:
        return _nothing
    predicates: list[LabelPredicate] = [
        _equals(key, value) for key, value in (spec.get("matchLabels") or {}).items()
    ]
    predicates += map(_expression, spec.get("matchExpressions") or ())
    return _all(predicates)


def _equals(key: str, value: str) -> LabelPredicate:
    return lambda labels: labels.get(key) == value


def _expression(expression: Mapping[str, Any]) -> LabelPredicate:
    key, operator = expression.get("key", ""), expression.get("operator")
    values = frozenset(expression.get("values") or ())
    if operator == "In":
        return lambda labels: key in labels and labels[key] in values
    if operator == "NotIn":
        return lambda labels: key not in labels or labels[key] not in values
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    raise SelectorError(f'"{operator}" is not a valid label selector operator')


# --- fields -------------------------------------------------------------------------------------


class FieldLabels(msgspec.Struct, frozen=True):
    """The fields by which objects of a kind can be selected, beside name and namespace.

    Attributes:
        paths: the places of each field in an object; the first that has a value counts.
        absent: what an absent field is compared as, where the zero value of its Go type is no
            empty string.
        own_message: whether the kind converts its field labels itself upstream, which has another
            error message.
    """

    paths: Mapping[str, tuple[str, ...]] = {}
    absent: Mapping[str, str] = {}
    own_message: bool = False

    @classmethod
    def of(
        cls, *labels: str, absent: Mapping[str, str] | None = None, own_message: bool = True
    ) -> FieldLabels:
        """Return fields that are selected by their own path, such as ``status.phase``."""
        return cls({label: (label,) for label in labels}, absent or {}, own_message)


_METADATA = FieldLabels.of("metadata.name", "metadata.namespace").paths


def _getter(places: tuple[str, ...], absent: str) -> Callable[[dict[str, Any]], str]:
    steps, *others = [tuple(place.split(".")) for place in places]

    def walk(value: Any, steps: tuple[str, ...]) -> Any:
        for step in steps:
            value = value.get(step) if type(value) is dict else None
        return value

    def get(obj: dict[str, Any]) -> str:
        value = walk(obj, steps)
        for other in others:
            value = value or walk(obj, other)
        if value is None:
            return absent
        if type(value) is bool:
            return "true" if value else "false"
        return str(value)

    return get


def _split_terms(text: str) -> list[str]:
    """Split at unescaped commas."""
    return [term for term in re.split(r"(?<!\\),", text) if term.strip()]


def _unescape(value: str) -> str:
    if re.search(r"(?<!\\)(\\\\)*\\(?![\\,=])", value):
        raise SelectorError(f"invalid field selector: unknown escape in {value!r}")
    return re.sub(r"\\([\\,=])", r"\1", value)


def field_selector(text: str, labels: FieldLabels) -> ObjectPredicate:
    """Compile ``status.phase!=Running,metadata.name=x`` and the like.

    Args:
        text: the selector; empty selects everything.
        labels: the fields of the listed kind; each kind supports a few only.

    Raises:
        SelectorError: the text is no selector, or names a field the kind does not support.
    """
    predicates: list[ObjectPredicate] = []
    for term in _split_terms(text):
        match = re.match(r"(.*?)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        label, operator, value = match[1].strip(), match[2], _unescape(match[3])
        places = labels.paths.get(label) or _METADATA.get(label)
        if places is None:
            if labels.own_message:
                raise SelectorError(f"field label not supported: {label}")
            known = '"metadata.name", "metadata.namespace"'
            raise SelectorError(f'"{label}" is not a known field selector: only {known}')
        get = _getter(places, labels.absent.get(label, ""))
        predicates.append(_field_term(get, value, equal=operator != "!="))
    return _all(predicates)


def selected_name(text: str) -> str:
    """Return the name that all objects selected by a field selector have; empty if unknown."""
    for term in _split_terms(text):
        match = re.match(r"(.*?)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is not None and match[1].strip() == "metadata.name" and match[2] != "!=":
            try:
                return _unescape(match[3])
            except SelectorError:
                return ""
    return ""


def _field_term(
    get: Callable[[dict[str, Any]], str], value: str, *, equal: bool
) -> ObjectPredicate:
    if equal:
        return lambda obj: get(obj) == value
    return lambda obj: get(obj) != value
