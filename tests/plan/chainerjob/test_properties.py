"""Properties of every history of a ChainerJob, whatever happens in whatever order."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from plan.chainerjob.world import ChainerWorld, distributed, plain
from plan.shared.histories import JobHistory, indices, long, run_policies
from traincrew.plan.shared.model import ChildKey


class History(JobHistory):
    """A job, its controllers, its pods, and an operator that may crash at any write."""

    world: ChainerWorld

    @initialize(
        workers=st.sampled_from([0, 1, 2]),
        policy=st.fixed_dictionaries(
            {}, optional={**run_policies, "activeDeadlineSeconds": st.just(30)}
        ),
    )
    def create(self, workers: int, policy: dict[str, Any]) -> None:
        manifest = distributed() if workers else plain()
        if workers:
            manifest["spec"]["workerSets"]["ws0"]["replicas"] = workers
            del manifest["spec"]["backend"]
        manifest["spec"]["runPolicy"] = policy
        self.world = ChainerWorld(manifest)

    @rule()
    def everything_settles(self) -> None:
        self.world.settle()
        if self.world.foreign:
            return  # then it is tried again and again
        self.assert_at_rest()
        sets = self.world.job["spec"].get("workerSets", {})
        wanted = sets["ws0"]["replicas"] if sets else 0
        if self.world.status["phase"] in {"Suspended", "Succeeded", "Failed"}:
            assert self.world.granted == self.world.readable == []
        elif self.world.job["spec"].get("backend", "mpi") == "mpi":
            assert len(self.world.granted) == wanted
            assert len(self.world.readable) == len(sets)
        if self.world.status["phase"] == "Suspended":
            assert not [
                pod
                for pod in self.world.pods.values()
                if pod["status"]["phase"] in {"Pending", "Running"}
            ]

    @invariant()
    def a_launcher_may_use_its_hosts(self) -> None:
        if hasattr(self, "world"):
            self.world.assert_launcher()

    # -- pods ---------------------------------------------------------------------------------

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed")) is not None:
            del self.world.pods[pod["metadata"]["name"]]

    @rule(seconds=st.sampled_from([1, 31, 2000]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        policy = {**self.world.job["spec"].get("runPolicy", {}), "suspend": suspend}
        self.world.edit(runPolicy=policy)

    @precondition(lambda self: "workerSets" in self.world.job["spec"])
    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        sets = copy.deepcopy(self.world.job["spec"]["workerSets"])
        sets["ws0"]["replicas"] = replicas
        self.world.edit(workerSets=sets)

    @precondition(lambda self: "workerSets" in self.world.job["spec"])
    @rule(backend=st.sampled_from(["mpi", "gloo"]))
    def change_backend(self, backend: str) -> None:
        self.world.edit(backend=backend)

    @rule(kind=st.sampled_from(["Role", "ConfigMap", "StatefulSet", "ServiceAccount"]))
    def child_is_deleted(self, kind: str) -> None:
        for key in [key for key in self.world.children if key.kind == kind]:
            self.world.remove(key)

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        key = ChildKey("Role", f"{self.world.job['metadata']['name']}-launcher-role")
        self.world.foreign = {key} if blocked and key not in self.world.children else set()


TestHistory = History.TestCase
TestHistory.settings = long(40)
