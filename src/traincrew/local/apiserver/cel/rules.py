"""Evaluate the CEL rules of custom resources on objects.

The semantics (transition rules, correlation of old and new, messages) are those of
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.paths import Key, Path, render

from .operators import CelError, CostExceededError, Optional
from .program import PER_CALL_LIMIT, Program
from .values import convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["RUNTIME_BUDGET", "CelRules", "Place", "Rule"]

Schema = dict[str, Any]

RUNTIME_BUDGET = 500_000
"""What the rules of one object may cost, in cel-go's units.

Upstream allows 10,000,000 (``RuntimeCELCostBudget``), which would take Python two seconds.
"""

_MAX_MESSAGE = 5 * 1024  # bytes; upstream's MaxEvaluatedMessageExpressionSizeBytes
_ABSENT: Any = object()


class Rule(msgspec.Struct):
    """One entry of ``x-kubernetes-validations``.

    Attributes:
        program: None if the rule cannot be compiled.
        fault: why it cannot.
    """

    source: str
    program: Program | None
    message: str = ""
    message_program: Program | None = None
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    transition: bool = False
    optional_old: bool = False
    fault: str = ""

    def describe(self) -> str:
        """Return what an error of its evaluation is about."""
        return self.message or self.source


class Place(msgspec.Struct):
    """A place in the schema that has rules, or has places with rules below it."""

    schema: Schema
    rules: list[Rule]
    fields: dict[str, Place]
    items: Place | None
    values: Place | None
    convert: bool
    keys: tuple[str, ...]


class CelRules:
    """The compiled rules of one schema.

    Attributes:
        faults: rules that cannot be compiled, as causes for the definition that has them; their
            fields are paths below ``openAPIV3Schema``.
        costly: likewise, those that may cost more than upstream allows.
    """

    def __init__(
        self, root: Place | None, faults: list[Cause], costly: Sequence[Cause] = ()
    ) -> None:
        self._root = root
        self.faults = faults
        self.costly = costly

    def __bool__(self) -> bool:
        return self._root is not None

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """Return the causes of the rules that an object breaks.

        Args:
            obj: the object, valid by its schema.
            old: the stored object when this is an update; without it transition rules (those
                that use ``oldSelf``) do not apply.
        """
        found = why.Causes()
        if self._root is not None:
            with suppress(_BudgetSpentError):  # the last cause says so
                _Walk(found).visit(self._root, obj, _ABSENT if old is None else old, None)
        return found

    def default_faults(self) -> list[Cause]:
        """Return the causes of the rules that the defaults of the schema break.

        Upstream's ``pkg/apiserver/schema/defaulting/validation.go``: a default has to hold as a
        value that stays as it is, and as a new one. Fields are paths below ``openAPIV3Schema``.
        """
        found = why.Causes()
        if self._root is not None:
            with suppress(_BudgetSpentError):
                _check_defaults(_Walk(found), self._root, "")
        return [why.Cause(each.reason, each.message, f".{each.field}") for each in found]


def _check_defaults(walk: _Walk, place: Place, path: str) -> None:
    default = place.schema.get("default")
    if default is not None:
        here = (None, f"{path}.default".removeprefix("."))
        known = len(walk.found)
        walk.visit(place, default, default, here)
        if len(walk.found) == known:
            walk.visit(place, default, _ABSENT, here)
    if place.items is not None:
        _check_defaults(walk, place.items, f"{path}.items")
    for key, child in place.fields.items():
        _check_defaults(walk, child, f"{path}.properties[{key}]")


class _BudgetSpentError(Exception):
    """The rules of an object cost too much; no further ones are evaluated."""


class _Evaluation:
    """One place in an object, and the variables its rules share, each converted once."""

    def __init__(self, place: Place, value: Any, old: Any, budget: list[float]) -> None:
        self.place = place
        self._budget = budget
        self.value = value
        self.old = _ABSENT if old is None else old

    def _converted(self, value: Any) -> Any:
        return convert(self.place.schema, value, self._budget) if self.place.convert else value

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The variables of most rules: self, and oldSelf if there is an old value."""
        variables = {"self": self._converted(self.value)}
        if self.old is not _ABSENT:
            variables["oldSelf"] = self._converted(self.old)
        return variables

    @cached_property
    def optional(self) -> dict[str, Any]:
        """The variables of rules with ``optionalOldSelf``."""
        old = Optional() if self.old is _ABSENT else Optional(self._converted(self.old))
        return {"self": self._converted(self.value), "oldSelf": old}

    def of(self, rule: Rule) -> dict[str, Any]:
        """Return the variables of a rule."""
        return self.optional if rule.optional_old else self.plain


class _Walk:
    """Evaluates all rules of an object, within one budget."""

    def __init__(self, found: list[Cause]) -> None:
        self.found = found
        self.budget = [float(RUNTIME_BUDGET)]

    def visit(self, place: Place, value: Any, old: Any, path: Path) -> None:
        """Evaluate the rules of a value and of the values below it."""
        if value is None:
            return
        if place.rules:
            self._apply(place, value, old, path)
        kind = type(value)
        if kind is dict:
            before = old if type(old) is dict else {}
            for key, child in place.fields.items():
                if key in value:
                    self.visit(child, value[key], before.get(key, _ABSENT), (path, key))
            if place.values is not None:
                for key, item in value.items():
                    if key not in place.fields:
                        self.visit(place.values, item, before.get(key, _ABSENT), (path, Key(key)))
        elif kind is list and place.items is not None:
            known = _by_key(place, old)
            for index, item in enumerate(value):
                before = known.get(_key(place, item), _ABSENT) if known else _ABSENT
                self.visit(place.items, item, before, (path, index))

    def _apply(self, place: Place, value: Any, old: Any, path: Path) -> None:
        evaluation = _Evaluation(place, value, old, self.budget)
        unchanged = old is not _ABSENT and old == value
        for rule in place.rules:
            if rule.program is None:
                # Upstream does not accept unchanged values either.
                where = render(path) or "<nil>"
                self.found.append(why.invalid(where, _type_name(place), rule.fault))
                continue
            if rule.transition:
                if evaluation.old is _ABSENT and not rule.optional_old:
                    continue
            elif unchanged:
                continue  # ratcheting: the stored value breaks the rule in the same way
            try:
                result = self._run(rule.program, evaluation.of(rule))
            except CelError as error:
                self.found.append(_evaluation_fault(rule, error, place, path))
                continue
            except CostExceededError:
                self.found.append(_spent(place, path))
                raise _BudgetSpentError from None
            if result is not True:
                self.found.append(self._violation(rule, evaluation, path))

    def _run(self, program: Program, variables: dict[str, Any]) -> Any:
        # Evaluating costs something even where a program has nothing to do.
        self.budget[0] -= 5
        try:
            value, cost = program.run(variables, min(self.budget[0], PER_CALL_LIMIT))
        except CelError as error:
            self.budget[0] -= error.cost
            raise
        self.budget[0] -= cost
        return value

    def _violation(self, rule: Rule, evaluation: _Evaluation, path: Path) -> Cause:
        where = render(path)
        if rule.field_path:
            where = (where + rule.field_path).lstrip(".")
        detail = rule.message or f"failed rule: {rule.source}"
        if rule.message_program is not None:
            try:
                text = self._run(rule.message_program, evaluation.of(rule))
            except (CelError, CostExceededError):
                text = ""
            if type(text) is str:
                text = text.strip()
                if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                    detail = text
        return _cause(rule, evaluation, where or "<nil>", detail)


def _spent(place: Place, path: Path) -> Cause:
    detail = (
        "validation failed due to running out of cost budget, no further validation rules will be"
        " run"
    )
    return why.invalid(render(path) or "<nil>", _type_name(place), detail)


def _cause(rule: Rule, evaluation: _Evaluation, where: str, detail: str) -> Cause:
    if rule.reason == "FieldValueForbidden":
        return why.forbidden(where, detail)
    if rule.reason == "FieldValueRequired":
        return why.required(where, detail)
    # Objects and lists are not repeated in the message.
    whole = _type_name(evaluation.place) in {"object", "array"}
    if rule.reason == "FieldValueDuplicate":
        text = "Duplicate value" if whole else f"Duplicate value: {why.show(evaluation.value)}"
        return why.Cause(rule.reason, text, where)
    value = "" if whole else f"{why.show(evaluation.value)}: "
    return why.Cause("FieldValueInvalid", f"Invalid value: {value}{detail}", where)


def _evaluation_fault(rule: Rule, error: CelError, place: Place, path: Path) -> Cause:
    text = str(error)
    if text == "no such overload":
        detail = (
            "'no such overload': call arguments did not match a supported operator, function or"
            f" macro signature for rule: {rule.describe()}"
        )
    else:
        detail = f"{text} evaluating rule: {rule.describe()}"
    return why.invalid(render(path) or "<nil>", _type_name(place), detail)


def _type_name(place: Place) -> str:
    return place.schema.get("type") or "any"


def _key(place: Place, item: Any) -> str:
    return why.show([item.get(key) for key in place.keys]) if type(item) is dict else ""


def _by_key(place: Place, old: Any) -> dict[str, Any]:
    """Return the old items of a list by key; empty if its items have no keys."""
    if not place.keys or type(old) is not list:
        return {}
    return {_key(place, item): item for item in old}
