"""Reasons: what descriptions promise, plans give, and `traincrew why` explains."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from traincrew.api.crd import definition as crd
from traincrew.api.reasons import Cause, Reasons
from traincrew.plan.kinds import KINDS

PROMISE = re.compile(r"\bwith reason ([A-Za-z]+)")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.definition.kind)
def test_descriptions_promise_only_reasons_that_plans_give(kind: Any) -> None:
    definition = kind.definition

    promised = set(PROMISE.findall(json.dumps(crd(definition))))

    assert promised
    assert promised <= {definition.reasons.word(cause) for cause in Cause}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.definition.kind)
@pytest.mark.parametrize("cause", Cause)
def test_the_cause_of_every_reason_is_known(kind: Any, cause: Cause) -> None:
    reasons = kind.definition.reasons
    alike = {other for other in Cause if reasons.word(other) == reasons.word(cause)}
    words = {
        Cause.DEADLINE: "Job was active longer than specified deadline",
        Cause.BACKOFF_LIMIT: "Job x has failed because it has reached the specified backoff limit",
    }
    if alike != {cause}:
        assert alike - {Cause.PROGRAM} == words.keys()

    assert reasons.cause(reasons.word(cause, "Pod"), words.get(cause, "Job failed.")) is cause


def test_a_reason_that_nobody_knows_is_the_programs() -> None:
    assert Reasons().cause("TrialFailed") is Cause.PROGRAM


def test_the_reason_of_a_refusal_may_name_the_child() -> None:
    reasons = Reasons({Cause.REFUSED: "FailedCreate{kind}"})

    assert reasons.word(Cause.REFUSED, "Service") == "FailedCreateService"
    assert reasons.cause("FailedCreateService") is Cause.REFUSED
