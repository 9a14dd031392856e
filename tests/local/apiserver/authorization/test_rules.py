"""What rules permit, and which rules cover others."""

from dataclasses import dataclass
from typing import Any

import pytest

from traincrew.local.apiserver.authorization import Attributes
from traincrew.local.apiserver.authorization.rules import (
    EVERYTHING,
    Rule,
    TooManyRulesError,
    describe,
    missing,
    rules_of,
)

PODS = Rule(("get", "list"), ("",), ("pods", "pods/log"))
EXEC = Rule(("create",), ("",), ("pods/exec",))
SCALES = Rule(("update",), ("apps", ""), ("*/scale",))
NAMED = Rule(("get", "delete"), ("",), ("configmaps",), ("one", "two"))
ALL = Rule(("*",), ("*",), ("*",))
URLS = Rule(("get",), urls=("/metrics", "/healthz/*"))


def path(text: str, verb: str = "get") -> Attributes:
    return Attributes(verb, path=text, is_resource=False)


@pytest.mark.parametrize(
    ("rule", "action", "allowed"),
    [
        (PODS, Attributes("get", "", "pods", "", "n", "p"), True),
        (PODS, Attributes("list", "", "pods"), True),
        (PODS, Attributes("watch", "", "pods"), False),
        (PODS, Attributes("get", "metrics.k8s.io", "pods"), False),
        (PODS, Attributes("get", "", "pods", "log", "n", "p"), True),
        (PODS, Attributes("get", "", "pods", "exec", "n", "p"), False),
        (PODS, Attributes("get", "", "services"), False),
        (PODS, path("/pods"), False),
        (EXEC, Attributes("create", "", "pods", "exec", "n", "p"), True),
        (EXEC, Attributes("create", "", "pods", "", "n"), False),
        (EXEC, Attributes("get", "", "pods", "exec", "n", "p"), False),
        (SCALES, Attributes("update", "apps", "statefulsets", "scale", "n", "s"), True),
        (SCALES, Attributes("update", "", "replicationcontrollers", "scale", "n", "s"), True),
        (SCALES, Attributes("update", "apps", "statefulsets", "", "n", "s"), False),
        (SCALES, Attributes("update", "apps", "statefulsets", "status", "n", "s"), False),
        (NAMED, Attributes("get", "", "configmaps", "", "n", "one"), True),
        (NAMED, Attributes("get", "", "configmaps", "", "n", "three"), False),
        (NAMED, Attributes("get", "", "configmaps", "", "n"), False),
        (ALL, Attributes("escalate", "any", "thing", "part", "n", "x"), True),
        (ALL, path("/metrics"), False),
        (URLS, path("/metrics"), True),
        (URLS, path("/metrics/slis"), False),
        (URLS, path("/healthz/etcd"), True),
        (URLS, path("/healthz"), False),
        (URLS, path("/metrics", "post"), False),
        (EVERYTHING[1], path("/anything", "delete"), True),
        (EVERYTHING[1], Attributes("get", "", "pods"), False),
    ],
)
def test_what_a_rule_permits(rule: Rule, action: Attributes, *, allowed: bool) -> None:
    assert rule.allows(action) is allowed


@dataclass
class Case:
    owned: list[Rule]
    wanted: list[Rule]
    lacking: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Case([PODS], [Rule(("get",), ("",), ("pods",))]),
        Case([PODS], [Rule(("get",), ("",), ("pods",), ("p",))]),
        Case([ALL], [PODS, EXEC, SCALES, NAMED]),
        Case([*EVERYTHING], [*EVERYTHING, URLS]),
        Case([SCALES], [Rule(("update",), ("apps",), ("deployments/scale",))]),
        Case([URLS], [Rule(("get",), urls=("/healthz/etcd", "/metrics"))]),
        Case(
            [PODS, EXEC],
            [Rule(("create", "get"), ("",), ("pods", "pods/exec"))],
            '{APIGroups:[""], Resources:["pods"], Verbs:["create"]}\n'
            '{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}',
        ),
        Case(
            [NAMED],
            [Rule(("get", "delete"), ("",), ("configmaps",), ("one", "three"))],
            '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["three"], '
            'Verbs:["get" "delete"]}',
        ),
        Case([NAMED], [Rule(("get",), ("",), ("configmaps",))], "configmaps"),
        Case([ALL], [URLS], '{NonResourceURLs:["/metrics"], Verbs:["get"]}'),
        Case([URLS], [EVERYTHING[1]], '{NonResourceURLs:["*"], Verbs:["*"]}'),
        Case([], [PODS], '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'),
        Case([PODS], [ALL], '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'),
    ],
)
def test_what_is_lacking(case: Case) -> None:
    text = describe(missing(case.owned, case.wanted))
    assert case.lacking in text
    assert bool(text) is bool(case.lacking)


def test_rules_with_too_many_combinations_are_not_compared() -> None:
    many = tuple(f"r{number}" for number in range(1000))
    with pytest.raises(TooManyRulesError):
        missing([ALL], [Rule(many, many, many)])
    with pytest.raises(TooManyRulesError):
        missing([ALL] * 1000, [Rule(many, ("",), ("pods",))])


@pytest.mark.parametrize("document", [{}, {"rules": None}, {"rules": []}])
def test_a_role_without_rules_permits_nothing(document: dict[str, Any]) -> None:
    assert rules_of(document) == ()
