"""The writes of an MxJob's children: what is missing, what has to go, what is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.mxjob import children
from traincrew.plan.mxjob.observed import State
from traincrew.plan.mxjob.restarts import GRACE_SECONDS
from traincrew.plan.shared import pods
from traincrew.plan.shared.model import ChildKey, Observed, Write
from traincrew.plan.shared.templates import podtemplate
from traincrew.plan.shared.views import BatchJobView
from traincrew.plan.shared.writes import patch, stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.api.kinds.mxjob.types import MxJobSpec, ReplicaSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.mxjob.children import Place
    from traincrew.plan.mxjob.observed import ObservedJob, Replica
    from traincrew.plan.shared.reporting import Endpoint
    from traincrew.plan.shared.templates.accelerators import Accelerators
    from traincrew.plan.shared.views import ChildView
    from traincrew.plan.shared.writes import Stages


class Writes:
    """Compares the desired children with the existing ones.

    Args:
        observed: The children.
        owner: The job.
        spec: The desired state.
        runtime_id: The RuntimeId in use.
        current: The replicas.
        attempt: Returns the current attempt of a replica.
        accelerators: What containers that use an accelerator are given.
        endpoint: Where workers report their progress; None for nowhere.
    """

    def __init__(
        self,
        observed: Observed,
        owner: Owner,
        spec: MxJobSpec,
        runtime_id: str,
        *,
        current: ObservedJob,
        attempt: Callable[[Place], str],
        accelerators: Accelerators,
        endpoint: Endpoint | None = None,
    ) -> None:
        self._observed = observed
        self._owner = owner
        self._spec = spec
        self._runtime_id = runtime_id
        self._current = current
        self._attempt = attempt
        self._accelerators = accelerators
        self._endpoint = endpoint
        self._templates: dict[str, ReplicaSpec] = {
            each.mx_replica_type: each for each in spec.replica_specs
        }

    @property
    def grace_seconds(self) -> int | None:
        """The grace period of pods that a restart deletes; None if a template has its own."""
        own = (each.template["spec"] for each in self._spec.replica_specs)
        if any(spec.get("terminationGracePeriodSeconds") is not None for spec in own):
            return None
        return GRACE_SECONDS

    def missing(self) -> Stages:
        """Return the writes that create what is missing; the Service before all Jobs."""
        service = []
        if self._spec.distributed:
            document = children.service(self._owner, self._spec, self._runtime_id)
            if ChildKey("Service", document["metadata"]["name"]) not in self._observed.children:
                service.append(Write(create=document))
        jobs = [Write(create=self._job(replica)) for replica in self._current.of(State.ABSENT)]
        return stages(service, jobs)

    def missing_pods(self) -> dict[str, dict[str, Any]]:
        """Return the pods that controllers of Jobs have not created yet, by the names of the Jobs.

        One of each type is enough to learn what the API server refuses.
        """
        found: dict[str, Replica] = {}
        for replica in self._current.of(State.PENDING):
            if replica.pod is None:
                found.setdefault(replica.place.type, replica)
        return {
            replica.name: podtemplate.pod(self._job(replica), replica.name)
            for replica in found.values()
        }

    def leaving(self) -> dict[ChildKey, str]:
        """Return the Jobs of earlier attempts, and their pods, that are still to be deleted."""
        return self._with_pods(self._current.of(State.LEAVING))

    def everything(self) -> dict[ChildKey, str]:
        """Return all Jobs and pods that are still to be deleted."""
        return self._with_pods(self._current.replicas)

    def _with_pods(self, replicas: list[Replica]) -> dict[ChildKey, str]:
        found: dict[ChildKey, ChildView] = {}
        for replica in replicas:
            if replica.job is not None:
                found[replica.key] = replica.job
            found |= {ChildKey("Pod", pod.metadata.name): pod for pod in replica.pods}
        return {
            key: view.metadata.uid
            for key, view in found.items()
            if view.metadata.deletion_timestamp is None
        }

    def _job(self, replica: Replica) -> dict[str, Any]:
        return children.job(
            self._owner,
            self._spec,
            self._runtime_id,
            replica.place,
            replica=self._templates[replica.place.type],
            attempt=self._attempt(replica.place),
            configured=self._accelerators,
            endpoint=self._endpoint,
        )


def stop(observed: Observed) -> Stages:
    """Return the writes that stop what still runs, and keep the pods that have ended."""
    running: set[str] = set()
    ended: set[str] = set()
    for pod in observed.pods:
        if pod.metadata.controller is not None:
            (ended if pods.has_ended(pod) else running).add(pod.metadata.controller.uid)
    stopped = [
        patch(key, view, {("spec", "suspend"): True})
        for key, view in sorted(observed.children.items(), key=lambda item: item[0])
        if isinstance(view, BatchJobView)
        and not view.finished
        # A suspended Job deletes a pod whose containers have ended until its phase says so.
        and view.metadata.uid not in ended - running
        and not view.spec.suspend
    ]
    return stages(stopped)


def counted_pods(observed: Observed) -> dict[ChildKey, str]:
    """Return the pods that have ended and that the controllers of their Jobs have counted.

    A Job whose pod is deleted before that looks as if its pod had not been created yet.
    """
    pending = {
        view.metadata.uid
        for view in observed.children.values()
        if isinstance(view, BatchJobView) and not view.finished
    }
    return {
        ChildKey("Pod", pod.metadata.name): pod.metadata.uid
        for pod in observed.pods
        if pod.finished
        and pod.metadata.deletion_timestamp is None
        and (pod.metadata.controller is None or pod.metadata.controller.uid not in pending)
    }
