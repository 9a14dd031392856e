"""Whether jobs of another project's kind are served here, or left to that project's operator.

Two operators that reconcile the same jobs would undo each other's work. So nothing is planned for
them while there is a Deployment of the other operator, or while the definition is one that drops
what this operator stores in the status: docs/design/todays-manifests.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from traincrew.api.meta import ObjectMeta
from traincrew.engine.controller import Request
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS
from traincrew.operator.jobs import reference_of
from traincrew.plan.shared.model import Plan

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kind import Project
    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.reconciler import Reconciler
    from traincrew.plan.shared.model import Decision, Observed


NOT_SERVED = "NotServed"
"""Reason of the event of a job that nobody serves."""


class _Status(Struct):
    keeps_unknown_fields: bool = field(default=False, name="x-kubernetes-preserve-unknown-fields")


class _Properties(Struct):
    status: _Status = field(default_factory=_Status)


class _OpenAPI(Struct):
    properties: _Properties = field(default_factory=_Properties)


class _Schema(Struct):
    root: _OpenAPI = field(default_factory=_OpenAPI, name="openAPIV3Schema")


class _Version(Struct, rename="camel"):
    storage: bool = False
    schema: _Schema = field(default_factory=_Schema)


class _Versions(Struct):
    versions: list[_Version] = field(default_factory=list)


class Definition(Struct):
    """A CustomResourceDefinition, as far as it tells what a status can store."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Versions = field(default_factory=_Versions)

    @property
    def keeps_status(self) -> bool:
        """Whether it stores every field of a status, as the definitions of this project do."""
        return any(
            each.storage and each.schema.root.properties.status.keeps_unknown_fields
            for each in self.spec.versions
        )


class Ownership:
    """Watches who owns one kind, in all namespaces.

    Args:
        manager: Runs the watches; nothing is reconciled before their first answers.
        kind: The kind.
        project: The project whose kind it is.
        events: Records why nobody serves a job.
    """

    def __init__(
        self, manager: Manager, kind: OperatedKind, project: Project, events: EventRecorder
    ) -> None:
        self._kind, self._project = kind, project
        self._events = events.reporter(kind.component)
        self._name = f"{kind.resource.plural}.{kind.resource.group}"
        self._deployments: list[Informer[Any]] = [
            manager.informer(DEPLOYMENTS, label_selector=selector, metadata_only=True)
            for selector in (project.deployments, *project.more_deployments)
        ]
        view: type[Any] = Definition
        self._definitions: Informer[Any] = manager.informer(
            CUSTOM_RESOURCE_DEFINITIONS, view, field_selector=f"metadata.name={self._name}"
        )
        for informer in self._deployments:
            informer.add_handler(self._deployment_changed)
        self._definitions.add_handler(self._definition_changed)
        self._keeps_status = True
        self._said = ""

    def _deployment_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:  # noqa: ARG002
        self._say()

    @property
    def _running(self) -> set[tuple[str, str]]:
        """The Deployments of the other operator; each may have the labels of several selectors."""
        return {
            (found.metadata.namespace, found.metadata.name)
            for informer in self._deployments
            for found in informer.store.list()
        }

    def _definition_changed(self, old: Definition | None, new: Definition | None) -> None:  # noqa: ARG002
        # Without a definition there are no jobs.
        self._keeps_status = new is None or new.keeps_status
        self._say()

    @property
    def why_not(self) -> str:
        """Why the kind is not served here; empty if it is."""
        if self._running:
            return f"Deployment {'/'.join(min(self._running))} of {self._project.name} serves it"
        if not self._keeps_status:
            return (
                f"the CustomResourceDefinition {self._name} is that of {self._project.name}, whose"
                " status has no room for what this operator stores: delete it and start the"
                f" cluster again, or install {self._project.name}"
            )
        return ""

    def _say(self) -> None:
        why, before = self.why_not, self._said
        if why == before:
            return
        self._said = why
        log, kind = get_logger(), self._kind.resource.kind
        if why:
            log.warning("a kind is not served here", kind=kind, reason=why)
        else:
            log.info("a kind is served here again", kind=kind)

    def guarded(self) -> OperatedKind:
        """Return the kind with plans that do nothing while it is not served here."""
        kind = self._kind

        def plan(observed: Observed, now: datetime) -> Decision:
            if why := self.why_not:
                # A job that its own operator serves has the events of that one.
                if not self._running:
                    job = reference_of(kind.resource, observed.job)
                    self._events.event(job, "Warning", NOT_SERVED, why)
                return Plan(status=observed.job.status)
            return kind.plan(observed, now)

        return structs.replace(kind, plan=plan)

    def serve(self, reconciler: Reconciler) -> None:
        """Reconcile all jobs again when the owner changes."""

        def everything(_changed: Any) -> list[Request]:
            return [
                Request(job.metadata.namespace, job.metadata.name) for job in reconciler.jobs.list()
            ]

        for informer in self._deployments:
            reconciler.controller.watch(informer, everything)
        reconciler.controller.watch(self._definitions, everything)
