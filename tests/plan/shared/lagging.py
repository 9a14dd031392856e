"""Simulated clusters with slow termination of pods, and a stale cache of pods in the operator.

The actual state is in `pods`, one change after the other; the operator observes an earlier state of
it, never goes back in time, and always observes its own creates.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from plan.chainerjob.world import ChainerWorld
from plan.cluster import owner
from plan.elasticjob.world import ElasticWorld
from plan.world import World
from traincrew.plan.chainerjob.edits import REVISION
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from traincrew.plan.shared.model import ChildKey

Pods = dict[str, dict[str, Any]]
ENDED = {"Failed", "Succeeded"}


class ConflictError(Exception):
    """The object to be deleted has another version now."""


class Lagging(World):
    """Common part of both kinds.

    Attributes:
        unasked: Pods that ended although nobody had asked the job for fewer or other pods.
        failed: Those of them that failed by themselves.
        container_restarts: Containers that were started again in pods that were to stay.
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self.moments: list[Pods] = [{}]
        self._listed = [0]
        self._at = 0
        self._least = 0
        self.unasked: set[str] = set()
        self.failed: set[str] = set()
        self.container_restarts = 0

    # -- what is seen -------------------------------------------------------------------------

    def note(self) -> None:
        """Tell the watch what has changed, one pod after the other."""
        for name in sorted({*self.moments[-1], *self.pods}):
            before, after = self.moments[-1].get(name), self.pods.get(name)
            if before == after:
                continue
            gone = before is not None and (
                after is None or after["metadata"]["uid"] != before["metadata"]["uid"]
            )
            if gone:
                rest = {key: pod for key, pod in self.moments[-1].items() if key != name}
                self._append(rest, listed=False)
            if after is not None:
                self._append({**self.moments[-1], name: copy.deepcopy(after)}, listed=True)

    def _append(self, pods: Pods, *, listed: bool) -> None:
        self.moments.append(pods)
        newest = len(self.moments) - 1
        # A list tells the versions of the pods that are there, not of those that went.
        self._listed.append(newest if listed else self._listed[-1])

    def catch_up(self, moments: int) -> None:
        """Deliver this many changes to the operator's cache."""
        self.note()
        self._at = min(self._at + moments, len(self.moments) - 1)

    def seen_pods(self, confirmed: bool) -> Pods:
        """The pods in the operator's cache, or as the API server lists them now."""
        self.note()
        if confirmed:
            self._least = max(self._least, self._listed[-1])
            return self.moments[-1]
        self._at = max(self._at, self._least)
        return self.moments[self._at]

    # -- what ends ----------------------------------------------------------------------------

    def ask_to_end(self, name: str) -> None:
        """A pod is deleted because the job's spec asks for it."""
        metadata = self.pods[name]["metadata"]
        if "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = self.stamp()
            if self.pods[name]["status"]["phase"] not in ENDED:
                metadata["asked"] = True

    def somebody_deletes(self, name: str) -> None:
        """A pod is deleted for another reason."""
        self.pods[name]["metadata"].setdefault("deletionTimestamp", self.stamp())

    def fails(self, name: str, code: int) -> None:
        """The program of a pod ends, maybe because the pod is being deleted."""
        pod = self.pods[name]
        self.end(pod, code, finishedAt=self.stamp())
        if "deletionTimestamp" not in pod["metadata"]:
            self.failed.add(pod["metadata"]["uid"])
        if not pod["metadata"].get("asked"):
            self.unasked.add(pod["metadata"]["uid"])

    def let_go(self, name: str) -> None:
        """Remove a pod."""
        metadata = self.pods.pop(name)["metadata"]
        if not metadata.get("asked"):
            self.unasked.add(metadata["uid"])

    def container_restarts_in(self, name: str) -> None:
        """The container of a pod is started again."""
        self.restart(self.pods[name])
        self.container_restarts += 1

    def nodes(self) -> bool:
        """The nodes let go of all pods that are being deleted."""
        leaving = [
            name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]
        ]
        for name in leaving:
            self.let_go(name)
        return bool(leaving)

    def settle(self) -> None:
        """Run everything, and let the cache catch up, until nothing changes any more."""
        for _ in range(80):
            self.catch_up(len(self.moments))
            changed = self.step()
            self.note()
            changed |= self.controllers()
            changed |= self.nodes()
            self.note()
            if not changed and self._at == len(self.moments) - 1:
                return
        raise AssertionError("the world does not come to rest")


class LaggingElastic(Lagging, ElasticWorld):
    """An ElasticJob: it makes and deletes its pods itself."""

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        if key.kind == "Pod" and key.name in self.pods:
            return  # it was made already
        super()._create(key, document)
        if key.kind == "Pod":
            self.note()
            self._least = len(self.moments) - 1

    def _delete(self, key: ChildKey, uid: str) -> None:
        if key.kind != "Pod":
            super()._delete(key, uid)
            return
        seen = self.moments[max(self._at, self._least)].get(key.name)
        pod = self.pods.get(key.name)
        if pod is None:
            return
        if pod != seen and pod != self.moments[-1].get(key.name):
            raise ConflictError
        if pod["metadata"]["uid"] != uid:
            raise ConflictError
        self.ask_to_end(key.name)

    def controllers(self) -> bool:
        """There are none."""
        return False


class LaggingChainer(Lagging, ChainerWorld):
    """A ChainerJob: the controllers of Kubernetes make and delete its pods."""

    def remove(self, key: ChildKey) -> None:
        """The operator deletes a StatefulSet, and garbage collection its pods."""
        uid = self.children.pop(key)["metadata"]["uid"]
        for name, pod in self.pods.items():
            if owner(pod) == uid:
                self.ask_to_end(name)

    def _stateful_set(self, name: str, document: dict[str, Any]) -> None:
        spec, uid = document["spec"], document["metadata"]["uid"]
        revision = digest(json.dumps(spec["template"], sort_keys=True))
        replicas = spec["replicas"]
        for index in range(replicas):
            pod = self.pods.get(f"{name}-{index}")
            if pod is not None and owner(pod) != uid:
                continue
            if pod is not None and pod["status"]["phase"] in ENDED:
                self.somebody_deletes(f"{name}-{index}")
            elif pod is None:
                self._pod(f"{name}-{index}", "StatefulSet", name, uid, document)
                labels = self.pods[f"{name}-{index}"]["metadata"]["labels"]
                self.pods[f"{name}-{index}"]["metadata"]["labels"] = {**labels, REVISION: revision}
        mine = {key: pod for key, pod in self.pods.items() if owner(pod) == uid}
        for key in mine:
            if int(key.rpartition("-")[2]) >= replicas:
                self.ask_to_end(key)
        if not any("deletionTimestamp" in pod["metadata"] for pod in mine.values()):
            old = [
                key for key, pod in mine.items() if pod["metadata"]["labels"][REVISION] != revision
            ]
            if old:
                self.ask_to_end(max(old))
        document["status"] = {
            "observedGeneration": document["metadata"]["generation"],
            "updateRevision": revision,
            "replicas": len(mine),
            "readyReplicas": sum(
                pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
                for pod in mine.values()
            ),
        }

    def _job(self, name: str, document: dict[str, Any]) -> None:
        status, uid = document.setdefault("status", {}), document["metadata"]["uid"]
        status.setdefault("startTime", self.stamp())
        mine = {key: pod for key, pod in self.pods.items() if owner(pod) == uid}
        active = [key for key, pod in mine.items() if pod["status"]["phase"] not in ENDED]
        if document["spec"].get("suspend"):
            for key in active:
                self.ask_to_end(key)
            status["active"] = 0
            return
        if not active:
            self._pod(f"{name}-{next(self._uids):05}", "Job", name, uid, document)
        status["active"] = 1
