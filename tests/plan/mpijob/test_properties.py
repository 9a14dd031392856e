"""Properties of every history of an MPIJob, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from plan.cluster import is_leaving
from plan.mpijob.world import CONFIG, JOB, MPIJobWorld, pi
from plan.shared.histories import JobHistory, indices, long, run_policies
from traincrew.plan.shared.model import ChildKey

SERVICE = ChildKey("Service", "pi")


class History(JobHistory):
    """A job, its launcher and workers, and an operator that may crash at any write."""

    world: MPIJobWorld

    @initialize(
        workers=st.sampled_from([None, 1, 2]),
        waits=st.booleans(),
        fields=st.fixed_dictionaries(
            {},
            optional={
                **run_policies,
                "activeDeadlineSeconds": st.just(300),
                "ttlSecondsAfterFinished": st.just(300),
            },
        ),
    )
    def create(self, workers: int | None, waits: bool, fields: dict[str, Any]) -> None:
        manifest = pi(workers, **fields)
        if waits:
            manifest["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
        self.world = MPIJobWorld(manifest)

    @rule()
    def everything_settles(self) -> None:
        self.world.settle()
        self.world.pass_time(11)
        self.world.settle()
        if self.world.foreign:
            return
        self.assert_at_rest()
        phase = self.world.status["phase"]
        worker = self.world.job["spec"]["mpiReplicaSpecs"].get("Worker", {"replicas": 0})
        wanted = [f"pi-worker-{index}" for index in range(worker["replicas"])]
        active = [
            pod
            for pod in self.world.pods.values()
            if pod["status"]["phase"] in {"Pending", "Running"}
        ]
        if phase == "Suspended":
            assert not active
        elif phase in {"Created", "Running", "Restarting"}:
            assert self.world.workers == wanted
            assert {SERVICE, CONFIG} <= self.world.children.keys()
            assert self.world.hosts() == wanted
        elif self.world.children.get(JOB) is not None:
            assert not [pod for pod in active if "-launcher-" in pod["metadata"]["name"]]

    # -- pods ---------------------------------------------------------------------------------

    @rule(index=indices)
    def worker_is_evicted(self, index: int) -> None:
        pod = self.pick(index, "Running", "Pending")
        if pod is not None and "-worker-" in pod["metadata"]["name"]:
            pod["status"] |= {"phase": "Failed", "reason": "Evicted", "containerStatuses": []}

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        pod = self.pick(index, "Pending", "Running", "Failed", "Succeeded")
        if pod is not None and not is_leaving(pod):
            self.world.leave(pod)

    @rule(index=indices)
    def pod_is_gone(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed")) is not None:
            del self.world.pods[pod["metadata"]["name"]]

    @rule(seconds=st.sampled_from([1, 11, 61, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        policy = self.world.job["spec"].get("runPolicy", {})
        self.world.edit(runPolicy={**policy, "suspend": suspend})

    @rule(slots=st.integers(1, 2))
    def change(self, slots: int) -> None:
        self.world.edit(slotsPerWorker=slots)

    @rule(workers=st.integers(1, 3))
    def scale(self, workers: int) -> None:
        if "Worker" in self.world.job["spec"]["mpiReplicaSpecs"]:
            self.world.scale(workers)

    @rule(index=indices)
    def child_is_deleted(self, index: int) -> None:
        if keys := sorted(self.world.children):
            self.world.remove(keys[index % len(keys)])

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        free = SERVICE not in self.world.children
        self.world.foreign = {SERVICE} if blocked and free else set()


TestHistory = History.TestCase
TestHistory.settings = long(36)
