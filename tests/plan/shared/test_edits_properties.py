"""Edits are not failures: `restarts` counts only pods that the job itself did not end."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.shared.histories import indices, long
from plan.shared.lagging import ConflictError, Lagging, LaggingChainer, LaggingElastic
from plan.world import CrashedError
from traincrew.plan.shared.runpolicy import LONGEST_BACKOFF


class Edits(RuleBasedStateMachine):
    """A job whose user changes the spec, while pods end in any order and are seen late."""

    world: Lagging

    # -- the operator -------------------------------------------------------------------------

    @rule()
    def reconcile(self) -> None:
        with contextlib.suppress(ConflictError):
            self.world.step()

    @rule(after=st.integers(0, 3))
    def reconcile_and_die(self, after: int) -> None:
        self.world.crash_at = self.world.writes + after
        with contextlib.suppress(CrashedError, ConflictError):
            self.world.step()
        self.world.crash_at = None

    @rule(moments=st.integers(1, 6))
    def cache_catches_up(self, moments: int) -> None:
        self.world.catch_up(moments)

    @rule()
    def controllers_work(self) -> None:
        self.world.controllers()
        self.world.note()

    @rule()
    def everything_settles(self) -> None:
        self.world.pass_time(int(LONGEST_BACKOFF.total_seconds()))
        self.world.settle()
        self.world.run()
        self.world.settle()
        assert not self.world.holds("Restarting")

    # -- pods ---------------------------------------------------------------------------------

    def pick(self, index: int, *phases: str) -> str | None:
        """A pod in one of these phases."""
        names = [
            name
            for name, pod in sorted(self.world.pods.items())
            if pod["status"]["phase"] in phases
        ]
        return names[index % len(names)] if names else None

    @rule()
    def pods_run(self) -> None:
        self.world.run()
        self.world.note()

    @rule(index=indices, code=st.sampled_from([0, 1, 137, 143]))
    def program_ends_on_the_way_out(self, index: int, code: int) -> None:
        name = self.pick(index, "Running")
        metadata = self.world.pods[name]["metadata"] if name is not None else {}
        # One that somebody else deletes, and that ends well, has done its work.
        if name is not None and (
            metadata.get("asked") or ("deletionTimestamp" in metadata and code)
        ):
            self.world.fails(name, code)
            self.world.note()

    @rule(index=indices)
    def node_lets_go(self, index: int) -> None:
        name = self.pick(index, "Running", "Pending", "Failed", "Succeeded")
        if name is not None and "deletionTimestamp" in self.world.pods[name]["metadata"]:
            self.world.let_go(name)
            self.world.note()

    @rule(index=indices, code=st.sampled_from([137, 143]))
    def program_is_killed(self, index: int, code: int) -> None:
        if (name := self.pick(index, "Running")) is not None:
            self.world.fails(name, code)
            self.world.note()

    @rule(index=indices)
    def somebody_deletes_a_pod(self, index: int) -> None:
        if (name := self.pick(index, "Running", "Pending")) is not None:
            self.world.somebody_deletes(name)
            self.world.note()

    @rule(seconds=st.sampled_from([1, 11]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def only_pods_that_were_not_asked_to_end_count(self) -> None:
        status = self.world.status
        assert status.get("restarts", 0) <= len(self.world.unasked)
        assert status.get("failures", 0) <= len(self.world.failed)
        assert status.get("phase") not in {"Succeeded", "Failed"}


class ElasticEdits(Edits):
    """An ElasticJob."""

    world: LaggingElastic

    @initialize(replicas=st.integers(1, 3), hosted=st.booleans())
    def create(self, replicas: int, hosted: bool) -> None:
        self.world = LaggingElastic(elastic(replicas, hosted=hosted, minReplicas=1))
        self.everything_settles()

    @rule(replicas=st.integers(1, 3))
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.edit(suspend=suspend)

    @rule(value=st.sampled_from(["a", "b"]))
    def edit_labels(self, value: str) -> None:
        specs = copy.deepcopy(self.world.job["spec"]["replicaSpecs"])
        specs["Worker"]["template"].setdefault("metadata", {})["labels"] = {"team": value}
        self.world.edit(replicaSpecs=specs)


class ChainerEdits(Edits):
    """A ChainerJob."""

    world: LaggingChainer

    @initialize(replicas=st.integers(0, 3))
    def create(self, replicas: int) -> None:
        manifest = distributed()
        manifest["spec"]["workerSets"]["ws0"]["replicas"] = replicas
        self.world = LaggingChainer(manifest)
        self.everything_settles()

    def edit_set(self, **fields: Any) -> None:
        """Change the worker set."""
        sets = copy.deepcopy(self.world.job["spec"]["workerSets"])
        sets.setdefault("ws0", copy.deepcopy(distributed()["spec"]["workerSets"]["ws0"]))
        sets["ws0"].update(fields)
        self.world.edit(workerSets=sets)

    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        self.edit_set(replicas=replicas)

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.edit(runPolicy={"suspend": suspend})

    @rule(value=st.sampled_from(["a", "b", "c"]), labels=st.booleans())
    def edit_template(self, value: str, labels: bool) -> None:
        template = copy.deepcopy(distributed()["spec"]["workerSets"]["ws0"]["template"])
        if labels:
            template.setdefault("metadata", {})["labels"] = {"team": value}
        else:
            template["spec"]["hostname"] = value
        self.edit_set(template=template)


TestElasticEdits = ElasticEdits.TestCase
TestElasticEdits.settings = long(30)
TestChainerEdits = ChainerEdits.TestCase
TestChainerEdits.settings = long(30)
