"""The writes of a JobSet's children: only what is missing, or differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.jobset import children, claims
from traincrew.plan.jobset.observed import replicated
from traincrew.plan.shared.model import ChildKey, Write
from traincrew.plan.shared.writes import patch, stages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.jobset.types import JobSetSpec, ReplicatedJob
    from traincrew.api.meta import ObjectMeta, Owner
    from traincrew.plan.jobset.observed import ObservedJobs
    from traincrew.plan.jobset.order import Opened
    from traincrew.plan.jobset.views import ReplicatedJobView
    from traincrew.plan.shared.model import Plan
    from traincrew.plan.shared.reporting import Endpoint
    from traincrew.plan.shared.writes import Values

_TEMPLATE = ("spec", "template")


class Writes:
    """Compares documents with the existing children.

    Args:
        jobs: The Jobs.
        metadata: That of the JobSet.
        owner: The JobSet.
        endpoint: Where programs report their progress.
    """

    def __init__(
        self, jobs: ObservedJobs, metadata: ObjectMeta, owner: Owner, endpoint: Endpoint | None
    ) -> None:
        self._jobs = jobs
        self._metadata = metadata
        self._owner = owner
        self._endpoint = endpoint

    def add_to(self, plan: Plan, spec: JobSetSpec, opened: Opened) -> None:
        """Add to a plan what a JobSet needs, whether it is suspended or not.

        Args:
            plan: The plan.
            spec: The desired state.
            opened: The replicated jobs whose turn it is.
        """
        self.delete(plan, self._jobs.previous)
        service = self._service(spec)
        # A Service that the user names may be one that others have: pods run without it.
        is_own = service is not None and service["metadata"]["name"] == self._owner.name
        first = [Write(create=service)] if service is not None and is_own else []
        first += claims.missing(self._jobs.observed, self._owner, spec)
        changes = self._suspended() if spec.suspend else self._resumed(opened)
        plan.stages = stages(first, [*self._missing(spec, opened), *changes])
        if service is not None and not is_own:
            plan.later = [Write(create=service)]

    def delete(self, plan: Plan, jobs: list[ReplicatedJobView]) -> None:
        """Delete Jobs; each stays until its pods are gone, so that its name is not used before."""
        for job in jobs:
            plan.delete_child(ChildKey("Job", job.metadata.name), job)
        plan.foreground = True

    def _service(self, spec: JobSetSpec) -> dict[str, Any] | None:
        """Return the Service, if it is to be created."""
        if not spec.has_host_names:
            return None
        document = children.service(self._owner, spec)
        return None if ChildKey.of(document) in self._jobs.observed.children else document

    def _missing(self, spec: JobSetSpec, opened: Opened) -> Iterator[Write]:
        policy = spec.failure_policy
        blocking = policy is not None and policy.restart_strategy == "BlockingRecreate"
        if blocking and self._jobs.previous:
            return
        for each in opened.jobs:
            for index in range(each.count):
                if children.job_name(self._owner.name, each.name, index) not in self._jobs.names:
                    yield Write(create=self._job(spec, each, index))

    def _job(self, spec: JobSetSpec, each: ReplicatedJob, index: int) -> dict[str, Any]:
        jobset = children.JobSet(
            owner=self._owner,
            annotations=self._metadata.annotations,
            spec=spec,
            endpoint=self._endpoint,
        )
        attempt = self._jobs.attempt(spec, each.name, index)
        return children.job(jobset, each, index, attempt)

    def _suspended(self) -> Iterator[Write | None]:
        for name, job in self._jobs.current.items():
            if not job.finished and not job.spec.suspend:
                yield patch(ChildKey("Job", name), job, {("spec", "suspend"): True})

    def _resumed(self, opened: Opened) -> Iterator[Write | None]:
        """Resume Jobs, with what Kueue or a user has changed meanwhile in where they may run."""
        by_name = {each.name: each for each in opened.jobs}
        for name, job in self._jobs.current.items():
            each = by_name.get(replicated(job))
            if each is None or job.finished or not job.spec.suspend:
                continue
            values: Values = {**_changes(job, each), ("spec", "suspend"): False}
            yield patch(ChildKey("Job", name), job, values)


def _changes(job: ReplicatedJobView, each: ReplicatedJob) -> Values:
    """Return what is added to the template of a Job that is resumed; nothing is removed there.

    The Job has more labels and annotations than its template had, and its own controller's.
    """
    found, wanted = job.spec.template, each.job["template"]
    values: Values = {}
    metadata = wanted.get("metadata") or {}
    for name, there in (
        ("labels", found.metadata.labels),
        ("annotations", found.metadata.annotations),
    ):
        for key, text in (metadata.get(name) or {}).items():
            if there.get(key) != text:
                values[(*_TEMPLATE, "metadata", name, key)] = text
    pod = wanted["spec"]
    selector = {**found.spec.node_selector, **(pod.get("nodeSelector") or {})}
    if selector != found.spec.node_selector:
        values[(*_TEMPLATE, "spec", "nodeSelector")] = selector
    for name, listed in (
        ("tolerations", found.spec.tolerations),
        ("schedulingGates", found.spec.scheduling_gates),
    ):
        if more := [item for item in pod.get(name) or [] if item not in listed]:
            values[(*_TEMPLATE, "spec", name)] = [*listed, *more]
    return values
