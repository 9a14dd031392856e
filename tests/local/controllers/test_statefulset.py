"""Plans of a StatefulSet, by tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.statefulset.identity import claims_of, ordinal_of, pod_of
from traincrew.local.controllers.statefulset.plan import Plan, plan_stateful_set
from traincrew.local.controllers.statefulset.revisions import Revisions, choose

NOW = 1_700_000_000.0
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main"}]},
}


def stateful_set(status: dict[str, Any] | None = None, **spec: Any) -> AnyObject:
    meta = spec.pop("metadata", {})
    return msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "default", "uid": "S", "generation": 3} | meta,
            "spec": {
                "replicas": 3,
                "serviceName": "web",
                "selector": {"matchLabels": {"app": "a"}},
                "template": TEMPLATE,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            }
            | spec,
            "status": status or {},
        },
        AnyObject,
    )


def pod(ordinal: int, state: str = "ready", revision: str = "new") -> AnyObject:
    phase = {"ready": "Running", "starting": "Running", "going": "Running"}.get(state, state)
    metadata: dict[str, Any] = {
        "name": f"web-{ordinal}",
        "namespace": "default",
        "uid": f"u{ordinal}",
        "labels": {
            "app": "a",
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": f"web-{ordinal}",
            "apps.kubernetes.io/pod-index": str(ordinal),
        },
    }
    status: dict[str, Any] = {"phase": phase}
    if state == "going":
        metadata["deletionTimestamp"] = format_time(NOW + 30)
    if state in {"ready", "going"}:
        status["conditions"] = [
            {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW - 10)}
        ]
    return msgspec.convert({"metadata": metadata, "status": status}, AnyObject)


def decide(subject: AnyObject, *pods: AnyObject, current: str = "new", now: float = NOW) -> Plan:
    revisions = Revisions(current, "new", {"new": TEMPLATE, "old": TEMPLATE})
    return plan_stateful_set(subject, pods, revisions, now)


def names(plan: Plan) -> tuple[list[int], list[str]]:
    return (
        [creation.ordinal for creation in plan.create],
        [item.metadata.name for item in plan.delete],
    )


@pytest.mark.parametrize(
    ("pods", "created", "deleted"),
    [
        ([], [0], []),
        ([pod(0, "Pending")], [], []),
        ([pod(0, "starting")], [], []),
        ([pod(0)], [1], []),
        ([pod(0), pod(1, "going")], [], []),
        ([pod(0), pod(1), pod(2)], [], []),
        ([pod(1), pod(2)], [0], []),
        ([pod(0, "Failed"), pod(1)], [], ["web-0"]),
        ([pod(0, "Succeeded")], [], ["web-0"]),
        # Scaling down: one at a time, from the top, and only when all are well.
        ([pod(0), pod(1), pod(2), pod(3), pod(4)], [], ["web-4"]),
        ([pod(0), pod(1), pod(2), pod(3), pod(4, "going")], [], []),
        ([pod(0), pod(1), pod(2), pod(3, "starting"), pod(4)], [], ["web-4"]),
        ([pod(0), pod(1), pod(2), pod(3), pod(4, "starting")], [], ["web-4"]),
        ([pod(0), pod(1), pod(2, "starting"), pod(3)], [], []),
    ],
)
def test_one_after_another(pods: list[AnyObject], created: list[int], deleted: list[str]) -> None:
    assert names(decide(stateful_set(), *pods)) == (created, deleted)


@pytest.mark.parametrize(
    ("pods", "created", "deleted"),
    [
        ([], [0, 1, 2], []),
        ([pod(1, "Pending")], [0, 2], []),
        ([pod(0, "Failed"), pod(1), pod(2, "Succeeded")], [], ["web-0", "web-2"]),
        ([pod(0), pod(1), pod(2), pod(3), pod(4, "Pending")], [], ["web-4", "web-3"]),
        ([pod(0, "going"), pod(1), pod(2)], [], []),
    ],
)
def test_all_at_once(pods: list[AnyObject], created: list[int], deleted: list[str]) -> None:
    subject = stateful_set(podManagementPolicy="Parallel")

    assert names(decide(subject, *pods)) == (created, deleted)


def test_a_pod_has_the_name_labels_and_host_name_of_its_ordinal() -> None:
    made = pod_of(stateful_set(), 4, TEMPLATE, "web-abc")

    assert made["metadata"]["name"] == "web-4"
    assert made["metadata"]["labels"] == {
        "app": "a",
        "apps.kubernetes.io/pod-index": "4",
        "controller-revision-hash": "web-abc",
        "statefulset.kubernetes.io/pod-name": "web-4",
    }
    assert made["spec"]["hostname"] == "web-4"
    assert made["spec"]["subdomain"] == "web"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", 0),
        ("web-12", 12),
        ("web-01", None),
        ("web", None),
        ("other-1", None),
        ("web-x", None),
    ],
)
def test_ordinals_of_names(name: str, expected: int | None) -> None:
    assert ordinal_of(stateful_set(), name) == expected


def test_ordinals_may_start_elsewhere() -> None:
    subject = stateful_set(ordinals={"start": 5}, podManagementPolicy="Parallel")

    assert names(decide(subject, pod(4), pod(5))) == ([6, 7], [])
    assert names(decide(subject, pod(4), pod(5), pod(6), pod(7))) == ([], ["web-4"])


def test_recreating_a_pod_is_reported() -> None:
    plan = decide(stateful_set(), pod(0, "Failed"))

    assert [(event.type, event.reason, event.message) for event in plan.events] == [
        (
            "Warning",
            "RecreatingFailedPod",
            "StatefulSet default/web is recreating failed Pod web-0",
        )
    ]


def test_claims_and_volumes() -> None:
    subject = stateful_set(
        volumeClaimTemplates=[
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        ],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
    )
    template = {
        **TEMPLATE,
        "spec": {"containers": [], "volumes": [{"name": "data"}, {"name": "x"}]},
    }

    (claim,) = claims_of(subject, 2)
    made = pod_of(subject, 2, template, "r")

    assert claim["metadata"]["name"] == "data-web-2"
    assert claim["metadata"]["labels"] == {"app": "a"}
    assert claim["metadata"]["ownerReferences"][0]["name"] == "web"
    assert made["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
        {"name": "x"},
    ]


def test_a_claim_template_without_a_name() -> None:
    subject = stateful_set(volumeClaimTemplates=[{"spec": {}}, {"metadata": {}, "spec": {}}])
    assert [claim["metadata"]["name"] for claim in claims_of(subject, 0)] == ["-web-0", "-web-0"]
    assert pod_of(subject, 0, TEMPLATE, "r")["spec"]["volumes"] == [
        {"name": "", "persistentVolumeClaim": {"claimName": "-web-0"}}
    ]


def test_a_set_that_is_being_deleted_creates_nothing() -> None:
    subject = stateful_set(metadata={"deletionTimestamp": format_time(NOW)})

    assert names(decide(subject)) == ([], [])


def test_an_adopted_pod_gets_its_labels() -> None:
    bare = msgspec.to_builtins(pod(0))
    bare["metadata"]["labels"] = {"app": "a", "controller-revision-hash": "new"}

    plan = decide(stateful_set(replicas=1), msgspec.convert(bare, AnyObject))

    assert plan.relabel[0][1] == {
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    }


# -- updates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "pods", "deleted"),
    [
        ({}, [pod(0, revision="old"), pod(1, revision="old"), pod(2, revision="old")], ["web-2"]),
        ({}, [pod(0, revision="old"), pod(1, revision="old"), pod(2)], ["web-1"]),
        ({}, [pod(0, revision="old"), pod(1, revision="old"), pod(2, "going", "old")], []),
        ({"partition": 2}, [pod(0, revision="old"), pod(1, revision="old"), pod(2)], []),
        ({"partition": 5}, [pod(0, revision="old")] + [pod(i, revision="old") for i in (1, 2)], []),
    ],
)
def test_rolling_update(
    strategy: dict[str, Any], pods: list[AnyObject], deleted: list[str]
) -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0} | strategy}
    for policy in ("OrderedReady", "Parallel"):
        subject = stateful_set(updateStrategy=update, podManagementPolicy=policy)

        assert names(decide(subject, *pods, current="old"))[1] == deleted


def test_an_update_waits_for_the_pod_it_replaced() -> None:
    subject = stateful_set(podManagementPolicy="Parallel")
    pods = [pod(0, revision="old"), pod(1, revision="old"), pod(2, "starting")]

    assert names(decide(subject, *pods, current="old")) == ([], [])


def test_on_delete_waits_for_somebody_to_delete() -> None:
    subject = stateful_set(updateStrategy={"type": "OnDelete"})
    old = [pod(0, revision="old"), pod(1, revision="old")]

    plan = decide(subject, *old, current="old")

    assert names(plan) == ([2], [])
    assert plan.create[0].pod["metadata"]["labels"]["controller-revision-hash"] == "new"


def test_below_the_partition_pods_are_recreated_with_the_old_revision() -> None:
    subject = stateful_set(
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
        podManagementPolicy="Parallel",
    )

    plan = decide(subject, current="old")

    made = {item.ordinal: item.pod["metadata"]["labels"] for item in plan.create}
    assert {key: value["controller-revision-hash"] for key, value in made.items()} == {
        0: "old",
        1: "old",
        2: "new",
    }


def test_once_all_are_updated_the_revision_is_the_current_one() -> None:
    plan = decide(stateful_set(), pod(0), pod(1), pod(2), current="old")

    assert plan.status == {
        "observedGeneration": 3,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": "new",
        "updateRevision": "new",
        "collisionCount": 0,
    }


def test_ready_is_available_after_a_while() -> None:
    subject = stateful_set(minReadySeconds=15)

    plan = decide(subject, pod(0))

    assert names(plan) == ([], [])
    assert plan.requeue_at == NOW + 5
    assert plan.status["readyReplicas"] == 1
    assert plan.status["availableReplicas"] == 0
    assert names(decide(subject, pod(0), now=NOW + 5)) == ([1], [])


def test_the_status_keeps_what_others_wrote() -> None:
    plan = decide(stateful_set({"conditions": [{"type": "Mine", "status": "True"}]}))

    assert plan.status["conditions"] == [{"type": "Mine", "status": "True"}]


# -- revisions -----------------------------------------------------------------------------------


def revision(document: dict[str, Any], number: int | None = None) -> AnyObject:
    return msgspec.convert(document | ({"revision": number} if number else {}), AnyObject)


def test_the_first_revision() -> None:
    chosen = choose(stateful_set(), [])

    assert chosen.create is not None
    assert chosen.create["revision"] == 1
    assert chosen.current == chosen.update == chosen.create["metadata"]["name"]
    assert chosen.templates[chosen.update] == TEMPLATE
    assert choose(stateful_set(), []).update == chosen.update


def test_a_revision_has_the_labels_of_the_template_and_the_annotations_of_the_set() -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"app": "a", "tier": "b"}}}
    annotated = {"annotations": {"made-by": "me"}}
    created = choose(stateful_set(metadata=annotated, template=template), []).create
    assert created is not None
    assert created["metadata"]["annotations"] == {"made-by": "me"}
    assert {"app": "a", "tier": "b"}.items() <= created["metadata"]["labels"].items()


def test_a_changed_template_makes_a_revision_and_an_old_one_comes_back() -> None:
    first = choose(stateful_set(), []).create
    assert first is not None
    changed = {**TEMPLATE, "spec": {"containers": [{"name": "other"}]}}
    subject = stateful_set({"currentRevision": first["metadata"]["name"]}, template=changed)

    second = choose(subject, [revision(first)])
    assert second.create is not None
    assert second.create["revision"] == 2
    assert second.current == first["metadata"]["name"]
    assert second.current != second.update

    back = choose(stateful_set(), [revision(first), revision(second.create)])
    assert back.create is None
    assert back.renumber is not None
    assert (back.renumber[0].metadata.name, back.renumber[1]) == (first["metadata"]["name"], 3)


def test_history_is_limited_and_what_is_in_use_stays() -> None:
    subject = stateful_set(revisionHistoryLimit=1)
    history = [
        revision({"metadata": {"name": f"r{i}"}, "data": {"n": i}, "revision": i})
        for i in range(1, 6)
    ]

    chosen = choose(subject, history, in_use={"r2"})

    assert [item.metadata.name for item in chosen.obsolete] == ["r1", "r3", "r4"]
