"""What each scheduler of gangs must do with our jobs; a file for each runs all of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from .gang_support import PLURALS, SIZE, UNTIL_TOLD
from .install_support import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .gang_support import GangUser

ROUNDS = int(os.environ.get("TRAINCREW_GANG_ROUNDS", "6"))
"""Rounds of two gangs; 100 are run by hand, since a round takes seconds."""
ROUND_SECONDS = 120.0
"""Timeout of a round. Schedulers look at pods that found no room again after ten seconds or so."""


@pytest.fixture(autouse=True)
def clean(user: GangUser) -> Iterator[None]:
    """Leave no job behind."""
    yield
    user.delete_all()


class GangCases:
    """The cases; the fixture ``user`` is of the file's scheduler."""

    @pytest.mark.timeout(60 + ROUND_SECONDS * ROUNDS)
    def test_two_gangs_that_fit_one_at_a_time_never_block_each_other(self, user: GangUser) -> None:
        """As many rounds as there is time for, in turn with jobs of each kind."""
        makers = (user.elastic, user.mxnet, user.chainer, user.mpi)
        for number in range(ROUNDS):
            make = makers[number % len(makers)]
            names = [f"{each}-{number}" for each in ("one", "two")]
            jobs = [make(name, "exit 0") for name in names]
            user.create_together(*jobs)
            plural = PLURALS[jobs[0]["kind"]]
            user.until(
                f"both jobs of round {number} have succeeded",
                lambda plural=plural, names=names: _succeeded(user, plural, names),  # type: ignore[misc]
                ROUND_SECONDS,
            )
            user.kubectl("delete", plural, *names, "--wait=false")
        assert user.items("events", f"--field-selector=reason={user.engine.event}")

    def test_a_gang_that_waits_says_why(self, user: GangUser) -> None:
        user.create(user.elastic("first", UNTIL_TOLD))
        user.until_running("first", SIZE)
        user.create(user.elastic("second", UNTIL_TOLD))
        beginning = f"3 pods are scheduled together or not at all ({user.engine.served.name}): "

        def told() -> bool:
            status = user.status("second")
            if status.get("reason") != "WaitingForGang":
                return False
            assert status["message"].startswith(beginning)
            return user.engine.says in status["message"]

        user.until("the reason of the second", told, 60)
        assert beginning in user.why("second")
        assert not any(pod["spec"].get("nodeName") for pod in user.pods_of("second"))

        user.kubectl("delete", "elasticjob", "first")
        user.until_running("second", SIZE)

    def test_the_size_follows_the_scale(self, user: GangUser) -> None:
        user.create(user.elastic("scaled", UNTIL_TOLD, 2))
        user.until_running("scaled", 2)
        self._scale(user, "scaled", 4)
        user.until_running("scaled", 4)
        resizable = user.engine.served.is_resizable
        user.until("the size of four", lambda: user.size("scaled") == (4 if resizable else 2))
        self._scale(user, "scaled", 1)
        user.until_running("scaled", 1)
        user.until("the size of one", lambda: user.size("scaled") == (1 if resizable else 2))
        self._replaced(user, "scaled", 0, 1)

    def test_a_pod_does_not_wait_for_one_that_has_succeeded(self, user: GangUser) -> None:
        user.create(user.elastic("ends", UNTIL_TOLD))
        user.until_running("ends", SIZE)
        user.fail("ends-worker-0", 0)
        user.until("one has succeeded", lambda: _phase(user, "ends-worker-0") == "Succeeded", 60)
        self._replaced(user, "ends", 1)

    def test_a_gang_is_suspended_and_resumed_with_another_size(self, user: GangUser) -> None:
        user.create(user.elastic("pausing", UNTIL_TOLD))
        user.until_running("pausing", SIZE)
        user.create(user.elastic("waiting", UNTIL_TOLD))
        self._edit(user, "pausing", suspend=True)
        user.until_running("waiting", SIZE)
        user.until("no pods", lambda: not user.pods_of("pausing"), 60)
        user.kubectl("delete", "elasticjob", "waiting")
        self._scale(user, "pausing", 2, suspend=False)
        user.until_running("pausing", 2)
        user.until("the size of two", lambda: user.size("pausing") == 2)

    def test_the_operator_lacks_no_right(self, user: GangUser) -> None:
        """With the rules of `deploy/`; a cluster whose API server has no such group cannot tell."""
        user.create(user.elastic("rights", "exit 0"))
        user.until("it has succeeded", lambda: user.status("rights").get("phase") == "Succeeded")
        denied = [each for each in user.requests(ACCOUNT) if each["responseStatus"]["code"] == 403]
        assert not denied

    def _scale(self, user: GangUser, job: str, size: int, **spec: object) -> None:
        worker = user.get("elasticjob", job)["spec"]["replicaSpecs"]["Worker"]
        self._edit(
            user,
            job,
            schedulingPolicy={"minAvailable": size},
            replicaSpecs={"Worker": {**worker, "replicas": size}},
            **spec,
        )

    def _edit(self, user: GangUser, job: str, **spec: object) -> None:
        patch = json.dumps({"spec": spec})
        user.kubectl("patch", "elasticjob", job, "--type=merge", "-p", patch)

    def _replaced(self, user: GangUser, job: str, index: int, ready: int | None = None) -> None:
        """Let a worker fail, and wait until another runs in its place."""
        name = f"{job}-worker-{index}"
        before = user.get("pod", name)["metadata"]["uid"]
        user.fail(name)

        def again() -> bool:
            pod = user.get("pod", name)
            return bool(
                pod and pod["metadata"]["uid"] != before and pod["status"]["phase"] == "Running"
            )

        user.until(f"{name} runs again", again, 90)
        if ready is not None:
            user.until_running(job, ready)


def _phase(user: GangUser, pod: str) -> str:
    return str(user.get("pod", pod).get("status", {}).get("phase"))


def _succeeded(user: GangUser, plural: str, names: list[str]) -> bool:
    found = {
        each["metadata"]["name"]: {
            condition["type"]
            for condition in each.get("status", {}).get("conditions", ())
            if condition["status"] == "True"
        }
        for each in user.items(plural)
    }
    assert not any("Failed" in conditions for conditions in found.values()), found
    return all("Succeeded" in found.get(name, ()) for name in names)
