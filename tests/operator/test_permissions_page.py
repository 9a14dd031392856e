"""docs/design/operator-permissions.md lists the rules that are installed, and no others."""

import re
from pathlib import Path
from typing import Any

import pytest

from traincrew.operator.kinds import PROJECT_KINDS
from traincrew.operator.manifests.rbac import (
    lease_rules,
    operator_rules,
    ownership_rules,
    project_rules,
    protection_rules,
    queue_rules,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/design/operator-permissions.md").read_text(encoding="utf-8")
Rule = tuple[str, tuple[str, ...], tuple[str, ...]]


def listed(heading: str) -> list[Rule]:
    """Return the rules in the table below a heading of the page."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    found = []
    for group, resources, verbs, purpose, misuse in rows[2:]:
        assert purpose.strip()
        assert misuse.strip()
        name = group.strip().strip("`").removeprefix("core")
        names = tuple(re.findall(r"`([^`]+)`", resources))
        found.append((name, names, tuple(verbs.split())))
    return found


def installed(rules: list[dict[str, Any]]) -> list[Rule]:
    return [
        (rule["apiGroups"][0], tuple(rule["resources"]), tuple(rule["verbs"])) for rule in rules
    ]


@pytest.mark.parametrize(
    ("heading", "rules"),
    [
        ("In the namespaces of the jobs", operator_rules()),
        ("In no namespace", queue_rules()),
        ("In the namespace of the Lease", lease_rules()),
    ],
)
def test_the_page_explains_every_rule(heading: str, rules: list[dict[str, Any]]) -> None:
    assert listed(heading) == installed(rules)


def test_the_page_explains_the_rules_for_kinds_of_other_projects() -> None:
    rules = [
        rule
        for kind in PROJECT_KINDS
        for rules_of in (project_rules, protection_rules, ownership_rules)
        for rule in rules_of(kind)
    ]
    found = installed(rules)

    assert sorted(listed("With kinds of other projects")) == sorted(set(found))


def test_the_operator_may_not_do_what_the_page_rules_out() -> None:
    for group, resources, verbs in installed([*operator_rules(), *queue_rules(), *lease_rules()]):
        assert "*" not in {group, *resources, *verbs}
        assert not {"bind", "escalate", "impersonate"} & set(verbs)
        assert not {
            "nodes",
            "namespaces",
            "persistentvolumes",
            "clusterroles",
            "clusterrolebindings",
            "customresourcedefinitions",
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "serviceaccounts/token",
        } & set(resources)
        if "secrets" in resources:
            assert not {"list", "watch", "delete"} & set(verbs)
