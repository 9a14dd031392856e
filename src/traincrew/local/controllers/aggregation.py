"""Fills in the rules of ClusterRoles that aggregate others, such as `admin`, `edit` and `view`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request
from traincrew.engine.resources import CLUSTER_ROLES
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


def aggregated_rules(role: AnyObject, roles: Iterable[AnyObject]) -> list[dict[str, Any]]:
    """Return the rules that an aggregating ClusterRole should have.

    They are those of the selected ClusterRoles by name, without repetitions (upstream
    `pkg/controller/clusterroleaggregation`).

    Args:
        role: It has an `aggregationRule`.
        roles: All ClusterRoles.
    """
    ordered = sorted(roles, key=lambda each: each.metadata.name)
    rules: list[dict[str, Any]] = []
    for selector in (role.aggregation_rule or {}).get("clusterRoleSelectors") or ():
        for other in ordered:
            if other.metadata.name != role.metadata.name and matches(
                selector, other.metadata.labels
            ):
                rules.extend(rule for rule in other.rules or () if rule not in rules)
    return rules


def add_aggregation_controller(manager: Manager, events: EventRecorder) -> None:
    """Keep the rules of ClusterRoles with an `aggregationRule`."""
    roles = informer(manager, CLUSTER_ROLES)
    context = ControllerContext(
        manager.client, events.reporter("clusterrole-aggregation-controller"), CLUSTER_ROLES
    )

    async def reconcile(request: Request) -> Result | None:
        role = roles.store.get(None, request.name)
        if role is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        rules = aggregated_rules(role, roles.store.list())
        if rules != (role.rules or []):
            await context.patch(request, roles, role, {"rules": rules})
        return None

    def aggregating(_: AnyObject) -> list[Request]:
        """Return a request for every aggregating role: any of them may select the changed one."""
        return [
            Request("", role.metadata.name)
            for role in roles.store.list()
            if role.aggregation_rule is not None
        ]

    controller = Controller("clusterrole-aggregation", reconcile)
    controller.watch(roles, aggregating)
    manager.add(controller)
