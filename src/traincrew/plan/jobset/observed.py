"""The observed state of a JobSet: its Jobs, by the attempt that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from traincrew.plan.jobset.children import (
    LABEL_ATTEMPT,
    LABEL_INDEX,
    LABEL_JOB_ATTEMPT,
    LABEL_REPLICATED,
    Attempt,
)
from traincrew.plan.jobset.views import ReplicatedJobView
from traincrew.plan.shared.lifecycle import ReplicaStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.api.kinds.jobset.types import JobSetSpec, ReplicatedJob
    from traincrew.plan.jobset.status import JobSetStatus, ReplicatedJobStatus
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.views import ObservedPod


class ObservedJobs:
    """The Jobs of one JobSet, as a reconcile sees them.

    Attributes:
        current: Those of this attempt, by name.
        previous: Those of earlier attempts, which are to be deleted.
    """

    def __init__(self, observed: Observed, stored: JobSetStatus) -> None:
        self.observed, self.stored = observed, stored
        jobs = [each for each in observed.children.values() if isinstance(each, ReplicatedJobView)]
        jobs.sort(key=lambda each: each.metadata.name)
        self.previous = [each for each in jobs if self._is_earlier(each)]
        self.current = {each.metadata.name: each for each in jobs if not self._is_earlier(each)}
        self.names = frozenset(each.metadata.name for each in jobs)

    def _is_earlier(self, job: ReplicatedJobView) -> bool:
        labels, stored = job.metadata.labels, self.stored
        if _number(labels, LABEL_ATTEMPT, stored.restarts) < stored.restarts:
            return True
        wanted = stored.of(replicated(job)).restarts_of(index_of(job))
        return _number(labels, LABEL_JOB_ATTEMPT, wanted) < wanted

    @property
    def failed(self) -> list[ReplicatedJobView]:
        """The Jobs of this attempt that have failed, the first one first."""
        found = [each for each in self.current.values() if each.holds("Failed")]
        return sorted(found, key=lambda each: (failed_at(each), each.metadata.name))

    @property
    def succeeded(self) -> list[ReplicatedJobView]:
        """The Jobs of this attempt that have succeeded."""
        return [each for each in self.current.values() if each.holds("Complete")]

    def attempt(self, spec: JobSetSpec, name: str, index: int) -> Attempt:
        """Return the attempt of a Job that is created now."""
        single = self.stored.of(name).restarts_of(index)
        return Attempt(
            whole=self.stored.restarts, single=single if spec.restarts_single_jobs else None
        )

    def pods_of(self, job: ReplicatedJobView) -> list[ObservedPod]:
        """Return the pods of a Job."""
        uid = job.metadata.uid
        return [
            pod
            for pod in self.observed.pods
            if pod.metadata.controller is not None and pod.metadata.controller.uid == uid
        ]

    @property
    def pods(self) -> list[ObservedPod]:
        """The pods of the Jobs of this attempt."""
        uids = {each.metadata.uid for each in self.current.values()}
        return [
            pod
            for pod in self.observed.pods
            if pod.metadata.controller is not None and pod.metadata.controller.uid in uids
        ]

    def counts(self, each: ReplicatedJob) -> ReplicatedJobStatus:
        """Return the Jobs of a replicated job by state; what is stored of restarts is kept."""
        jobs = [job for job in self.current.values() if replicated(job) == each.name]
        runs = [job for job in jobs if not job.finished]
        return msgspec.structs.replace(
            self.stored.of(each.name),
            ready=sum(is_ready(job, each) for job in runs),
            succeeded=sum(job.holds("Complete") for job in jobs),
            failed=sum(job.holds("Failed") for job in jobs),
            active=sum(_count(job, "active") > 0 for job in runs),
            suspended=sum(job.spec.suspend for job in runs),
        )

    def status_with_counts(self, spec: JobSetSpec | None, *, wanted: bool) -> JobSetStatus:
        """Return the stored status with the counts of this reconcile."""
        if spec is None:
            return msgspec.structs.replace(self.stored)
        counts = [self.counts(each) for each in spec.replicated_jobs]
        roles = {
            each.name: _numbers(
                [
                    pod
                    for pod in self.observed.pods
                    if pod.metadata.labels.get(LABEL_REPLICATED) == each.name
                ]
            )
            for each in sorted(spec.replicated_jobs, key=lambda each: each.name)
        }
        total = sum(each.count * each.pods_at_once for each in spec.replicated_jobs)
        total = total if wanted else 0
        ready = sum(each.ready for each in roles.values())
        return msgspec.structs.replace(
            self.stored,
            replica_statuses=roles,
            # In the order in which JobSet stores them.
            replicated_jobs_status=sorted(counts, key=lambda each: each.name, reverse=True),
            workers_ready=f"{min(ready, total)}/{total}",
        )


def replicated(job: ReplicatedJobView) -> str:
    """Return the name of the replicated job that a Job is one of."""
    return job.metadata.labels.get(LABEL_REPLICATED, "")


def index_of(job: ReplicatedJobView) -> int:
    """Return the number of a Job within its replicated job."""
    return _number(job.metadata.labels, LABEL_INDEX, 0)


def failed_at(job: ReplicatedJobView) -> str:
    """Return when a Job has failed."""
    found = job.condition("Failed") or {}
    return str(found.get("lastTransitionTime") or "")


def is_ready(job: ReplicatedJobView, each: ReplicatedJob) -> bool:
    """Return whether all pods of a Job are ready, or have succeeded."""
    return _count(job, "succeeded") + _count(job, "ready") >= each.pods_at_once


def _count(job: ReplicatedJobView, name: str) -> int:
    return int(job.status.get(name) or 0)


def _number(labels: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in a label; the default if somebody has changed it to something else."""
    given = labels.get(name, "")
    return int(given) if given.isascii() and given.isdecimal() else default


def _numbers(members: list[ObservedPod]) -> ReplicaStatus:
    return ReplicaStatus(
        active=sum(pod.active for pod in members), ready=sum(pod.ready for pod in members)
    )
