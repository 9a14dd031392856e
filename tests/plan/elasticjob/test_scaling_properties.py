"""Properties of every history of a job that fits itself to the available capacity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plan.elasticjob.scaling_world import AFTER, MOST, RETRY, ScalingWorld, fitting
from plan.world import CrashedError, writes_children
from traincrew.plan.shared import indexes
from variation import examples, has_turn

Action = tuple[str, int]

times = st.tuples(st.just("time"), st.sampled_from([1, AFTER - 1, AFTER, RETRY, 2 * RETRY]))
actions = st.lists(
    st.one_of(
        times,
        times,
        times,
        st.tuples(st.just("room"), st.integers(0, MOST + 1)),
        st.tuples(st.just("scale"), st.integers(1, MOST)),
        st.tuples(st.just("least"), st.integers(1, MOST)),
        st.tuples(st.just("vanish"), st.integers(0, MOST - 1)),
        st.tuples(st.just("delete"), st.integers(0, MOST - 1)),
        st.tuples(st.just("evict"), st.integers(0, MOST - 1)),
        st.tuples(st.just("fail"), st.integers(0, MOST - 1)),
        st.tuples(st.just("succeed"), st.integers(0, MOST - 1)),
        st.tuples(st.just("suspend"), st.integers(0, 1)),
        st.tuples(st.just("off"), st.integers(0, 1)),
    ),
    max_size=25,
)
jobs = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, MOST),
        "minReplicas": st.integers(1, MOST - 1),
        "hosted": st.booleans(),
        "room": st.integers(0, MOST),
    }
)


def world(job: dict[str, Any]) -> ScalingWorld:
    """A job and its world."""
    least = min(job["minReplicas"], job["replicas"])
    manifest = fitting(job["replicas"], hosted=job["hosted"], minReplicas=least, maxReplicas=MOST)
    return ScalingWorld(manifest, job["room"])


def act(job: ScalingWorld, action: Action) -> None:
    """Something happens to a job."""
    word, number = action
    spec = job.job["spec"]
    if word == "room":
        job.room = number
    elif word == "time":
        job.pass_time(number)
    elif word == "scale":
        job.scale(max(number, spec["minReplicas"]))
    elif word == "least":
        job.edit(minReplicas=min(number, wanted(job), MOST - 1))
    elif word == "suspend":
        job.edit(suspend=bool(number))
    elif word == "off":
        job.edit(fitAvailable=None if number else {"afterSeconds": AFTER, "retrySeconds": RETRY})
    else:
        _to_a_pod(job, word, f"{job.name}-worker-{number}")


def _to_a_pod(job: ScalingWorld, word: str, name: str) -> None:
    pod = job.pods.get(name)
    if pod is None:
        return
    runs = pod["status"]["phase"] == "Running"
    if word == "vanish":
        if pod["status"]["phase"] in {"Pending", "Running"}:
            job.vanish(name)
    elif word == "delete":
        job.delete(name)
    elif word == "evict" and runs:
        pod["status"] |= {"phase": "Failed", "reason": "Evicted", "containerStatuses": []}
    elif word in {"fail", "succeed"} and runs:
        job.end(pod, int(word == "fail"), finishedAt=job.stamp())


def wanted(job: ScalingWorld) -> int:
    """How many workers the user wants."""
    replicas: int = job.job["spec"]["replicaSpecs"]["Worker"]["replicas"]
    return replicas


def rest(job: ScalingWorld) -> None:
    """Let the world settle, and check that running pods stay and nothing flips back and forth."""
    made = dict(job.made)
    scaled_in = set(range(wanted(job), MOST))
    done = job.status.get("phase") in {"Succeeded", "Failed"} or job.job["spec"].get("suspend")
    running = {
        name: pod["metadata"]["uid"]
        for name, pod in job.pods.items()
        if pod["status"]["phase"] == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and int(name[-1]) not in scaled_in
    }
    waiting = {
        name
        for name, pod in job.pods.items()
        if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]
    }
    job.settle()
    for name, count in job.made.items():
        assert count <= made.get(name, 0) + (name not in waiting), f"{name} comes and goes"
    if not done and job.status["phase"] in {"Created", "Running", "Restarting"}:
        for name, uid in running.items():
            assert job.pods[name]["metadata"]["uid"] == uid, f"{name} ran"
    at_rest(job)


def at_rest(job: ScalingWorld) -> None:
    """What holds when nothing more has to be done."""
    plan = job.plan()
    assert not writes_children(plan)
    assert plan.status == job.status
    assert plan.events == []
    status, spec = job.status, job.job["spec"]
    given = indexes.parse(job.given_up, wanted(job))
    assert job.holds("Fitted") == bool(given) or status["phase"] in {"Succeeded", "Failed"}
    if status["phase"] == "Suspended":
        assert (job.pods, given) == ({}, set())
    if status["phase"] not in {"Created", "Running", "Restarting"}:
        return
    retried = status.get("fit", {}).get("retryIndex")
    missing = given - {retried}
    assert retried is None or retried in given
    expected = [index for index in range(wanted(job)) if index not in missing]
    hosted = "rdzvEndpoint" not in spec
    if hosted and spec.get("fitAvailable") and job.pod(0)["status"]["phase"] == "Pending":
        assert set(job.workers) <= set(expected)
    else:
        assert job.workers == expected
    assert 0 in job.workers or not hosted
    assert len(job.workers) <= spec["maxReplicas"]
    assert 0 not in given or not hosted
    if not spec.get("fitAvailable"):
        assert not given
    ended = any(pod["status"]["phase"] == "Succeeded" for pod in job.pods.values())
    if given and not ended:
        failed = 0
        if "rdzvEndpoint" in spec:  # else their host may have been to blame
            ends = [pod["status"] for pod in job.pods.values()]
            failed = sum(end["phase"] == "Failed" and "reason" not in end for end in ends)
        assert wanted(job) - len(given) - failed >= spec["minReplicas"]
        assert plan.requeue_after is not None or _is_held_up(job, missing)


def _is_held_up(job: ScalingWorld, missing: set[int]) -> bool:
    """Whether no worker can be retried at this moment."""
    return all(f"{job.name}-worker-{index}" in job.pods for index in missing)


SETTINGS = settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@SETTINGS
@given(jobs, actions)
def test_the_number_of_workers_is_right_and_stable(job: dict[str, Any], what: list[Action]) -> None:
    one = world(job)
    rest(one)
    for action in what:
        act(one, action)
        rest(one)


HISTORIES: list[list[Action]] = [
    [("time", AFTER), ("time", RETRY), ("time", AFTER), ("room", MOST), ("time", RETRY)],
    [("time", AFTER), ("room", 2), ("time", RETRY), ("time", AFTER), ("time", RETRY)],
    [("room", MOST), ("room", 2), ("vanish", 1), ("time", AFTER), ("room", MOST), ("time", RETRY)],
    [("time", AFTER), ("time", RETRY), ("scale", 4), ("time", AFTER), ("scale", 2), ("scale", 3)],
    [("time", AFTER), ("time", RETRY), ("suspend", 1), ("suspend", 0), ("time", AFTER)],
    [("time", AFTER), ("least", 2), ("time", AFTER), ("off", 1), ("off", 0), ("time", AFTER)],
    [("room", 2), ("time", AFTER), ("fail", 1), ("time", AFTER), ("time", RETRY), ("succeed", 0)],
    [("room", 2), ("time", AFTER), ("time", RETRY), ("succeed", 0), ("succeed", 1)],
]


@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize("history", HISTORIES)
def test_a_crash_at_any_write_changes_nothing(history: list[Action], hosted: bool) -> None:
    def live(crash_at: int | None) -> tuple[list[Any], int]:
        one = world({"replicas": 3, "minReplicas": 1, "hosted": hosted, "room": 1})
        one.crash_at = crash_at
        seen = []
        for action in [("time", 1), *history]:
            act(one, action)
            try:
                one.settle()
            except CrashedError:
                one.controllers()  # nodes and scheduler do not wait for the next operator
            one.settle()
            status = one.status
            seen.append((one.workers, status.get("fit"), status["phase"], status["restarts"]))
        return seen, one.writes

    steady, writes = live(None)
    for number in filter(has_turn, range(writes)):
        assert live(number)[0] == steady, f"died at write {number}"


def test_no_worker_is_retried_before_the_host_is_scheduled() -> None:
    """Its pod would not be created, and the status would promise what does not happen."""
    one = world({"replicas": 1, "minReplicas": 1, "hosted": True, "room": 1})
    rest(one)
    for action in [("scale", 4), ("delete", 0), ("time", AFTER), ("time", RETRY)]:
        act(one, action)
        rest(one)
    assert one.given_up == "2-3"
    assert "retryIndex" not in one.status["fit"]
    one.room = 2 * MOST
    one.settle()
    assert one.workers == [0, 1, 2, 3]
    assert "fit" not in one.status


@SETTINGS
@given(jobs, actions)
def test_with_capacity_for_all_all_are_recreated(job: dict[str, Any], what: list[Action]) -> None:
    one = world(job)
    rest(one)
    for action in what:
        act(one, action)
        rest(one)
    one.edit(suspend=False)
    one.room = 2 * MOST
    one.later(2 * RETRY).later(2 * RETRY)
    ended = any(pod["status"]["phase"] == "Succeeded" for pod in one.pods.values())
    if one.status["phase"] not in {"Succeeded", "Failed"} and not ended:
        assert one.workers == list(range(wanted(one)))
        assert "fit" not in one.status


edits = st.lists(
    st.tuples(
        st.one_of(
            times,
            st.tuples(st.just("room"), st.integers(0, MOST + 1)),
            st.tuples(st.just("scale"), st.integers(1, MOST)),
            st.tuples(st.just("least"), st.integers(1, MOST)),
            st.tuples(st.just("suspend"), st.integers(0, 1)),
            st.tuples(st.just("off"), st.integers(0, 1)),
        ),
        st.booleans(),
    ),
    max_size=20,
)


@settings(SETTINGS, max_examples=examples(40))
@given(jobs, edits)
@example(
    {"replicas": 2, "minReplicas": 1, "hosted": False, "room": 1},
    [
        (("time", 1), True),
        (("time", AFTER), True),
        (("room", 2), True),
        (("time", RETRY), True),
    ],
)
@example(
    {"replicas": 2, "minReplicas": 1, "hosted": False, "room": 0},
    [
        (("off", 1), False),
        (("time", AFTER), False),
        (("off", 0), True),
        (("time", RETRY), True),
        (("scale", 1), False),
    ],
)
def test_no_restart_is_counted_where_no_pod_ended_by_itself(
    job: dict[str, Any], what: list[tuple[Action, bool]]
) -> None:
    """Whenever the status is written, at once or after a while."""
    one = world(job)
    for action, defers in what:
        act(one, action)
        one.defers = defers
        one.settle()
        assert one.status["restarts"] == 0
    one.defers = False
    rest(one)
    assert one.status["restarts"] == 0
