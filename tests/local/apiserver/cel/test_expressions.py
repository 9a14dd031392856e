"""CEL expressions: what a real API server makes of them.

`suites.differential.expressions` has written the table, and compares a real server with it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from suites.differential.expressions import evaluation, refusal

from traincrew.local.apiserver import cel

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "expressions.json").read_text())


def outcome(rule: str) -> str:
    """Return what is made of an expression here."""
    spec = {
        "type": "object",
        "properties": TABLE["fields"],
        "x-kubernetes-validations": [{"rule": rule}],
    }
    compiled = cel.compile_rules({"type": "object", "properties": {"spec": spec}})
    if refused := [*compiled.faults, *compiled.costly]:
        return "; ".join(refusal(cause.message) for cause in refused)
    broken = compiled.validate({"spec": TABLE["values"]})
    return evaluation(broken[0].message, rule) if broken else "true"


@pytest.mark.parametrize("rule", TABLE["rules"])
def test_expressions_have_the_outcome_of_a_real_server(rule: str) -> None:
    assert outcome(rule) == TABLE["rules"][rule]
