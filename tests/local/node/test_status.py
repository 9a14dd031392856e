"""The status of a pod as a function of its record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.node.records.record import PodRecord, Terminated
from traincrew.local.node.records.status import FINISHED, phase_of, pod_status

Document = dict[str, Any]
NOW = "2026-11-20T10:00:00Z"
LATER = "2026-11-20T10:00:05Z"

W, R, OK, BAD = "waiting", "running", "succeeded", "failed"
CRASHED = "crashed"  # waits to be restarted


def test_a_status_has_the_observed_generation() -> None:
    spec, record = make("Always", {"a": R})
    foreign = [{"type": "DisruptionTarget", "status": "True"}]
    status = pod_status(spec, record, {"conditions": foreign}, NOW, generation=3)

    assert status["observedGeneration"] == 3
    observed = {each["type"]: each.get("observedGeneration") for each in status["conditions"]}
    assert observed.pop("DisruptionTarget") is None
    assert set(observed.values()) == {3}


def make(
    policy: str,
    mains: dict[str, str],
    inits: dict[str, str] | None = None,
    sidecars: dict[str, str] | None = None,
) -> tuple[Document, PodRecord]:
    spec: Document = {
        "restartPolicy": policy,
        "containers": [{"name": name, "image": "i"} for name in mains],
        "initContainers": [
            *({"name": name, "restartPolicy": "Always"} for name in sidecars or {}),
            *({"name": name} for name in inits or {}),
        ],
    }
    record = PodRecord.of(spec, NOW, "127.0.0.1")
    record.pod_ip = "127.42.0.1"
    record.prepared = True
    for name, state in {**mains, **(inits or {}), **(sidecars or {})}.items():
        container = record.containers[name]
        if state != W:
            container.run(f"id-{name}", NOW, 0)
            container.started = container.ready = True
        if state in {OK, BAD, CRASHED}:
            code = 0 if state == OK else 1
            container.end(Terminated(code, "Completed" if code == 0 else "Error"))
        if state == CRASHED:
            container.wait("CrashLoopBackOff", "back-off")
    return spec, record


@pytest.mark.parametrize(
    ("policy", "mains", "inits", "sidecars", "phase"),
    [
        ("Always", {"a": W}, {}, {}, "Pending"),
        ("Always", {"a": R}, {}, {}, "Running"),
        ("Always", {"a": R, "b": W}, {}, {}, "Pending"),
        ("Always", {"a": R, "b": CRASHED}, {}, {}, "Running"),
        ("Always", {"a": CRASHED}, {}, {}, "Running"),
        ("Always", {"a": OK}, {}, {}, "Running"),
        ("OnFailure", {"a": OK}, {}, {}, "Succeeded"),
        ("OnFailure", {"a": BAD}, {}, {}, "Running"),
        ("OnFailure", {"a": CRASHED}, {}, {}, "Running"),
        ("OnFailure", {"a": OK, "b": CRASHED}, {}, {}, "Running"),
        ("Never", {"a": OK, "b": OK}, {}, {}, "Succeeded"),
        ("Never", {"a": OK, "b": BAD}, {}, {}, "Failed"),
        ("Never", {"a": BAD, "b": R}, {}, {}, "Running"),
        ("Never", {"a": W}, {"i": R}, {}, "Pending"),
        ("Never", {"a": W}, {"i": BAD}, {}, "Failed"),
        ("OnFailure", {"a": W}, {"i": BAD}, {}, "Pending"),
        ("Always", {"a": W}, {"i": CRASHED}, {}, "Pending"),
        ("Never", {"a": R}, {"i": OK}, {}, "Running"),
        ("Never", {"a": W}, {}, {"s": R}, "Pending"),
        ("Never", {"a": R}, {}, {"s": CRASHED}, "Running"),
        ("Never", {"a": OK}, {}, {"s": R}, "Running"),
        ("Never", {"a": OK}, {}, {"s": BAD}, "Succeeded"),
    ],
)
def test_phases(
    policy: str,
    mains: dict[str, str],
    inits: dict[str, str],
    sidecars: dict[str, str],
    phase: str,
) -> None:
    spec, record = make(policy, mains, inits, sidecars)
    assert phase_of(spec, record) == phase


def conditions(status: Document) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_a_ready_pod() -> None:
    spec, record = make("Always", {"a": R}, {"i": OK})
    status = pod_status(spec, record, {}, NOW)
    assert set(conditions(status).values()) == {"True"}
    assert status["containerStatuses"] == [
        {
            "name": "a",
            "image": "i",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": NOW}},
            "lastState": {},
            "containerID": "id-a",
            "resources": {},
        }
    ]
    assert status["podIPs"] == [{"ip": "127.42.0.1"}]


def test_a_pod_that_initializes() -> None:
    spec, record = make("Always", {"a": W}, {"i": R, "j": W})
    status = pod_status(spec, record, {}, NOW)
    initialized = next(each for each in status["conditions"] if each["type"] == "Initialized")
    assert initialized["message"] == "containers with incomplete status: [i j]"
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(status)["Ready"] == "False"


def test_the_last_state_is_kept() -> None:
    spec, record = make("Always", {"a": CRASHED})
    (container,) = pod_status(spec, record, {}, NOW)["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    assert container["lastState"] == {"terminated": {"exitCode": 1, "reason": "Error"}}
    record.containers["a"].run("id-2", LATER, 1)
    (container,) = pod_status(spec, record, {}, NOW)["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 1


def test_resources_and_mounts_are_reported() -> None:
    spec, record = make("Always", {"a": R})
    spec["containers"][0] |= {
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "w", "mountPath": "/w", "readOnly": True, "subPath": "s"},
        ],
    }
    (container,) = pod_status(spec, record, {}, NOW)["containerStatuses"]
    assert container["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert container["allocatedResources"] == {"cpu": "1"}
    assert container["volumeMounts"] == [
        {"name": "v", "mountPath": "/v"},
        {"name": "w", "mountPath": "/w", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]


UNKNOWN = ("ContainerStatusUnknown", 137)


@pytest.mark.parametrize(
    ("mains", "inits", "phase", "ends"),
    [
        ({"a": OK, "b": OK}, {}, "Succeeded", {"a": ("Completed", 0), "b": ("Completed", 0)}),
        ({"a": OK, "b": BAD}, {}, "Failed", {"a": ("Completed", 0), "b": ("Error", 1)}),
        ({"a": CRASHED}, {}, "Failed", {"a": ("Error", 1)}),
        ({"a": W}, {}, "Failed", {"a": UNKNOWN}),
        ({"a": W}, {"i": OK}, "Failed", {"a": UNKNOWN, "i": ("Completed", 0)}),
        ({"a": W}, {"i": OK, "j": BAD}, "Failed", {"i": ("Completed", 0), "j": ("Error", 1)}),
        ({"a": W}, {"i": OK, "j": W}, "Failed", {"i": ("Completed", 0)}),
        ({"a": W}, {"i": W, "j": W}, "Failed", {"i": UNKNOWN}),
    ],
)
def test_in_a_closed_pod_all_started_containers_have_ended(
    mains: dict[str, str],
    inits: dict[str, str],
    phase: str,
    ends: dict[str, tuple[str, int]],
) -> None:
    spec, record = make("Always", mains, inits)
    record.close(spec)
    status = pod_status(spec, record, {}, NOW)
    assert status["phase"] == phase
    shown = [*status["containerStatuses"], *status.get("initContainerStatuses", [])]
    ended = {each["name"]: each["state"].get("terminated") for each in shown}
    assert {name: (end["reason"], end["exitCode"]) for name, end in ended.items() if end} == ends
    reasons = {each["type"]: each.get("reason") for each in status["conditions"]}
    ended_as = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}[phase]
    assert reasons["Ready"] == ("ContainersNotReady" if UNKNOWN in ends.values() else ended_as)


def test_times_of_conditions_move_only_when_they_change() -> None:
    spec, record = make("Always", {"a": R})
    before = pod_status(spec, record, {}, NOW)
    record.containers["a"].ready = False
    after = pod_status(spec, record, before, LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in after["conditions"]}
    assert times["Ready"] == times["ContainersReady"] == LATER
    assert times["Initialized"] == times["PodScheduled"] == NOW


def test_conditions_of_others_and_readiness_gates() -> None:
    spec, record = make("Always", {"a": R})
    spec["readinessGates"] = [{"conditionType": "example.com/gate"}]
    assert conditions(pod_status(spec, record, {}, NOW))["Ready"] == "False"
    previous = {"conditions": [{"type": "example.com/gate", "status": "True"}]}
    shown = conditions(pod_status(spec, record, previous, NOW))
    assert shown["Ready"] == "True"
    assert shown["example.com/gate"] == "True"


def test_a_pod_ended_by_the_node_fails_when_all_containers_have_stopped() -> None:
    spec, record = make("Always", {"a": R})
    record.failure = ("DeadlineExceeded", "too long")
    assert phase_of(spec, record) == "Running"
    record.containers["a"].end(Terminated(143, "Error"))
    status = pod_status(spec, record, {}, NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_final_phase_stays() -> None:
    spec, record = make("Always", {"a": R})
    assert pod_status(spec, record, {"phase": "Succeeded"}, NOW)["phase"] == "Succeeded"


STATES = st.sampled_from([W, R, OK, BAD, CRASHED])


@given(
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.lists(STATES, min_size=1, max_size=3),
    st.lists(STATES, max_size=2),
)
def test_a_status_is_stable_and_never_contradicts_itself(
    policy: str, mains: list[str], inits: list[str]
) -> None:
    spec, record = make(
        policy,
        {f"m{index}": state for index, state in enumerate(mains)},
        {f"i{index}": state for index, state in enumerate(inits)},
    )
    first = pod_status(spec, record, {}, NOW)
    assert pod_status(spec, record, first, LATER) == first
    if first["phase"] in FINISHED:
        assert conditions(first)["Ready"] == "False"
        assert not any("running" in each["state"] for each in first["containerStatuses"])
    if conditions(first)["Ready"] == "True":
        assert first["phase"] in {"Running", "Pending"}
