"""Whether the operator of another project runs on the cluster, whose kinds are then left to it.

Two operators that reconcile the same jobs would undo each other's work. So this one plans nothing
for jobs of another project's kind as long as there is a Deployment of that project's operator, and
continues when it is gone: docs/design/todays-manifests.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from traincrew.engine.controller import Request
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import DEPLOYMENTS
from traincrew.plan.shared.model import Plan

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kind import Project
    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Manager
    from traincrew.engine.objects import AnyObject
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.reconciler import Reconciler
    from traincrew.plan.shared.model import Decision, Observed


class Ownership:
    """Watches for the operator of one project, in all namespaces.

    Args:
        manager: Runs the watch; nothing is reconciled before its first answer.
        project: The project.
    """

    def __init__(self, manager: Manager, project: Project) -> None:
        self._project = project
        self._informer: Informer[Any] = manager.informer(
            DEPLOYMENTS, label_selector=project.deployments, metadata_only=True
        )
        self._informer.add_handler(self._changed)
        self._found: set[tuple[str, str]] = set()

    def _changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        before = bool(self._found)
        if old is not None:
            self._found.discard((old.metadata.namespace, old.metadata.name))
        if new is not None:
            self._found.add((new.metadata.namespace, new.metadata.name))
        if before == bool(self._found):
            return
        log, name = get_logger(), self._project.name
        if self._found:
            deployment = "/".join(min(self._found))
            log.warning("kinds are left to their operator", project=name, deployment=deployment)
        else:
            log.info("kinds are served here, without their operator", project=name)

    def left_to_it(self, kind: OperatedKind) -> OperatedKind:
        """Return the kind with plans that do nothing while the other operator runs."""

        def plan(observed: Observed, now: datetime) -> Decision:
            if self._found:
                return Plan(status=observed.job.status)
            return kind.plan(observed, now)

        return structs.replace(kind, plan=plan)

    def serve(self, reconciler: Reconciler) -> None:
        """Reconcile all jobs again when the other operator comes or goes."""
        reconciler.controller.watch(
            self._informer,
            lambda _: [
                Request(job.metadata.namespace, job.metadata.name) for job in reconciler.jobs.list()
            ],
        )
