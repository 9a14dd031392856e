"""A simulated cluster: the API with the children of a job, the controllers, and the nodes.

Nothing in it takes time: the test advances the clock, runs the controllers, and sets the state of
each pod. Pods that are deleted stay until the node has let go of them (`Cluster.controllers`).

A kind adds what must hold whenever its plans write (`_create`, `_change`, `assert_may_delete`).
"""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.meta import format_time

if TYPE_CHECKING:
    from traincrew.plan.shared.model import ChildKey

PLACED = {"type": "PodReadyToStartContainers", "status": "True"}
"""Condition of a pod whose node pulls its images, or as if: whatever else it waits for is there."""

_encode = msgspec.json.Encoder(order="sorted").encode


class Cluster:
    """The children of one job.

    Args:
        container: The container of pods whose spec is not known.
    """

    def __init__(self, container: str) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.container = container
        self._uids = itertools.count(1)
        self.children: dict[ChildKey, dict[str, Any]] = {}
        self.drifted: frozenset[ChildKey] = frozenset()
        self.pods: dict[str, dict[str, Any]] = {}
        self.made: dict[str, int] = {}
        """How many pods were made, by name; those of the master all count as one."""
        self.printed: dict[str, datetime] = {}
        """When the containers of pods last wrote a line, by UID of the pod."""

    def seen_pods(self, confirmed: bool) -> dict[str, dict[str, Any]]:
        """The pods in the operator's cache, or as the API server lists them now."""
        return self.pods

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

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += timedelta(seconds=seconds)

    # -- the controllers ----------------------------------------------------------------------

    def controllers(self) -> bool:
        """Nodes let go of pods, and the controllers run once; return whether anything changed."""
        before = self._text()
        self.nodes_let_go()
        for key, document in list(self.children.items()):
            if key.kind == "StatefulSet":
                self._stateful_set(key.name, document)
            elif key.kind == "Job":
                self._job(key.name, document)
        return before != self._text()

    def _text(self) -> bytes:
        """What the controllers may change, to compare; a deep copy takes ten times as long."""
        return _encode((sorted(self.children.items()), sorted(self.pods.items())))

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
        status["ready"] = sum(ready(pod) for pod in mine.values())
        if succeeded:
            status["succeeded"] = 1
            status["active"] = 0
            status["completionTime"] = self.stamp()
            set_condition(conditions, "Complete", "True", "CompletionsReached", self.stamp())
            return
        if status.get("failed", 0) > document["spec"].get("backoffLimit", 6):
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


def is_leaving(pod: dict[str, Any]) -> bool:
    """Whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def owner(pod: dict[str, Any]) -> str:
    """UID of the controller of a pod."""
    uid: str = pod["metadata"]["ownerReferences"][0]["uid"]
    return uid


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
