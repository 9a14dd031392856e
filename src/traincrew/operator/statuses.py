"""Writes the status of jobs.

A status is written once per reconcile, at the end, and only if it differs. Events are emitted after
the write that they report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from traincrew.api import fullstatus
from traincrew.engine import mergepatch
from traincrew.engine.observability import get_logger
from traincrew.operator.jobs import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.api.meta import CustomObject
    from traincrew.engine.events import Reporter
    from traincrew.operator.deferral import Deferral
    from traincrew.operator.jobs import JobWriter
    from traincrew.plan.shared.model import Plan

Schema = dict[str, Any]
"""A structural schema, as in a CustomResourceDefinition."""
KEEPS_EVERYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
"""The schema of a status of which every field is stored."""


class StatusWriter:
    """Writes the status of the jobs of one kind.

    Args:
        jobs: Writes jobs.
        deferral: Which writes can wait.
        events: Records the events of a plan.
        schema: Returns the schema of the status. What it drops is stored in an annotation.
    """

    def __init__(
        self,
        jobs: JobWriter,
        deferral: Deferral,
        events: Reporter,
        schema: Callable[[], Schema],
    ) -> None:
        self._jobs = jobs
        self._deferral = deferral
        self._events = events
        self._schema = schema
        self._log = get_logger()

    async def write(self, job: CustomObject, plan: Plan) -> tuple[str, float | None]:
        """Store the status of a plan if it differs.

        Returns:
            The job's new resourceVersion, and the delay in seconds if the status can be written
            later.

        Raises:
            JobGoneError: The job does not exist any more.
            ConflictError: It has changed.
            ApiError: The request failed.
        """
        version = job.metadata.resource_version
        patches = self._patches(job, plan.status)
        request = request_of(job)
        if not patches:
            self._deferral.status_settled(request)
            return version, None
        left = self._deferral.delay_status(request, urgent=plan.urgent, patient=plan.patient)
        if left:
            return version, left
        for patch in patches:
            subresource = "status" if "status" in patch else None
            version = await self._jobs.patch(job, patch, subresource=subresource)
            metadata = structs.replace(job.metadata, resource_version=version)
            job = structs.replace(job, metadata=metadata)
        self._deferral.status_settled(request)
        for event in plan.events:
            self._log.info(event.message, reason=event.reason)
            self._events.event(self._jobs.reference(job), event.type, event.reason, event.message)
        return version, None

    def _patches(self, job: CustomObject, status: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the patches that are needed: of the annotation, then of the status.

        Whoever waits for a condition finds the rest as well.
        """
        if not isinstance(job, fullstatus.ProjectJob):
            changes = mergepatch.difference(job.status, status)
            return [{"status": changes}] if changes else []
        schema, before = self._schema(), job.metadata.annotations.get(fullstatus.ANNOTATION)
        stored = fullstatus.pruned(status, schema)
        after = fullstatus.annotation(job.metadata.uid, status, stored) or None
        changes = mergepatch.difference(job.stored_status or {}, stored)
        patches: list[dict[str, Any]] = []
        if after != before:
            patches.append({"metadata": {"annotations": {fullstatus.ANNOTATION: after}}})
        if changes:
            patches.append({"status": changes})
        return patches if after is not None else patches[::-1]
