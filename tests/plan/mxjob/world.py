"""The simulated cluster with an MxJob: Jobs that never replace their pod."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from plan.cluster import is_leaving, owner, set_condition
from plan.world import World
from traincrew.api.meta import format_time, parse_time
from traincrew.plan.mxjob.children import LABEL_ATTEMPT

if TYPE_CHECKING:
    from traincrew.plan.shared.model import ChildKey

ENDED = ("Succeeded", "Failed")
GRACE, PATIENCE = timedelta(seconds=5), timedelta(seconds=9)
"""Grace period of pods, and how much longer they are waited for at least."""


class MxWorld(World):
    """One MxJob and everything around it.

    The pods of a deleted Job terminate until their node has let go of them (`controllers`).
    """

    def _create(self, key: ChildKey, document: dict[str, Any]) -> None:
        if key.kind == "Job":
            self._assert_alone(document)
        super()._create(key, document)

    def _assert_alone(self, document: dict[str, Any]) -> None:
        """Assert that no pod of an earlier attempt still runs that had to be waited for."""
        attempt = document["metadata"]["labels"][LABEL_ATTEMPT]
        for name, pod in self.pods.items():
            labels = pod["metadata"]["labels"]
            if labels[LABEL_ATTEMPT] == self.attempt_of(labels):
                continue
            late = is_leaving(pod) and self.now > self.end_of_grace(pod) + PATIENCE
            assert late or pod["status"]["phase"] in ENDED, f"{name} runs beside attempt {attempt}"

    def _delete(self, key: ChildKey, uid: str) -> None:
        if key.kind == "Job":
            self._assert_stored(key)
        super()._delete(key, uid)

    def _assert_stored(self, key: ChildKey) -> None:
        """Assert that the next attempt was stored before a Job of this one is deleted."""
        labels = self.children[key]["metadata"]["labels"]
        stored = self.attempt_of(labels) != labels[LABEL_ATTEMPT]
        assert stored or self.holds("Suspended"), key.name

    def attempt_of(self, labels: dict[str, str]) -> str:
        """The current attempt of a replica, by what is stored."""
        attempt = str(self.status.get("attempt", 0))
        recovered = self.status.get("recoveries", {}).get(labels["task_index"], 0)
        return f"{attempt}-{recovered}" if labels["job_type"] == "WORKER" and recovered else attempt

    def remove(self, key: ChildKey) -> None:
        """A child is deleted; its pods terminate."""
        uid = self.children.pop(key)["metadata"]["uid"]
        for pod in self.pods.values():
            if owner(pod) == uid:
                self.leave(pod)

    def leave(self, pod: dict[str, Any]) -> None:
        """Begin to delete a pod; its deletionTimestamp is when its grace period ends."""
        end = format_time(self.now + GRACE)
        pod["metadata"].setdefault("deletionTimestamp", end)

    @staticmethod
    def end_of_grace(pod: dict[str, Any]) -> datetime:
        """When the grace period of a pod that is being deleted ends."""
        return parse_time(pod["metadata"]["deletionTimestamp"])

    # -- the controllers and nodes ------------------------------------------------------------

    def nodes_let_go(self) -> None:
        """Pods that are being deleted are gone."""
        for name in [name for name, pod in self.pods.items() if is_leaving(pod)]:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        """The pod is gone; its Job, if it exists, has counted it first."""
        pod = self.pods[name]
        if pod["status"]["phase"] not in ENDED:
            self.end(pod, 143)
        for key, document in self.children.items():
            if document["metadata"]["uid"] == owner(pod):
                self._job(key.name, document)
        del self.pods[name]

    def _job(self, name: str, document: dict[str, Any]) -> None:
        status = document.setdefault("status", {})
        conditions = status.setdefault("conditions", [])
        if any(item["type"] in {"Complete", "Failed"} for item in conditions):
            return
        uid = document["metadata"]["uid"]
        mine = [pod for pod in self.pods.values() if owner(pod) == uid]
        if document["spec"].get("suspend"):
            for pod in mine:
                if pod["status"]["phase"] not in ENDED:
                    self.leave(pod)
            return
        if not mine:
            assert "_made" not in status, f"{name} has lost its pod"
            status["_made"] = True
            self._pod(f"{name}-{next(self._uids):05}", "Job", name, uid, document)
            return
        (pod,) = mine
        if pod["status"]["phase"] == "Succeeded":
            status["succeeded"], status["completionTime"] = 1, self.stamp()
            set_condition(conditions, "Complete", "True", "CompletionsReached", self.stamp())
        elif pod["status"]["phase"] == "Failed":
            message = f"Pod default/{pod['metadata']['name']} has condition DisruptionTarget"
            if not is_disrupted(pod):
                statuses = pod["status"]
                containers = [
                    *statuses.get("initContainerStatuses", []),
                    *statuses["containerStatuses"],
                ]
                (name, code), *_ = (
                    (each["name"], each["state"]["terminated"]["exitCode"])
                    for each in containers
                    if "terminated" in each["state"]
                )
                message = f"Container {name} for pod default/x failed with exit code {code}"
            set_condition(
                conditions, "Failed", "True", "PodFailurePolicy", self.stamp(), message=message
            )

    def disrupt(self, pod: dict[str, Any]) -> None:
        """A pod is evicted."""
        pod["status"]["phase"] = "Failed"
        pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
        pod["status"]["containerStatuses"] = []

    # -- what tests ask -----------------------------------------------------------------------

    @property
    def jobs(self) -> list[str]:
        """The names of the Jobs, without name and RuntimeId of the training job."""
        middle = f"-{self.job['spec']['RuntimeId']}-"
        return sorted(
            key.name.removeprefix(f"{self.name}-").replace(middle, "-")
            for key in self.children
            if key.kind == "Job"
        )

    def replica(self, place: str) -> dict[str, Any]:
        """The newest pod of a replica, such as ``worker-0``."""
        kind, _, index = place.partition("-")
        (*_, found) = sorted(
            (
                pod
                for pod in self.pods.values()
                if pod["metadata"]["labels"]["job_type"] == kind.upper()
                and pod["metadata"]["labels"]["task_index"] == index
            ),
            key=lambda pod: int(pod["metadata"]["uid"].removeprefix("uid-")),
        )
        pod: dict[str, Any] = found
        return pod

    def start(self) -> None:
        """Run until all pods run."""
        self.settle()
        self.run()
        self.settle()


def is_disrupted(pod: dict[str, Any]) -> bool:
    """Whether a pod was evicted."""
    return any(each["type"] == "DisruptionTarget" for each in pod["status"]["conditions"])
