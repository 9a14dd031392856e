"""Whose jobs those of another project's kind are: its own operator's, or ours.

While the project's operator runs, both would create the pods of each job. So that one comes first.
It is there as long as its Deployment, by label, wants pods, or as somebody renews its Lease. Jobs
get an empty plan meanwhile. See docs/design/todays-manifests.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field, structs

from traincrew.api.meta import ObjectMeta, View
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, LEASES
from traincrew.operator.statuses import KEEPS_EVERYTHING, Schema
from traincrew.plan.shared.model import Plan

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kind import Project
    from traincrew.engine.cache import Informer
    from traincrew.engine.controller import Controller, Manager, Request
    from traincrew.operator.kind import OperatedKind
    from traincrew.plan.shared.model import Decision, Observed

LEASE_SECONDS = 15
"""How long a Lease counts that does not say it; client-go's default."""
MAX_LEASE_SECONDS = 300
"""The longest time that a Lease counts without a renewal, whatever it says."""


class _Replicas(View, frozen=True, gc=False, kw_only=True):
    replicas: int | None = None


class Deployment(View, frozen=True, gc=False, kw_only=True):
    """A Deployment, as far as it tells whether its program runs: not if it is scaled to zero."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Replicas = field(default_factory=_Replicas)


class _Holder(View, frozen=True, gc=False, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(View, frozen=True, gc=False, kw_only=True):
    """A Lease of leader election."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Holder = field(default_factory=_Holder)


class _OpenAPI(Struct):
    properties: dict[str, dict[str, Any]] = field(default_factory=dict)


class _Schema(Struct):
    root: _OpenAPI = field(default_factory=_OpenAPI, name="openAPIV3Schema")


class _Version(Struct):
    name: str = ""
    schema: _Schema = field(default_factory=_Schema)


class _Versions(Struct):
    versions: list[_Version] = field(default_factory=list)


class Definition(Struct):
    """A CustomResourceDefinition, as far as it tells what a status can store."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Versions = field(default_factory=_Versions)

    def status_schema(self, version: str) -> Schema:
        """Return the schema of the status in a version."""
        for each in self.spec.versions:
            if each.name == version:
                return each.schema.root.properties.get("status", {})
        return KEEPS_EVERYTHING


class _Held(NamedTuple):
    holder: str
    until: float
    """Until when it counts, by this process's clock; those of holders may be wrong."""


class Served(Protocol):
    """What works only while a kind is served here."""

    controller: Controller

    def requests(self) -> list[Request]:
        """Return the requests for everything that it reconciles."""
        ...


class Ownership:
    """Watches who owns one kind, in all namespaces.

    Args:
        manager: Runs the watches; nothing is reconciled before their first answers.
        kind: The kind.
        project: The project whose kind it is.
        clock: Source of time.
    """

    def __init__(
        self,
        manager: Manager,
        kind: OperatedKind,
        project: Project,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._kind, self._project, self._clock = kind, project, clock
        self._deployments = _informer(
            manager, DEPLOYMENTS, Deployment, label_selector=project.deployments
        )
        self._leases: Informer[Any] | None = None
        if project.lease:
            self._leases = _informer(
                manager, LEASES, Lease, field_selector=f"metadata.name={project.lease}"
            )
            self._leases.add_handler(self._lease_changed)
        name = f"{kind.resource.plural}.{kind.resource.group}"
        self._definitions = _informer(
            manager,
            CUSTOM_RESOURCE_DEFINITIONS,
            Definition,
            field_selector=f"metadata.name={name}",
        )
        self._deployments.add_handler(self._deployment_changed)
        self._definitions.add_handler(self._definition_changed)
        self._held: dict[str, _Held] = {}
        self._status_schema = KEEPS_EVERYTHING
        self._said = ""

    # -- what is there ------------------------------------------------------------------------

    def _deployment_changed(self, _old: Deployment | None, _new: Deployment | None) -> None:
        self._say()

    @property
    def _running(self) -> set[str]:
        """The Deployments that want pods."""
        found: list[Deployment] = self._deployments.store.list()
        return {_name_of(each) for each in found if each.spec.replicas != 0}

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        if new is None:
            assert old is not None
            self._held.pop(_name_of(old), None)
        elif not new.spec.holder_identity:
            self._held.pop(_name_of(new), None)  # released
        elif old is None or old.spec != new.spec:
            seconds = new.spec.lease_duration_seconds or LEASE_SECONDS
            until = self._clock.monotonic() + min(max(seconds, 1), MAX_LEASE_SECONDS)
            self._held[_name_of(new)] = _Held(new.spec.holder_identity, until)
        self._say()

    def _definition_changed(self, _old: Definition | None, new: Definition | None) -> None:
        # Without a definition there are no jobs.
        if new is not None:
            self._status_schema = new.status_schema(self._kind.resource.version)

    def status_schema(self) -> Schema:
        """The schema of the status in the kind's definition."""
        return self._status_schema

    @property
    def why_not(self) -> str:
        """Why the kind is not served here; empty if it is."""
        if self._running:
            return f"Deployment {min(self._running)} of {self._project.name} serves it"
        now = self._clock.monotonic()
        for name, held in sorted(self._held.items()):
            if held.until > now:
                return f"{held.holder} has Lease {name} of {self._project.name}, and serves it"
        return ""

    @property
    def seconds_left(self) -> float | None:
        """When to ask again, if only Leases are in the way: nobody tells that one is over."""
        if self._running or not self._held:
            return None
        left = max(held.until for held in self._held.values()) - self._clock.monotonic()
        return max(left, 0.1)

    def _say(self) -> str:
        """Log a change; return why the kind is not served here."""
        why, before = self.why_not, self._said
        if why != before:
            self._said = why
            log, kind = get_logger(), self._kind.resource.kind
            if why:
                log.warning("a kind is not served here", kind=kind, reason=why)
            else:
                log.info("a kind is served here again", kind=kind)
        return why

    # -- what follows -------------------------------------------------------------------------

    def guarded(self) -> OperatedKind:
        """Return the kind with plans that do nothing while it is not served here."""
        kind = self._kind

        def plan(observed: Observed, now: datetime) -> Decision:
            if self._say():
                return Plan(status=observed.job.status, requeue_after=self.seconds_left)
            return kind.plan(observed, now)

        return structs.replace(kind, plan=plan)

    def serve(self, served: Served) -> None:
        """Reconcile everything again when the owner, or the definition, changes."""

        def everything(_changed: Any) -> list[Request]:
            return served.requests()

        def unless_renewed(lease: Lease) -> list[Request]:
            # A renewal every other second changes nothing.
            return [] if _name_of(lease) in self._held else everything(lease)

        served.controller.watch(self._deployments, everything)
        if self._leases is not None:
            served.controller.watch(self._leases, unless_renewed)
        served.controller.watch(self._definitions, everything)


def _name_of(obj: Deployment | Lease) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def _informer(manager: Manager, *args: Any, **selected: Any) -> Informer[Any]:
    informer: Informer[Any] = manager.informer(*args, **selected)
    return informer
