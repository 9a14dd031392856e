"""Properties of every history of a JobSet, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plan.cluster import is_leaving
from plan.jobset.world import JobSetWorld, pair
from plan.shared.histories import JobHistory, indices, long
from traincrew.plan.shared.model import ChildKey

ALL = ["driver-0", "workers-0", "workers-1"]
SERVICE = ChildKey("Service", "digits")


class History(JobHistory):
    """A JobSet, its Jobs and pods, and an operator that may crash at any write."""

    world: JobSetWorld
    counters = ("restarts", "restartsCountTowardsMax")

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    @initialize(
        action=st.sampled_from(["", "FailJobSet", "RestartJobSet", "RestartJob"]),
        limit=st.integers(0, 2),
        strategy=st.sampled_from(["Recreate", "BlockingRecreate"]),
        fields=st.fixed_dictionaries(
            {},
            optional={
                "suspend": st.booleans(),
                "startupPolicy": st.just({"startupPolicyOrder": "InOrder"}),
                "successPolicy": st.just({"operator": "Any", "targetReplicatedJobs": ["driver"]}),
                "ttlSecondsAfterFinished": st.just(300),
            },
        ),
    )
    def create(self, action: str, limit: int, strategy: str, fields: dict[str, Any]) -> None:
        policy: dict[str, Any] = {"maxRestarts": limit, "restartStrategy": strategy}
        if action:
            policy["rules"] = [{"name": "first", "action": action}]
        self.world = JobSetWorld(pair(failurePolicy=policy, **fields))

    @rule()
    def everything_settles(self) -> None:
        if self.world.deleted:
            return
        self.world.settle_or_delete()
        if self.world.foreign or self.world.deleted:
            return
        self.assert_at_rest()
        phase = self.world.status["phase"]
        if phase == "Suspended":
            assert not [
                pod
                for pod in self.world.pods.values()
                if pod["status"]["phase"] in {"Pending", "Running"}
            ]
        elif phase in {"Created", "Running", "Restarting"}:
            if "startupPolicy" not in self.world.job["spec"]:
                assert self.world.jobs == ALL
            assert SERVICE in self.world.children

    # -- pods ---------------------------------------------------------------------------------

    def ended(self, pod: dict[str, Any], code: int) -> None:
        """A pod has ended, and its Job with it."""
        if code:
            self.failed.add(pod["metadata"]["ownerReferences"][0]["uid"])

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        pod = self.pick(index, "Pending", "Running", "Succeeded")
        if pod is not None and not is_leaving(pod):
            self.world.leave(pod)

    @rule(seconds=st.sampled_from([1, 11, 61, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.edit(suspend=suspend)

    @rule(index=indices)
    def child_is_deleted(self, index: int) -> None:
        if keys := sorted(self.world.children):
            self.world.remove(keys[index % len(keys)])

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        free = SERVICE not in self.world.children
        self.world.foreign = {SERVICE} if blocked and free else set()

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def counters_only_grow_and_never_say_too_much(self) -> None:
        now = {name: self.world.status.get(name, 0) for name in self.counters}
        assert all(count >= self.most.get(name, 0) for name, count in now.items())
        self.most = now
        single = sum(
            sum(each.get("jobRestarts", ()))
            for each in self.world.status.get("replicatedJobsStatus", ())
        )
        assert now["restarts"] + single <= len(self.failed)


TestHistory = History.TestCase
TestHistory.settings = long(36)
