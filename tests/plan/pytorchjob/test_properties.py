"""Properties of every history of a PyTorchJob or an MXJob, whatever happens in whatever order."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plan.mxjobv1.world import mxnet
from plan.pytorchjob.world import PyTorchWorld, group, pytorch
from plan.shared.histories import JobHistory, indices, long, run_policies
from traincrew.plan.shared.model import ChildKey

MAKES = {"PyTorchJob": pytorch, "elastic": lambda policy: group(2, policy), "MXJob": mxnet}


class History(JobHistory):
    """A job, its pods, and an operator that may crash at any write."""

    world: PyTorchWorld
    counters = ("restarts", "failures")

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    @initialize(
        kind=st.sampled_from(sorted(MAKES)),
        policy=st.sampled_from(["ExitCode", "OnFailure", "Never", "Always"]),
        fields=st.fixed_dictionaries(
            {},
            optional={
                **run_policies,
                "activeDeadlineSeconds": st.just(300),
                "ttlSecondsAfterFinished": st.just(300),
            },
        ),
    )
    def create(self, kind: str, policy: str, fields: dict[str, Any]) -> None:
        manifest = MAKES[kind](policy)
        manifest["spec"]["runPolicy"] = fields
        self.world = PyTorchWorld(manifest)

    @property
    def specs(self) -> dict[str, Any]:
        """The replicas by type."""
        spec = self.world.job["spec"]
        found: dict[str, Any] = spec.get("pytorchReplicaSpecs") or spec["mxReplicaSpecs"]
        return found

    @rule()
    def everything_settles(self) -> None:
        if self.world.deleted:
            return
        self.world.settle_or_delete()
        if self.world.foreign or self.world.deleted:
            return
        self.assert_at_rest()
        phase = self.world.status["phase"]
        wanted = sorted(
            f"{name.lower()}-{index}"
            for name, each in self.specs.items()
            for index in range(each.get("replicas", 1))
        )
        services = self.world.names("Service")
        if phase == "Suspended":
            assert self.world.pods == {}
            assert self.world.children == {}
        elif phase in {"Created", "Running", "Restarting"}:
            assert self.world.members == wanted
            assert services == [f"{self.world.name}-{place}" for place in wanted]
            elastic = "elasticPolicy" in self.world.job["spec"]
            assert len(self.world.names("HorizontalPodAutoscaler")) == elastic

    # -- pods ---------------------------------------------------------------------------------

    def ended(self, pod: dict[str, Any], code: int) -> None:
        """A pod has ended."""
        if code:
            self.failed.add(pod["metadata"]["uid"])

    @rule(index=indices)
    def pod_is_evicted(self, index: int) -> None:
        if (pod := self.pick(index, "Running", "Pending")) is not None:
            self.world.evict(pod["metadata"]["name"].removeprefix(f"{self.world.name}-"))

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed", "Succeeded")) is not None:
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

    @rule(replicas=st.integers(1, 3))
    def scale(self, replicas: int) -> None:
        if "pytorchReplicaSpecs" in self.world.job["spec"]:
            specs = copy.deepcopy(self.specs)
            specs["Worker"]["replicas"] = replicas
            self.world.edit(pytorchReplicaSpecs=specs)

    @rule(index=indices)
    def child_is_deleted(self, index: int) -> None:
        if keys := sorted(self.world.children):
            self.world.remove(keys[index % len(keys)])

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
TestHistory.settings = long(36)
