"""What one policy decides about one request with one parameter.

Semantics and messages: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver.cel.admission import (
    OUT_OF_BUDGET,
    CelError,
    CompilationError,
    CostExceededError,
    Evaluation,
)
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.cel.admission import Program
    from traincrew.local.apiserver.kinds.admissionregistration.expressions import Expressions
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "Denial",
    "ExpressionError",
    "FailedError",
    "PolicyEvaluation",
    "Share",
    "run_program",
]

POLICY_BUDGET = 500_000
"""What one policy may cost for one request and parameter (upstream: 10,000,000)."""

_MAX_MESSAGE = 5 * 1024  # bytes; upstream's MaxEvaluatedMessageExpressionSizeBytes


class Denial(NamedTuple):
    """One validation that a request fails, or an error where the failure policy is Fail."""

    message: str
    reason: str = "Invalid"


class PolicyEvaluation:
    """One policy on one request with one parameter; upstream: ``validator.go``."""

    def __init__(
        self,
        spec: Document,
        expressions: Expressions,
        values: dict[str, Any],
        budget: list[float],
    ) -> None:
        self._spec = spec
        self._expressions = expressions
        self._ignored = spec.get("failurePolicy") == "Ignore"
        self._whole = budget
        self._values = values
        self._matches = True

    def matches(self) -> bool:
        """Return whether all match conditions hold.

        Raises:
            FailedError: that cannot be said.
        """
        with Share(self._whole) as share:
            return self._conditions_hold(self._evaluate_with(share))

    def validate(self) -> list[Denial]:
        """Return the validations that the request fails, if the policy applies to it."""
        try:
            if not self.matches():
                self._matches = False
                return []
            with Share(self._whole) as share:
                return list(self._validations(self._evaluate_with(share)))
        except FailedError as error:
            self._matches = False
            return [] if self._ignored else [Denial(str(error))]

    def _evaluate_with(self, share: list[float]) -> Evaluation:
        return Evaluation(self._values, self._expressions.variables, share)

    def _conditions_hold(self, evaluation: Evaluation) -> bool:
        """Return whether all match conditions are true; a false one counts more than errors."""
        failed = []
        conditions = items(self._spec, "matchConditions")
        for each, program in zip(conditions, self._expressions.conditions, strict=True):
            try:
                if run_program(evaluation, program, each["expression"].strip()) is False:
                    return False
            except ExpressionError as error:
                failed.append(str(error))
        if failed:
            raise FailedError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
        return True

    def _validations(self, evaluation: Evaluation) -> Iterator[Denial]:
        validations = items(self._spec, "validations")
        programs = zip(self._expressions.validations, self._expressions.messages, strict=True)
        for each, (program, words) in zip(validations, programs, strict=True):
            try:
                if run_program(evaluation, program, each["expression"]) is True:
                    continue
            except ExpressionError as error:
                if not self._ignored:
                    yield Denial(str(error))
                continue
            message = "" if words is None else _message(evaluation, words)
            message = message or str(each.get("message") or "").strip()
            message = message or f"failed expression: {each['expression'].strip()}"
            yield Denial(message, each.get("reason") or "Invalid")

    def annotate(self) -> list[Denial]:
        """Evaluate the audit annotations; return their errors. There is no log to write them to."""
        if not self._matches or not self._expressions.annotations:
            return []
        found = []
        try:
            with Share(self._whole) as share:
                evaluation = self._evaluate_with(share)
                entries = items(self._spec, "auditAnnotations")
                for each, program in zip(entries, self._expressions.annotations, strict=True):
                    try:
                        run_program(evaluation, program, each["valueExpression"].strip())
                    except ExpressionError as error:
                        found.append(Denial(str(error)))
        except FailedError as error:
            found = [Denial(str(error))]
        return [] if self._ignored else found


class FailedError(Exception):
    """A policy cannot be evaluated; the message says why."""


class ExpressionError(Exception):
    """One expression cannot be evaluated; the message says why."""


class Share:
    """The budget of one evaluation, as a list of one item; what it spends is the request's."""

    def __init__(self, whole: list[float]) -> None:
        self._whole = whole
        self._given = max(min(POLICY_BUDGET, whole[0]), 0.0)
        self._left = [self._given]

    def __enter__(self) -> list[float]:
        return self._left

    def __exit__(self, *_: object) -> None:
        self._whole[0] -= self._given - self._left[0]


def run_program(evaluation: Evaluation, program: Program | CompilationError, source: str) -> Any:
    """Evaluate an expression.

    Raises:
        ExpressionError: it cannot be evaluated.
        FailedError: the budget is spent.
    """
    if isinstance(program, CompilationError):
        raise ExpressionError(f"compilation error: {program}")
    try:
        return evaluation.run(program)
    except CelError as error:
        raise ExpressionError(f"expression '{source}' resulted in error: {error}") from None
    except CostExceededError:
        raise FailedError(OUT_OF_BUDGET) from None


def _message(evaluation: Evaluation, program: Program | CompilationError) -> str:
    """Return the result of a ``messageExpression``; empty if it cannot be used."""
    try:
        text = run_program(evaluation, program, "")
    except ExpressionError:
        return ""
    except FailedError as error:
        raise FailedError(f"failed messageExpression: {error}") from None
    text = text.strip() if type(text) is str else ""
    return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE else text
