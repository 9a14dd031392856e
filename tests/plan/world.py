"""A simulated cluster for any plan: it executes plans, and simulates controllers and pods.

Nothing in it takes time: the test advances the clock, runs the controllers, and sets the state of
each pod. A plan observes it through the same views as in the operator. Pods that are deleted stay
until the node has let go of them (`World.controllers`).

A kind adds what must hold whenever its plans write (`_create`, `_change`, `assert_may_delete`).
"""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.meta import CustomObject, format_time
from traincrew.plan.kinds import KINDS
from traincrew.plan.shared import stall
from traincrew.plan.shared.kind import Options
from traincrew.plan.shared.model import (
    ChildKey,
    ChildView,
    ConfigMapView,
    Confirm,
    Decision,
    Event,
    JobView,
    LogKey,
    Observed,
    Output,
    OutputQuery,
    Plan,
    PodView,
    Refusal,
    RoleBindingView,
    RoleView,
    SpecPatch,
    StatefulSetView,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HELPER_IMAGE = "traincrew/helper:test"
OPTIONS = Options(helper_image=HELPER_IMAGE, git_image="traincrew/git:test")
VIEWS: dict[str, type[ChildView]] = {
    "Service": ChildView,
    "ServiceAccount": ChildView,
    "Role": RoleView,
    "RoleBinding": RoleBindingView,
    "ConfigMap": ConfigMapView,
    "StatefulSet": StatefulSetView,
    "Job": JobView,
    "PodDisruptionBudget": ChildView,
    "NetworkPolicy": ChildView,
}
JOB_UID = "job-uid"
PLACED = {"type": "PodReadyToStartContainers", "status": "True"}
"""Condition of a pod whose node pulls its images, or as if: whatever else it waits for is there."""


class CrashedError(Exception):
    """The operator has crashed."""


def writes_children(plan: Plan) -> bool:
    """Whether a plan writes or deletes any child."""
    return bool(plan.delete or plan.later or any(plan.stages))


class World:
    """One job and everything around it.

    Args:
        manifest: The job, of any kind.
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        kind = next(each for each in KINDS if each.definition.kind == manifest["kind"])
        plan = kind.plan
        self._plan: Callable[[Observed, datetime], Decision] = lambda observed, now: plan(
            observed, now, OPTIONS
        )
        self.container = next(iter(kind.definition.containers), "main")
        """The container of pods whose spec is not known."""
        self.name: str = manifest["metadata"]["name"]
        self._uids = itertools.count(1)
        self.writes = 0
        self.crash_at: int | None = None
        self.defers = False
        """Whether only urgent changes of the status are written, the others later."""
        self.events: list[Event] = []
        self.children: dict[ChildKey, dict[str, Any]] = {}
        self.foreign: set[ChildKey] = set()
        self.refuse: dict[ChildKey, Refusal] = {}
        self.drifted: frozenset[ChildKey] = frozenset()
        self.leftovers: frozenset[ChildKey] = frozenset()
        self.pods: dict[str, dict[str, Any]] = {}
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
        self.made: dict[str, int] = {}
        """How many pods were made, by name; those of the master all count as one."""
        self.printed: dict[str, datetime] = {}
        """When the containers of pods last wrote a line, by UID of the pod."""
        self.unreachable: set[str] = set()
        """Pods whose output cannot be read."""
        self.requests: list[str] = []
        """Pods whose output was read."""
        self.exits_with = 143
        """What the programs exit with when their pod is deleted."""
        self._outputs: dict[LogKey, Output] = {}

    # -- the operator -------------------------------------------------------------------------

    def observed(
        self, refusals: dict[ChildKey, Refusal] | None = None, *, confirmed: bool = False
    ) -> Observed:
        """What the operator observes: pods that the job owns itself are children as well."""
        seen = sorted(self.seen_pods(confirmed).items())
        pods = [msgspec.convert(pod, PodView) for _, pod in seen]
        children: dict[ChildKey, ChildView] = {
            key: msgspec.convert(document, VIEWS[key.kind])
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
        )

    def seen_pods(self, confirmed: bool) -> dict[str, dict[str, Any]]:
        """The pods in the operator's cache, or as the API server lists them now."""
        return self.pods

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
        if isinstance(decision, Confirm):
            decision = self._plan(self.observed(refusals, confirmed=True), self.now)
            assert not isinstance(decision, Confirm)
        return decision

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

    # -- the API ------------------------------------------------------------------------------

    def stamp(self) -> str:
        """The time in the format of the API."""
        return format_time(self.now)

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        if key.kind == "Pod":
            self._create_pod(key.name, document)
            return
        created = copy.deepcopy(document)
        created["metadata"] |= {
            "uid": f"uid-{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": self.stamp(),
        }
        self.children[key] = created
        self._assert_own_pods(key)

    def _create_pod(self, name: str, document: dict[str, Any]) -> None:
        assert name not in self.pods, f"pod {name} exists"
        pod = copy.deepcopy(document)
        uid = f"uid-{next(self._uids)}"
        pod["metadata"] |= {"uid": uid, "creationTimestamp": self.stamp()}
        pod["status"] = {"phase": "Pending", "conditions": [PLACED], "containerStatuses": []}
        self.made[name] = self.made.get(name, 0) + 1
        self.pods[name] = pod

    def _change(self, key: ChildKey, uid: str, values: dict[tuple[str, ...], Any]) -> None:
        document = self.pods[key.name] if key.kind == "Pod" else self.children[key]
        assert document["metadata"]["uid"] == uid
        for path, value in values.items():
            *parents, last = path
            node = document
            for parent in parents:
                node = node[parent]
            if value is None:
                del node[last]
            else:
                node[last] = copy.deepcopy(value)
        if key.kind == "Pod":
            return
        document["metadata"]["generation"] += 1
        self.drifted -= {key}
        self._assert_own_pods(key)

    def _assert_own_pods(self, key: ChildKey) -> None:
        """Assert that a Role that was just written names nothing but pods of ours that exist."""
        if key.kind != "Role":
            return
        sets = {
            document["metadata"]["uid"]: key.name
            for key, document in self.children.items()
            if key.kind == "StatefulSet"
        }
        pods = {**self.seen_pods(confirmed=False), **self.pods}
        mine = {name for name, pod in pods.items() if owner(pod) in sets}
        assert mine.issuperset(self.granted)
        assert set(sets.values()).issuperset(self.readable)

    @property
    def granted(self) -> list[str]:
        """The pods that the Role names."""
        roles = [document for key, document in self.children.items() if key.kind == "Role"]
        return self._named(roles[0], "pods/exec") if roles else []

    @property
    def readable(self) -> list[str]:
        """The StatefulSets that the Role names."""
        roles = [document for key, document in self.children.items() if key.kind == "Role"]
        return self._named(roles[0], "statefulsets") if roles else []

    def _named(self, role: dict[str, Any], resource: str) -> list[str]:
        assert all(each["resourceNames"] for each in role["rules"]), "every object is named"
        names = [each["resourceNames"] for each in role["rules"] if resource in each["resources"]]
        return [name for found in names for name in found]

    def _delete(self, key: ChildKey, uid: str) -> None:
        if key.kind != "Pod":
            assert self.children[key]["metadata"]["uid"] == uid
            self.remove(key)
            return
        pod = self.pods[key.name]
        assert pod["metadata"]["uid"] == uid
        self.assert_may_delete(pod)
        self.leave(pod)

    def assert_may_delete(self, pod: dict[str, Any]) -> None:
        """Assert that what only this pod shows is stored before it is deleted."""

    def leave(self, pod: dict[str, Any]) -> None:
        """Begin to delete a pod."""
        pod["metadata"].setdefault("deletionTimestamp", self.stamp())

    def remove(self, key: ChildKey) -> None:
        """Delete a child, and its pods with it."""
        uid = self.children.pop(key)["metadata"]["uid"]
        self.pods = {name: pod for name, pod in self.pods.items() if owner(pod) != uid}

    def edit(self, **spec: Any) -> None:
        """Change the job's spec."""
        for name, value in spec.items():
            self.job["spec"][name] = value
        self.job["metadata"]["generation"] += 1

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += timedelta(seconds=seconds)

    # -- the controllers ----------------------------------------------------------------------

    def controllers(self) -> bool:
        """Nodes let go of pods, and the controllers run once; return whether anything changed."""
        before = copy.deepcopy((self.children, self.pods))
        self.nodes_let_go()
        for key, document in list(self.children.items()):
            if key.kind == "StatefulSet":
                self._stateful_set(key.name, document)
            elif key.kind == "Job":
                self._job(key.name, document)
        return before != (self.children, self.pods)

    def nodes_let_go(self) -> None:
        """Pods that are being deleted are gone."""
        self.pods = {name: pod for name, pod in self.pods.items() if not is_leaving(pod)}

    def _stateful_set(self, name: str, document: dict[str, Any]) -> None:
        replicas = document["spec"]["replicas"]
        uid = document["metadata"]["uid"]
        for index in range(replicas):
            pod = self.pods.get(f"{name}-{index}")
            if pod is not None and pod["status"]["phase"] in {"Failed", "Succeeded"}:
                del self.pods[f"{name}-{index}"]
                pod = None
            if pod is None:
                self._pod(f"{name}-{index}", "StatefulSet", name, uid, document)
        for pod_name in [name for name, pod in self.pods.items() if owner(pod) == uid]:
            if int(pod_name.rpartition("-")[2]) >= replicas:
                del self.pods[pod_name]
        mine = [pod for pod in self.pods.values() if owner(pod) == uid]
        document["status"] = {
            "observedGeneration": document["metadata"]["generation"],
            "replicas": len(mine),
            "readyReplicas": sum(ready(pod) for pod in mine),
        }

    def _job(self, name: str, document: dict[str, Any]) -> None:
        status = document.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        if any(item["type"] in {"Complete", "Failed"} for item in conditions):
            return
        uid = document["metadata"]["uid"]
        mine = {name: pod for name, pod in self.pods.items() if owner(pod) == uid}
        if document["spec"].get("suspend"):
            for pod_name, pod in mine.items():
                if pod["status"]["phase"] not in {"Failed", "Succeeded"}:
                    del self.pods[pod_name]
            set_condition(conditions, "Suspended", "True", "JobSuspended", self.stamp())
            status["active"] = 0
            return
        if any(item["type"] == "Suspended" and item["status"] == "True" for item in conditions):
            set_condition(conditions, "Suspended", "False", "JobResumed", self.stamp())
            status["startTime"] = self.stamp()
        status.setdefault("startTime", self.stamp())
        counted = status.setdefault("_counted", [])
        for pod in mine.values():
            if pod["status"]["phase"] == "Failed" and pod["metadata"]["uid"] not in counted:
                counted.append(pod["metadata"]["uid"])
                status["failed"] = status.get("failed", 0) + 1
        succeeded = any(pod["status"]["phase"] == "Succeeded" for pod in mine.values())
        for pod_name in [each for each, pod in mine.items() if _leaves(pod)]:
            del self.pods[pod_name], mine[pod_name]
        if succeeded:
            status["succeeded"] = 1
            status["active"] = 0
            status["completionTime"] = self.stamp()
            set_condition(conditions, "Complete", "True", "CompletionsReached", self.stamp())
            return
        if status.get("failed", 0) > document["spec"]["backoffLimit"]:
            status["active"] = 0
            reason = "BackoffLimitExceeded"
            message = "Job has reached the specified backoff limit"
            set_condition(conditions, "Failed", "True", reason, self.stamp(), message=message)
            return
        deadline = document["spec"].get("activeDeadlineSeconds")
        started = datetime.fromisoformat(status["startTime"])
        if deadline is not None and self.now - started >= timedelta(seconds=deadline):
            for pod_name, pod in mine.items():
                if pod["status"]["phase"] not in {"Failed", "Succeeded"}:
                    del self.pods[pod_name]
            status["active"] = 0
            message = "Job was active longer than specified deadline"
            set_condition(
                conditions, "Failed", "True", "DeadlineExceeded", self.stamp(), message=message
            )
            return
        if all(pod["status"]["phase"] in {"Failed", "Succeeded"} for pod in mine.values()):
            pod_name = f"{name}-{next(self._uids):05}"
            self._pod(pod_name, "Job", name, uid, document)
        status["active"] = 1

    def _pod(
        self, name: str, kind: str, parent: str, uid_of_parent: str, document: dict[str, Any]
    ) -> None:
        place = parent if kind == "Job" else name
        uid = f"uid-{next(self._uids)}"
        self.made[place] = self.made.get(place, 0) + 1
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "creationTimestamp": self.stamp(),
                "labels": document["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [
                    {"kind": kind, "name": parent, "uid": uid_of_parent, "controller": True}
                ],
            },
            "spec": {},
            "status": {"phase": "Pending", "conditions": [PLACED], "containerStatuses": []},
        }

    # -- the nodes ----------------------------------------------------------------------------

    def run(self, *names: str) -> None:
        """The named pods, or all pending ones, run and are ready."""
        for name, pod in self.pods.items():
            if name in names or (not names and pod["status"]["phase"] == "Pending"):
                pod["status"]["phase"] = "Running"
                pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
                pod["status"]["containerStatuses"] = [
                    {
                        "name": self.program(pod),
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": self.stamp()}},
                    }
                ]

    def program(self, pod: dict[str, Any]) -> str:
        """The name of the first container of a pod, if its spec is known."""
        containers = pod.get("spec", {}).get("containers") or [{"name": self.container}]
        name: str = containers[0]["name"]
        return name

    def end(self, pod: dict[str, Any], code: int, **details: str) -> None:
        """A pod ends with an exit code."""
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", **details}
        pod["status"]["containerStatuses"] = [
            {"name": self.program(pod), "restartCount": 0, "state": {"terminated": ended}}
        ]

    def restart(self, pod: dict[str, Any], code: int = 1) -> None:
        """The container of a pod ends and is restarted."""
        (status,) = pod["status"]["containerStatuses"]
        status["restartCount"] = status.get("restartCount", 0) + 1
        status["lastState"] = {"terminated": {"exitCode": code, "finishedAt": self.stamp()}}

    def print(self, pod: dict[str, Any]) -> None:
        """A program writes a line of output."""
        self.printed[pod["metadata"]["uid"]] = self.now

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


def owner_uid(pod: PodView) -> str:
    """UID of the controller of a pod."""
    found = pod.metadata.controller
    return found.uid if found is not None else ""


def is_leaving(pod: dict[str, Any]) -> bool:
    """Whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def owner(pod: dict[str, Any]) -> str:
    """UID of the controller of a pod."""
    uid: str = pod["metadata"]["ownerReferences"][0]["uid"]
    return uid


def _stalled(status: dict[str, Any]) -> bool:
    return bool(status.get("reason") == "NoProgress")


def _leaves(pod: dict[str, Any]) -> bool:
    ended = pod["status"]["phase"] in {"Failed", "Succeeded"}
    return ended and "deletionTimestamp" in pod["metadata"]


def ready(pod: dict[str, Any]) -> bool:
    """Whether a pod is ready."""
    return any(
        item["type"] == "Ready" and item["status"] == "True" for item in pod["status"]["conditions"]
    )


def set_condition(
    conditions: list[dict[str, Any]],
    kind: str,
    status: str,
    reason: str,
    stamp: str,
    *,
    message: str = "",
) -> None:
    """Set a condition of a Job."""
    conditions[:] = [item for item in conditions if item["type"] != kind]
    conditions.append(
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": stamp,
            "lastTransitionTime": stamp,
        }
    )


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    for name, value in patch.items():
        if isinstance(value, dict):
            _merge(document.setdefault(name, {}), value)
        else:
            document[name] = value
