"""ClusterRoles that aggregate others."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from local.controlplane import control_plane
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import CLUSTER_ROLES
from traincrew.local.controllers.aggregation import aggregated_rules

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
JOBS = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}
VIEW = "rbac.authorization.k8s.io/aggregate-to-view"


def role(name: str, rules: Any, *selected: dict[str, Any], **labels: str) -> dict[str, Any]:
    document = {"metadata": {"name": name, "labels": labels}, "rules": rules}
    if selected:
        document["aggregationRule"] = {"clusterRoleSelectors": list(selected)}
    return document


def labelled(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([labelled(a="1")], [JOBS, PODS]),
        ([labelled(a="2")], [PODS]),
        ([labelled(a="2"), labelled(a="1")], [PODS, JOBS]),
        ([labelled(b="1")], []),
        ([{}], [JOBS, PODS]),
    ],
)
def test_rules_in_the_order_of_selectors_and_names(
    selectors: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    documents = [
        role("c", [PODS], a="2"),
        role("b", [PODS, JOBS], a="1"),
        role("a", [JOBS], a="1"),
        role("d", None, a="1"),
        role("own", [{"verbs": ["*"]}], *selectors, a="1"),
    ]
    roles = [msgspec.convert(document, AnyObject) for document in documents]
    assert aggregated_rules(roles[-1], roles) == expected


async def test_view_edit_and_admin_are_filled_in_and_extended() -> None:
    async with control_plane(kubelet=False) as world:

        async def includes(name: str, rule: dict[str, Any]) -> bool:
            found = await world.get(CLUSTER_ROLES, name)
            return found is not None and rule in (found["rules"] or ())

        async def excludes(name: str, rule: dict[str, Any]) -> bool:
            return not await includes(name, rule)

        evictions = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
        for name in ("edit", "admin"):
            await world.until(partial(includes, name, evictions), f"rules of {name}")
        assert not await includes("view", evictions)
        widgets = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
        await world.create(CLUSTER_ROLES, role("widgets", [widgets], **{VIEW: "true"}))
        for name in ("view", "edit", "admin"):
            await world.until(partial(includes, name, widgets), f"widgets in {name}")
        await world.client.delete(CLUSTER_ROLES, "widgets")
        for name in ("view", "edit", "admin"):
            await world.until(partial(excludes, name, widgets), f"no widgets in {name}")
