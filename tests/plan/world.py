"""A small world for plans: it obeys them, and its controllers and pods do what they are told.

Nothing in it takes time: the test moves the clock, runs the controllers, and says what becomes of
each pod. What a plan sees of it goes through the same views as in the operator.
"""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from traincrew.api.meta import CustomObject, format_time
from traincrew.plan.chainerjob import Options, planner
from traincrew.plan.model import (
    ChildKey,
    ChildView,
    ConfigMapView,
    Event,
    JobView,
    Observed,
    Plan,
    PodView,
    Refusal,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)

HELPER_IMAGE = "traincrew/helper:test"
VIEWS: dict[str, type[ChildView]] = {
    "Service": ChildView,
    "ServiceAccount": ChildView,
    "Role": RoleView,
    "RoleBinding": RoleBindingView,
    "ConfigMap": ConfigMapView,
    "StatefulSet": StatefulSetView,
    "Job": JobView,
}
EXAMPLES = Path(__file__).parent / "examples"


class CrashedError(Exception):
    """The operator has died."""


def example(name: str) -> dict[str, Any]:
    """A manifest of the examples next to this file."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return document


def distributed(**spec: Any) -> dict[str, Any]:
    """A manifest with one set of two workers; further fields of the spec as given."""
    document = example("distributed")
    document["spec"].update(spec)
    return document


def plain(**spec: Any) -> dict[str, Any]:
    """A manifest without workers."""
    document = example("plain")
    document["spec"].update(spec)
    return document


class World:
    """One job and everything around it."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._plan = planner(Options(helper_image=HELPER_IMAGE))
        self._uids = itertools.count(1)
        self.writes = 0
        self.crash_at: int | None = None
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
            "uid": "job-uid",
            "generation": 1,
            "creationTimestamp": self.stamp(),
        }
        self.job.setdefault("status", {})
        self.deleted = False
        self.statuses: list[dict[str, Any]] = []
        """Every status that was ever stored."""
        self.look_again_after: float | None = None
        self.made: dict[str, int] = {}
        """How many pods were made, by name; those of the master all count as one."""

    # -- the operator -------------------------------------------------------------------------

    def observed(self, refusals: dict[ChildKey, Refusal] | None = None) -> Observed:
        """What the operator sees."""
        children = {
            key: msgspec.convert(document, VIEWS[key.kind])
            for key, document in self.children.items()
        }
        return Observed(
            job=msgspec.convert(self.job, CustomObject),
            children=children,
            pods=tuple(msgspec.convert(pod, PodView) for _, pod in sorted(self.pods.items())),
            refusals=refusals or {},
            drifted=self.drifted,
            leftovers=self.leftovers,
        )

    def plan(self) -> Plan:
        """What the operator would do now."""
        return self._plan(self.observed(), self.now)

    def step(self) -> bool:
        """One reconcile; returns whether it wrote anything."""
        before = self.writes
        plan = self._plan(self.observed(), self.now)
        if plan.spec is not None:
            self._write()
            _merge(self.job, plan.spec)
            self.job["metadata"]["generation"] += 1
            return True
        refusals = self._obey(plan)
        if refusals:
            plan = self._plan(self.observed(refusals), self.now)
        if plan.status != self.job["status"]:
            self._write()
            self.job["status"] = copy.deepcopy(plan.status)
            self.statuses.append(self.job["status"])
            self.events += plan.events
        if plan.delete_job:
            self._write()
            self.deleted = True
        self.look_again_after = plan.look_again_after
        return self.writes > before

    def _obey(self, plan: Plan) -> dict[ChildKey, Refusal]:
        for stage in plan.stages:
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
        for key, uid in plan.delete.items():
            self._write()
            self._delete(key, uid)
        return {}

    def _write(self) -> None:
        if self.crash_at is not None and self.writes >= self.crash_at:
            self.crash_at = None
            raise CrashedError
        self.writes += 1

    def settle(self) -> None:
        """Let the operator and the controllers work until nothing changes any more."""
        for _ in range(50):
            changed = self.step()
            changed |= self.controllers()
            if not changed:
                return
        raise AssertionError("the world does not come to rest")

    # -- the API ------------------------------------------------------------------------------

    def stamp(self) -> str:
        """The time, as the API writes it."""
        return format_time(self.now)

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        created = copy.deepcopy(document)
        created["metadata"] |= {
            "uid": f"uid-{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": self.stamp(),
        }
        if key.kind == "Job":
            created["spec"].setdefault("backoffLimit", 6)
        self.children[key] = created

    def _change(self, key: ChildKey, uid: str, values: dict[tuple[str, ...], Any]) -> None:
        document = self.children[key]
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
        document["metadata"]["generation"] += 1
        self.drifted -= {key}

    def _delete(self, key: ChildKey, uid: str) -> None:
        if key.kind == "Pod":
            assert self.pods[key.name]["metadata"]["uid"] == uid
            del self.pods[key.name]
            return
        assert self.children[key]["metadata"]["uid"] == uid
        self.remove(key)

    def remove(self, key: ChildKey) -> None:
        """Delete a child, and its pods with it."""
        uid = self.children.pop(key)["metadata"]["uid"]
        self.pods = {name: pod for name, pod in self.pods.items() if _owner(pod) != uid}

    def edit(self, **spec: Any) -> None:
        """Change the job's spec."""
        for name, value in spec.items():
            self.job["spec"][name] = value
        self.job["metadata"]["generation"] += 1

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.now += timedelta(seconds=seconds)

    # -- the controllers ----------------------------------------------------------------------

    def controllers(self) -> bool:
        """Let the Job and StatefulSet controllers look once; returns whether anything changed."""
        before = copy.deepcopy((self.children, self.pods))
        for key, document in list(self.children.items()):
            if key.kind == "StatefulSet":
                self._stateful_set(key.name, document)
            elif key.kind == "Job":
                self._job(key.name, document)
        return before != (self.children, self.pods)

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
        for pod_name in [name for name, pod in self.pods.items() if _owner(pod) == uid]:
            if int(pod_name.rpartition("-")[2]) >= replicas:
                del self.pods[pod_name]
        mine = [pod for pod in self.pods.values() if _owner(pod) == uid]
        document["status"] = {
            "observedGeneration": document["metadata"]["generation"],
            "replicas": len(mine),
            "readyReplicas": sum(_ready(pod) for pod in mine),
        }

    def _job(self, name: str, document: dict[str, Any]) -> None:
        status = document.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        if any(item["type"] in {"Complete", "Failed"} for item in conditions):
            return
        uid = document["metadata"]["uid"]
        mine = {name: pod for name, pod in self.pods.items() if _owner(pod) == uid}
        if document["spec"].get("suspend"):
            for pod_name, pod in mine.items():
                if pod["status"]["phase"] not in {"Failed", "Succeeded"}:
                    del self.pods[pod_name]
            _set_condition(conditions, "Suspended", "True", "JobSuspended", self.stamp())
            status["active"] = 0
            return
        if any(item["type"] == "Suspended" and item["status"] == "True" for item in conditions):
            _set_condition(conditions, "Suspended", "False", "JobResumed", self.stamp())
            status["startTime"] = self.stamp()
        status.setdefault("startTime", self.stamp())
        counted = status.setdefault("_counted", [])
        for pod in mine.values():
            if pod["status"]["phase"] == "Failed" and pod["metadata"]["uid"] not in counted:
                counted.append(pod["metadata"]["uid"])
                status["failed"] = status.get("failed", 0) + 1
        if any(pod["status"]["phase"] == "Succeeded" for pod in mine.values()):
            status["succeeded"] = 1
            status["active"] = 0
            status["completionTime"] = self.stamp()
            _set_condition(conditions, "Complete", "True", "CompletionsReached", self.stamp())
            return
        if status.get("failed", 0) > document["spec"]["backoffLimit"]:
            status["active"] = 0
            reason = "BackoffLimitExceeded"
            message = "Job has reached the specified backoff limit"
            _set_condition(conditions, "Failed", "True", reason, self.stamp(), message=message)
            return
        deadline = document["spec"].get("activeDeadlineSeconds")
        started = datetime.fromisoformat(status["startTime"])
        if deadline is not None and self.now - started >= timedelta(seconds=deadline):
            for pod_name, pod in mine.items():
                if pod["status"]["phase"] not in {"Failed", "Succeeded"}:
                    del self.pods[pod_name]
            status["active"] = 0
            message = "Job was active longer than specified deadline"
            _set_condition(
                conditions, "Failed", "True", "DeadlineExceeded", self.stamp(), message=message
            )
            return
        if all(pod["status"]["phase"] in {"Failed", "Succeeded"} for pod in mine.values()):
            pod_name = f"{name}-{next(self._uids):05}"
            self._pod(pod_name, "Job", name, uid, document)
        status["active"] = 1

    def _pod(
        self, name: str, kind: str, owner: str, owner_uid: str, document: dict[str, Any]
    ) -> None:
        place = owner if kind == "Job" else name
        self.made[place] = self.made.get(place, 0) + 1
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{next(self._uids)}",
                "creationTimestamp": self.stamp(),
                "labels": document["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [
                    {"kind": kind, "name": owner, "uid": owner_uid, "controller": True}
                ],
            },
            "spec": {},
            "status": {"phase": "Pending", "conditions": [], "containerStatuses": []},
        }

    # -- the nodes ----------------------------------------------------------------------------

    @property
    def master_pod(self) -> dict[str, Any]:
        """The newest pod of the master."""
        job = self.children[ChildKey("Job", f"{self.job['metadata']['name']}-master")]
        mine = [pod for pod in self.pods.values() if _owner(pod) == job["metadata"]["uid"]]
        return max(mine, key=lambda pod: pod["metadata"]["uid"].rjust(10))

    def run(self, *names: str) -> None:
        """The named pods, or all pending ones, run and are ready."""
        for name, pod in self.pods.items():
            if name in names or (not names and pod["status"]["phase"] == "Pending"):
                pod["status"]["phase"] = "Running"
                pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
                pod["status"]["containerStatuses"] = [
                    {"name": "chainer", "ready": True, "restartCount": 0}
                ]

    def end(self, pod: dict[str, Any], code: int, **details: str) -> None:
        """A pod ends with an exit code."""
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", **details}
        pod["status"]["containerStatuses"] = [
            {"name": "chainer", "restartCount": 0, "state": {"terminated": ended}}
        ]

    def restart(self, pod: dict[str, Any], code: int = 1) -> None:
        """The container of a pod ends and is started again."""
        (status,) = pod["status"]["containerStatuses"]
        status["restartCount"] = status.get("restartCount", 0) + 1
        status["lastState"] = {"terminated": {"exitCode": code}}

    # -- what users see -----------------------------------------------------------------------

    @property
    def status(self) -> dict[str, Any]:
        """The job's status."""
        status: dict[str, Any] = self.job["status"]
        return status

    def condition(self, kind: str) -> dict[str, Any] | None:
        """A condition of the job."""
        found = [item for item in self.status.get("conditions", []) if item["type"] == kind]
        assert len(found) <= 1
        return found[0] if found else None

    def holds(self, kind: str) -> bool:
        """Whether a condition is true."""
        condition = self.condition(kind)
        return condition is not None and condition["status"] == "True"


def _owner(pod: dict[str, Any]) -> str:
    uid: str = pod["metadata"]["ownerReferences"][0]["uid"]
    return uid


def _ready(pod: dict[str, Any]) -> bool:
    return any(
        item["type"] == "Ready" and item["status"] == "True" for item in pod["status"]["conditions"]
    )


def _set_condition(
    conditions: list[dict[str, Any]],
    kind: str,
    status: str,
    reason: str,
    stamp: str,
    *,
    message: str = "",
) -> None:
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
