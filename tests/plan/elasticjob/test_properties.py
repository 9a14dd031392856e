"""Properties of every history of an ElasticJob, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plan.elasticjob.world import ElasticWorld, elastic
from plan.shared.histories import JobHistory, indices, long, run_policies
from traincrew.plan.shared.model import ChildKey


class History(JobHistory):
    """A job, its pods, and an operator that may crash at any write."""

    world: ElasticWorld
    counters = ("restarts", "failures")

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    @initialize(
        replicas=st.sampled_from([1, 2, 3]),
        policy=st.sampled_from(["ExitCode", "OnFailure", "Never", "Always"]),
        hosted=st.booleans(),
        fields=st.fixed_dictionaries(
            {},
            optional={
                **run_policies,
                "activeDeadlineSeconds": st.just(300),
                "ttlSecondsAfterFinished": st.just(300),
            },
        ),
    )
    def create(self, replicas: int, policy: str, hosted: bool, fields: dict[str, Any]) -> None:
        self.world = ElasticWorld(elastic(replicas, policy, hosted=hosted, **fields))

    @rule()
    def everything_settles(self) -> None:
        if self.world.deleted:
            return
        self.world.settle_or_delete()
        for pod in self.world.pods.values():
            pod["spec"]["nodeName"] = "node"
        if not self.world.deleted:
            self.world.settle_or_delete()
        if self.world.foreign or self.world.deleted:
            return
        self.assert_at_rest()
        status = self.world.status
        wanted = self.world.job["spec"]["replicaSpecs"]["Worker"]["replicas"]
        if status["phase"] == "Suspended":
            assert self.world.pods == {}
        elif status["phase"] in {"Created", "Running", "Restarting"}:
            assert self.world.workers == list(range(wanted))
            assert len(self.world.services) == wanted

    # -- pods ---------------------------------------------------------------------------------

    def ended(self, pod: dict[str, Any], code: int) -> None:
        """A pod has ended."""
        if code:
            self.failed.add(pod["metadata"]["uid"])

    @rule(index=indices)
    def pod_is_evicted(self, index: int) -> None:
        if (pod := self.pick(index, "Running", "Pending")) is not None:
            pod["status"] = {"phase": "Failed", "reason": "Evicted", "conditions": []}
            pod["status"]["containerStatuses"] = []

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed", "Succeeded")) is not None:
            self.world.delete(pod["metadata"]["name"])

    @rule(index=indices)
    def pod_is_gone(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed")) is not None:
            self.world.vanish(pod["metadata"]["name"])

    @rule(seconds=st.sampled_from([1, 11, 61, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.edit(suspend=suspend)

    @rule(replicas=st.integers(1, 3))
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @rule()
    def service_is_deleted(self) -> None:
        for key in list(self.world.children):
            self.world.remove(key)

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        key = ChildKey("Service", f"{self.world.name}-worker-2")
        self.world.foreign = {key} if blocked and key not in self.world.children else set()

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def only_what_failed_or_made_no_progress_is_counted(self) -> None:
        stalls = self.world.reasons().count("NoProgress")
        assert self.world.status.get("failures", 0) <= len(self.failed) + stalls


TestHistory = History.TestCase
TestHistory.settings = long(60)
