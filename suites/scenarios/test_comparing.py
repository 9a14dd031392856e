"""The comparison of transcripts, without any cluster."""

from __future__ import annotations

from typing import Any

import pytest

from .compare import compare
from .differences import DIFFERENCES, Difference
from .normalize import Normaliser
from .page import PLACE, page
from .recording import Observation, Recording
from .transcript import Transcript, transcribe

UID = "{:08x}-8f5c-4a53-9d0e-1f3b5a7c9d00"


def observation(version: int, change: str, kind: str, name: str, **content: Any) -> Observation:
    """Return one state of an object; the UID is derived from kind and name."""
    uid = UID.format(sum(map(ord, kind + name)))
    metadata = {
        "name": name,
        "namespace": "trial",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        **content.pop("metadata", {}),
    }
    return Observation(version, change, kind, {"kind": kind, "metadata": metadata, **content})


def transcript(*observations: Observation) -> Transcript:
    recording = Recording("trial")
    for each in observations:
        recording.add(each)
    return transcribe(recording.observations, ["node-1", "node-2"], {}, {})


# -- normalising --------------------------------------------------------------------------------


def pod(version: int, name: str) -> Observation:
    return observation(version, "ADDED", "Pod", name, metadata={"generateName": "j-master-"})


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Created pod: j-master-x7k2p", "Created pod: j-master-<1>"),
        ("j-master-bbbbb after j-master-x7k2p", "j-master-<2> after j-master-<1>"),
        ("assigned trial/j-master-x7k2p to node-2", "assigned trial/j-master-<1> to <node>"),
        ("since 2026-01-02T03:04:05Z", "since <time>"),
        ("renewed 2026-01-02T03:04:05.123456Z.", "renewed <time>."),
        ("listens on 127.0.13.7:80", "listens on <ip>:80"),
        ("volume kube-api-access-h2b7x", "volume kube-api-access-<random>"),
        ("image docker.io/x@sha256:" + "ab" * 32, "image docker.io/x@<digest>"),
        ("containerd://" + "0f" * 32, "<container>"),
        ("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n", "<certificate>\n"),
        ("loss 0.5  12.3 s\nloss 0.4  1.0 s", "loss 0.5  <seconds>\nloss 0.4  <seconds>"),
        (UID.format(99), "<uid>"),
        ("node-10 is another node", "node-10 is another node"),
    ],
)
def test_what_differs_between_runs_is_replaced(text: str, normal: str) -> None:
    seen = [pod(1, "j-master-x7k2p"), pod(2, "j-master-bbbbb")]
    assert Normaliser(seen, ["node-1", "node-2"]).text(text) == normal


def test_uids_say_whose_they_are() -> None:
    seen = observation(1, "ADDED", "Job", "j-master")
    assert Normaliser([seen], []).text(f"owner {seen.uid}") == "owner <uid of Job j-master>"


def test_records_of_pods_are_compared_by_place() -> None:
    text = "2026-01-02T03:04:05Z 0/0r/zQ3W 2026-01-02T03:04:06Z 1/2x/TcSj"
    status = {"podRecords": {"master": "2026-01-02T03:04:05Z /0/qHzA", "ws": text}}
    assert Normaliser([], []).lines(status) == [
        "podRecords.master: 0 restarts",
        "podRecords.ws-0: 0 restarts, ready",
        "podRecords.ws-1: 2 restarts, released",
    ]


# -- transcripts ------------------------------------------------------------------------------


def test_states_in_the_order_in_which_they_were_stored() -> None:
    running = {"phase": "Running"}
    told = transcript(
        observation(5, "MODIFIED", "Pod", "p", spec={"nodeName": "node-1"}, status=running),
        observation(3, "ADDED", "Pod", "p", spec={}, status={"phase": "Pending"}),
        observation(9, "DELETED", "Pod", "p", spec={"nodeName": "node-1"}, status=running),
    )
    assert told["Pod p, life"] == [
        "created",
        "phase Pending",
        "spec: {} -> unset",
        "spec.nodeName: unset -> <node>",
        "phase Running",
        "gone",
    ]


def test_a_container_that_ends_is_told_once() -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error", "containerID": "containerd://1"}}
    first = {"containerStatuses": [{"name": "c", "state": ended}]}
    again = {"containerStatuses": [{"name": "c", "state": {"running": {}}, "lastState": ended}]}
    told = transcript(
        observation(1, "ADDED", "Pod", "p", status=first),
        observation(2, "MODIFIED", "Pod", "p", status=again),
    )
    assert told["Pod p, life"] == ["created", "container c: Error, exit 3"]


def test_a_role_that_follows_the_pods_is_compared_by_what_it_grants() -> None:
    def rules(*pods: str) -> list[dict[str, Any]]:
        named = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
        return [{**named, "resourceNames": list(pods)}] if pods else []

    def seen(*states: list[dict[str, Any]]) -> list[str]:
        changes = ["ADDED", *["MODIFIED"] * (len(states) - 1)]
        return transcript(
            *(
                observation(version, change, "Role", "r", rules=state or None)
                for version, (change, state) in enumerate(zip(changes, states, strict=True), 1)
            )
        )["Role r, life"]

    assert seen(rules("a"), rules("a", "b")) == [
        "created",
        "grants get /pods a",
        "grants get /pods b",
        "grants at last get /pods a",
        "grants at last get /pods b",
    ]
    once = seen(rules(), rules("a"), rules())
    assert once == ["created", "grants get /pods a"]
    assert once == seen(rules(), rules("a"), rules(), rules("a"), rules())
    assert once != seen(rules(), rules("a"))


def test_what_the_operator_makes_together_has_no_order() -> None:
    owned = {"ownerReferences": [{"kind": "ChainerJob", "name": "j"}]}
    first = [
        observation(version, "ADDED", kind, "j", metadata=owned)
        for version, kind in enumerate(("Role", "ConfigMap", "ServiceAccount", "StatefulSet"), 1)
    ]
    second = [first[2]._replace(version=1), first[0]._replace(version=2), *first[1:2], first[3]]
    steps = transcript(*first)["Steps of the operator"]
    assert steps[-1] == "StatefulSet j: created"
    assert steps == transcript(*second)["Steps of the operator"]


def event(version: int, reason: str, component: str, count: int = 1) -> Observation:
    return observation(
        version,
        "ADDED",
        "Event",
        f"e{version}",
        involvedObject={"kind": "Pod", "name": "p"},
        type="Normal",
        reason=reason,
        message="text",
        reportingComponent=component,
        count=count,
    )


def test_events_by_object_and_component_with_their_number() -> None:
    told = transcript(
        event(1, "Pulled", "kubelet"), event(2, "Scheduled", "scheduler"),
        event(4, "Started", "kubelet"), event(3, "Started", "kubelet", count=2),
        event(5, "BackOff", "kubelet", count=9),
    )  # fmt: skip
    assert told["Pod p, events of scheduler"] == ["Normal Scheduled: text"]
    assert told["Pod p, events of kubelet"] == [
        "Normal Pulled: text",
        "Normal Started: text x3",
        "Normal BackOff: text",  # how often depends on how long it took
    ]


# -- differences --------------------------------------------------------------------------------

HERE = {"Pod p, life": ["created", "phase Pending", "phase Running", "gone"]}
THERE = {"Pod p, life": ["created", "phase Pending", "phase Failed", "gone"]}


def test_equal_transcripts_have_no_difference() -> None:
    assert compare("s", HERE, HERE, []).text == ""


def test_a_difference_is_shown_with_its_surroundings() -> None:
    assert compare("s", HERE, THERE, []).text.splitlines() == [
        "== Pod p, life",
        "         | created",
        "         | phase Pending",
        "embedded | phase Running",
        "real     | phase Failed",
        "         | gone",
    ]


def test_a_section_that_only_one_cluster_has_is_a_difference() -> None:
    assert compare("s", {}, THERE, []).text.startswith("== Pod p, life\nreal     | created")


def test_listed_differences_pass_and_are_told() -> None:
    listed = Difference("phases", "why", "Pod .*, life", embedded="phase R.*", real="phase Failed")
    assert compare("s", HERE, THERE, [listed]) == ("", {"phases"}, [])


@pytest.mark.parametrize(
    "listed",
    [
        Difference("one side", "why", "Pod .*, life", embedded="phase Running"),
        Difference("part of a line", "why", "Pod .*, life", embedded="Running", real="Failed"),
        Difference("other section", "why", "Job .*", embedded=".*", real=".*"),
        Difference("other scenario", "why", ".*", embedded=".*", real=".*", scenarios="t"),
    ],
    ids=lambda each: each.name,
)
def test_what_is_not_quite_listed_does_not_pass(listed: Difference) -> None:
    assert compare("s", HERE, THERE, [listed]).text


SAID = "Warning FailedScheduling: skip schedule deleting pod"


@pytest.mark.parametrize(
    ("embedded", "real", "chance"),
    [
        ({}, {"Pod p, events of kubelet": [SAID]}, True),
        ({}, {"Pod p, events of default-scheduler": [SAID]}, True),
        ({}, {"Service s, events of endpoint-slice-controller": [SAID]}, True),
        ({}, {}, False),
        ({"Pod p, events of kubelet": [SAID]}, {}, False),
        ({}, {"Pod p, last status": [SAID]}, False),
        ({}, {"ChainerJob j, events of chainer-operator": [SAID]}, False),
        ({}, {"ElasticJob j, events of elastic-job-k8s-controller": [SAID]}, False),
        ({}, {"Steps of the operator": [SAID]}, False),
        ({}, {"Pod p, events of kubelet": [SAID], "Pod p, last status": [SAID]}, False),
    ],
)
def test_what_components_of_a_real_cluster_say_besides_may_be_chance(
    embedded: Transcript, real: Transcript, chance: bool
) -> None:
    assert compare("s", embedded, real, []).may_be_chance == chance
    listed = Difference("said", "why", ".*", embedded=".*", real=".*")
    assert not compare("s", embedded, real, [listed]).may_be_chance


def test_names_of_differences_are_unique() -> None:
    names = [each.name for each in DIFFERENCES]
    assert len(names) == len(set(names))


def test_the_page_about_differences_is_current() -> None:
    assert PLACE.read_text() == page(), "python -m suites.scenarios.page"
