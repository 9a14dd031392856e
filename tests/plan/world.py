"""A simulated operator for any plan: it executes the plans of one job in a simulated cluster.

A plan observes the cluster through the same views as in the operator.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from plan.cluster import Cluster
from traincrew.api.meta import CustomObject, format_time
from traincrew.engine import mergepatch
from traincrew.plan.kinds import KINDS
from traincrew.plan.shared import stall
from traincrew.plan.shared.gangs import groups
from traincrew.plan.shared.kind import Options
from traincrew.plan.shared.model import (
    ChildKey,
    Confirm,
    Decision,
    Event,
    GangState,
    GroupQuery,
    GroupWrite,
    LogKey,
    ObjectKey,
    ObjectQuery,
    Observed,
    Output,
    OutputQuery,
    Plan,
    Priority,
    QueueQuery,
    QueueState,
    QueueWrite,
    Refusal,
    SpecPatch,
    Write,
)
from traincrew.plan.shared.views import (
    BatchJobView,
    ChildView,
    ConfigMapView,
    ObservedPod,
    PodGroupView,
    RoleBindingView,
    RoleView,
    StatefulSetView,
    WorkloadView,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.plan.shared.schedulers import Served

HELPER_IMAGE = "traincrew/helper:test"
OPTIONS = Options(helper_image=HELPER_IMAGE, git_image="traincrew/git:test")
VIEWS: dict[str, type[ChildView]] = {
    "Service": ChildView,
    "ServiceAccount": ChildView,
    "Role": RoleView,
    "RoleBinding": RoleBindingView,
    "ConfigMap": ConfigMapView,
    "StatefulSet": StatefulSetView,
    "Job": BatchJobView,
    "PodDisruptionBudget": ChildView,
    "NetworkPolicy": ChildView,
    "HorizontalPodAutoscaler": ChildView,
}
JOB_UID = "job-uid"


class CrashedError(Exception):
    """The operator has crashed."""


def writes_children(plan: Plan) -> bool:
    """Whether a plan writes or deletes any child."""
    return bool(plan.delete or plan.later or any(plan.stages))


class World(Cluster):
    """One job and everything around it.

    Args:
        manifest: The job, of any kind.
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        kind = next(each for each in KINDS if each.definition.kind == manifest["kind"])
        super().__init__(next(iter(kind.definition.containers), "main"))
        plan = kind.plan
        self._views = VIEWS | {child.kind: child.view for child in kind.children}
        self._plan: Callable[[Observed, datetime], Decision] = lambda observed, now: plan(
            observed, now, OPTIONS
        )
        self.name: str = manifest["metadata"]["name"]
        self.writes = 0
        self.crash_at: int | None = None
        self.defers = False
        """Whether only urgent changes of the status are written, the others later."""
        self.events: list[Event] = []
        self.foreign: set[ChildKey] = set()
        self.refuse: dict[ChildKey, Refusal] = {}
        self.leftovers: frozenset[ChildKey] = frozenset()
        self.job = copy.deepcopy(manifest)
        self.job["metadata"] |= {
            "namespace": "default",
            "uid": JOB_UID,
            "generation": 1,
            "creationTimestamp": self.stamp(),
        }
        self.job.setdefault("status", {})
        self.deleted = False
        self.statuses: list[dict[str, Any]] = []
        """Every status that was ever stored."""
        self.requeue_after: float | None = None
        self.unreachable: set[str] = set()
        """Pods whose output cannot be read."""
        self.requests: list[str] = []
        """Pods whose output was read."""
        self.exits_with = 143
        """What the programs exit with when their pod is deleted."""
        self._outputs: dict[LogKey, Output] = {}
        self.served: list[Served] = []
        """Schedulers of gangs that the cluster has."""
        self.groups: dict[str, dict[str, Any]] = {}
        """PodGroups by name."""
        self._gang: GangState | None = None
        self.workloads: dict[str, dict[str, Any]] = {}
        """Workloads by name."""
        self.flavors: dict[str, dict[str, Any]] = {}
        """``spec`` of flavors, by name."""
        self.queue_problem = ""
        """Why the operator cannot queue jobs."""
        self._queue: QueueState | None = None
        self.objects: dict[ObjectKey, dict[str, Any]] = {}
        """What jobs refer to."""
        self._objects: dict[ObjectKey, dict[str, Any] | None] = {}

    # -- the operator -------------------------------------------------------------------------

    def observed(
        self, refusals: dict[ChildKey, Refusal] | None = None, *, confirmed: bool = False
    ) -> Observed:
        """What the operator observes: pods that the job owns itself are children as well."""
        seen = sorted(self.seen_pods(confirmed).items())
        pods = [msgspec.convert(pod, ObservedPod) for _, pod in seen]
        children: dict[ChildKey, ChildView] = {
            key: msgspec.convert(document, self._views[key.kind])
            for key, document in self.children.items()
        }
        uids = {JOB_UID, *(child.metadata.uid for child in children.values())}
        owners = {pod.metadata.uid: owner_uid(pod) for pod in pods}
        children |= {
            ChildKey("Pod", pod.metadata.name): pod
            for pod in pods
            if owners[pod.metadata.uid] == JOB_UID
        }
        return Observed(
            job=msgspec.convert(self.job, CustomObject),
            children=children,
            pods=tuple(pod for pod in pods if owners[pod.metadata.uid] in uids),
            departing=tuple(pod for pod in pods if owners[pod.metadata.uid] not in uids),
            refusals=refusals or {},
            confirmed=confirmed,
            drifted=self.drifted,
            leftovers=self.leftovers,
            outputs=dict(self._outputs),
            objects=self._objects,
            gang=self._gang,
            queue=self._queue,
        )

    def plan(self, refusals: dict[ChildKey, Refusal] | None = None) -> Plan:
        """The plan that the operator would execute now."""
        decision = self.decide(refusals)
        assert isinstance(decision, Plan)
        return decision

    def decide(self, refusals: dict[ChildKey, Refusal] | None = None) -> Decision:
        """What the operator would do now, after it has answered each question once."""
        decision = self._confirmed(refusals)
        if isinstance(decision, OutputQuery):
            self._read(decision)
            decision = self._confirmed(refusals)
            # The next reconcile is later, if only by a moment.
            moment = timedelta(microseconds=1)
            self._outputs = {
                key: msgspec.structs.replace(output, read_at=output.read_at - moment)
                for key, output in self._outputs.items()
            }
        return decision

    def _confirmed(self, refusals: dict[ChildKey, Refusal] | None) -> Decision:
        decision = self._plan(self.observed(refusals), self.now)
        if isinstance(decision, ObjectQuery):
            self._objects = {
                key: self.objects.get(key) or self.children.get(ChildKey(*key))
                for key in decision.keys
            }
            try:
                return self._confirmed(refusals)
            finally:
                self._objects = {}
        if isinstance(decision, QueueQuery):
            self._queue = self._read_queue(decision)
            try:
                return self._confirmed(refusals)
            finally:
                self._queue = None
        if isinstance(decision, Confirm):
            decision = self._plan(self.observed(refusals, confirmed=True), self.now)
            assert not isinstance(decision, Confirm)
        if isinstance(decision, GroupQuery):
            self._gang = self._answer(decision)
            try:
                return self._confirmed(refusals)
            finally:
                self._gang = None
        return decision

    def _answer(self, query: GroupQuery) -> GangState:
        served = groups.choose("auto", self.served, query.scheduler)
        if query.engine:
            served = next((each for each in self.served if each.name == query.engine), None)
        if served is None:
            return GangState()
        found = self.groups.get(groups.name_of(query.owner, served.name))
        view = msgspec.convert(found, PodGroupView) if found is not None else None
        return GangState(served=served, group=view)

    def _read_queue(self, query: QueueQuery) -> QueueState:
        """Read what the operator reads of Kueue."""
        if self.queue_problem:
            return QueueState(problem=self.queue_problem)
        views = {}
        for name, found in self.workloads.items():
            if name == query.name or query.job_uid:
                names = tuple(found["metadata"].get("finalizers", ()))
                view = msgspec.convert(found, WorkloadView)
                views[name] = msgspec.structs.replace(view, finalizers=names)
        flavors = self.flavors if views else {}
        first = views.pop(query.name, None)
        slices = tuple(views.values())
        return QueueState(workload=first, slices=slices, flavors=flavors, priority=Priority())

    def _write_workload(self, write: QueueWrite) -> None:
        """Write a Workload as the API server does."""
        self._write()
        if write.create is not None:
            document = copy.deepcopy(write.create)
            document["metadata"] |= {"uid": f"workload-{self.writes}", "generation": 1}
            document["status"] = {}
            assert document["metadata"]["name"] not in self.workloads
            self.workloads[document["metadata"]["name"]] = document
            return
        assert write.found is not None
        name = write.found.metadata.name
        if not write.delete:
            patch = write.patch if write.patch is not None else {"status": write.status}
            self.workloads[name] = mergepatch.apply(self.workloads[name], patch)
            self.workloads[name]["metadata"]["generation"] += "spec" in patch
        metadata = self.workloads[name]["metadata"]
        if write.delete:
            metadata["deletionTimestamp"] = self.stamp()
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.workloads[name]

    def _write_group(self, group: GroupWrite) -> None:
        self._write()
        if group.delete is not None:
            del self.groups[group.delete.metadata.name]
        elif group.write is not None and group.write.create is not None:
            document = copy.deepcopy(group.write.create)
            document["metadata"]["uid"] = f"group-{self.writes}"
            document["status"] = {}
            assert document["metadata"]["name"] not in self.groups
            self.groups[document["metadata"]["name"]] = document
        else:
            assert group.write is not None
            assert group.write.patch is not None
            found = self.groups[group.write.patch.key.name]
            for (part, name), value in group.write.patch.values.items():
                if value is None:
                    del found[part][name]
                else:
                    found[part][name] = value

    def _read(self, query: OutputQuery) -> None:
        """Read the last lines of containers as the operator does."""
        for key in query.keys:
            self.requests.append(key.pod)
            pod, text = self.pods.get(key.pod), None
            if pod and pod["status"]["phase"] == "Running" and key.pod not in self.unreachable:
                written = self.printed.get(pod["metadata"]["uid"])
                text = f"{format_time(written)} epoch 3" if written is not None else ""
            output = stall.output_after(self._outputs.get(key), text, self.now)
            self._outputs[key] = output
            if not output.known or (output.written_at and output.written_at > query.since):
                return

    def _assert_silent(self) -> None:
        """Assert that no running pod has written output since the deadline, as far as known."""
        spec = self.job["spec"]
        policy = spec.get("runPolicy", spec)
        since = self.now - timedelta(seconds=policy["progressDeadlineSeconds"])
        running = {
            name: pod
            for name, pod in self.pods.items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }
        assert running
        assert not self.unreachable & running.keys()
        for name, pod in running.items():
            assert self.printed.get(pod["metadata"]["uid"], since) <= since, name

    def restart_operator(self) -> None:
        """Another operator takes over, which knows nothing but what is stored."""
        self._outputs = {}

    def step(self) -> bool:
        """Reconcile once; return whether anything was written."""
        before = self.writes
        plan = self.decide()
        if isinstance(plan, SpecPatch):
            self._write()
            _merge(self.job, plan.patch)
            self.job["metadata"]["generation"] += 1
            return True
        if not isinstance(plan, Plan):
            return False  # what the plan depends on has changed meanwhile: it is made again
        refusals = self._obey(plan)
        if refusals:
            plan = self.plan(refusals)
        if plan.status != self.job["status"] and (plan.urgent or not self.defers):
            self._write()
            if _stalled(plan.status) and not _stalled(self.job["status"]):
                self._assert_silent()
            self.job["status"] = copy.deepcopy(plan.status)
            self.statuses.append(self.job["status"])
            self.events += plan.events
        if plan.delete_job:
            self._write()
            self.deleted = True
        self.requeue_after = plan.requeue_after
        return self.writes > before

    def _obey(self, plan: Plan) -> dict[ChildKey, Refusal]:
        """Execute a plan as the operator does; return what was refused."""
        if plan.group is not None:
            self._write_group(plan.group)
        for each in plan.queue:
            self._write_workload(each)
        refusals = self._write_stages(plan.stages)
        for key, refusal in self._write_stages([plan.later]).items():
            refusals[key] = msgspec.structs.replace(refusal, permanent=False)
        if refusals:
            return refusals
        for key, uid in plan.delete.items():
            self._write()
            self._delete(key, uid)
        return {}

    def _write_stages(self, stages: list[list[Write]]) -> dict[ChildKey, Refusal]:
        for stage in stages:
            refusals = {}
            for write in stage:
                if write.create is not None:
                    key = ChildKey(write.create["kind"], write.create["metadata"]["name"])
                    assert key not in self.children, f"{key} exists"
                    if key in self.foreign:
                        refusals[key] = Refusal("exists", foreign=True)
                    elif key in self.refuse:
                        refusals[key] = self.refuse[key]
                    else:
                        self._write()
                        self._create(key, write.create)
                else:
                    assert write.patch is not None
                    self._write()
                    self._change(write.patch.key, write.patch.uid, write.patch.values)
            if refusals:
                return refusals
        return {}

    def _write(self) -> None:
        if self.crash_at is not None and self.writes >= self.crash_at:
            self.crash_at = None
            raise CrashedError
        self.writes += 1

    def settle_or_delete(self) -> None:
        """Like `settle`, for a job that may outlive its time to live meanwhile."""
        for _ in range(50):
            changed = self.step()
            if self.deleted:
                return
            changed |= self.controllers()
            if not changed:
                return
        raise AssertionError("the world does not come to rest")

    def settle(self) -> None:
        """Run the operator and the controllers until nothing changes any more."""
        for _ in range(50):
            changed = self.step()
            changed |= self.controllers()
            if not changed:
                return
        raise AssertionError("the world does not come to rest")

    def edit(self, **spec: Any) -> None:
        """Change the job's spec."""
        for name, value in spec.items():
            self.job["spec"][name] = value
        self.job["metadata"]["generation"] += 1

    # -- what users see -----------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        """The job's status."""
        status: dict[str, Any] = self.job["status"]
        return status

    def without(self, *conditions: str) -> dict[str, Any]:
        """The job's status without some conditions."""
        kept = [item for item in self.status["conditions"] if item["type"] not in conditions]
        return {**self.status, "conditions": kept}

    @property
    def conditions(self) -> dict[str, dict[str, Any]]:
        """The conditions of the job, by type."""
        listed = self.status.get("conditions", [])
        found = {item["type"]: item for item in listed}
        assert len(found) == len(listed)
        return found

    def holds(self, kind: str) -> bool:
        """Whether a condition is true."""
        found = self.conditions
        return kind in found and bool(found[kind]["status"] == "True")


def owner_uid(pod: ObservedPod) -> str:
    """UID of the controller of a pod."""
    found = pod.metadata.controller
    return found.uid if found is not None else ""


def _stalled(status: dict[str, Any]) -> bool:
    return bool(status.get("reason") == "NoProgress")


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if isinstance(value, dict):
            _merge(document.setdefault(name, {}), value)
        else:
            document[name] = value
