"""Plans of Deployments and ReplicaSets, by tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.deployment.plan import Plan, plan_deployment
from traincrew.local.controllers.replicas.plan import Plan as ReplicaPlan
from traincrew.local.controllers.replicas.plan import (
    plan_replicas,
    selector_of,
    with_failure,
)

NOW = 1_700_000_000.0


def template(image: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def deployment(status: dict[str, Any] | None = None, **spec: Any) -> AnyObject:
    return msgspec.convert(
        {
            "metadata": {"name": "app", "namespace": "n", "uid": "D", "generation": 2},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": {"app": "a"}},
                "template": template("new"),
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
                },
            }
            | spec,
            "status": status or {},
        },
        AnyObject,
    )


def replica_set(
    image: str, wants: int, available: int | None = None, *, revision: int = 1
) -> AnyObject:
    made = template(image)
    made["metadata"]["labels"]["pod-template-hash"] = image
    has = wants if available is None else available
    return msgspec.convert(
        {
            "metadata": {
                "name": f"app-{image}",
                "namespace": "n",
                "uid": image,
                "creationTimestamp": format_time(NOW - 100 + revision),
                "annotations": {"deployment.kubernetes.io/revision": str(revision)},
            },
            "spec": {"replicas": wants, "template": made},
            "status": {"replicas": wants, "readyReplicas": has, "availableReplicas": has},
        },
        AnyObject,
    )


def sizes(plan: Plan) -> dict[str, int]:
    found = {item.replica_set.metadata.name: item.replicas for item in plan.scale}
    if plan.create is not None:
        found["new"] = plan.create["spec"]["replicas"]
    return found


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([], {"new": 4}),
        ([replica_set("old", 4)], {"new": 1}),
        # One surge pod already: an old pod has to be deleted first.
        (
            [replica_set("old", 4), replica_set("new", 1, 0, revision=2)],
            {"app-old": 3},
        ),
        ([replica_set("old", 3), replica_set("new", 1, 1, revision=2)], {"app-new": 2}),
        (
            [replica_set("old", 3), replica_set("new", 2, 2, revision=2)],
            {"app-old": 1},
        ),
        # Unhealthy old pods are deleted first, whatever the state of the new ones.
        (
            [replica_set("old", 4, 3), replica_set("new", 1, 0, revision=2)],
            {"app-old": 3},
        ),
        ([replica_set("old", 0), replica_set("new", 4, 4, revision=2)], {}),
        ([replica_set("new", 6)], {"app-new": 4}),
        ([replica_set("new", 2)], {"app-new": 4}),
    ],
)
def test_rolling(sets: list[AnyObject], expected: dict[str, int]) -> None:
    assert sizes(plan_deployment(deployment(), sets, 0, NOW)) == expected


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    subject = deployment(strategy={"type": "Recreate"})
    old = [replica_set("old", 4)]

    assert sizes(plan_deployment(subject, old, 4, NOW)) == {"app-old": 0}
    assert sizes(plan_deployment(subject, [replica_set("old", 0)], 2, NOW)) == {}
    assert sizes(plan_deployment(subject, [replica_set("old", 0)], 0, NOW)) == {"new": 4}


def test_percentages_and_pauses() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {}}
    subject = deployment(strategy=rolling, replicas=10)
    paused = deployment(paused=True, replicas=7)

    assert sizes(plan_deployment(subject, [replica_set("old", 10)], 0, NOW)) == {"new": 3}
    assert sizes(plan_deployment(paused, [replica_set("old", 4)], 0, NOW)) == {"app-old": 7}


def test_the_new_replica_set() -> None:
    plan = plan_deployment(deployment(), [replica_set("old", 4, revision=6)], 0, NOW)

    assert plan.create is not None
    labels = plan.create["metadata"]["labels"]
    assert plan.create["metadata"]["name"] == f"app-{labels['pod-template-hash']}"
    assert plan.create["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "7"}
    assert plan.create["spec"]["selector"] == {"matchLabels": labels}
    assert plan.create["spec"]["template"]["metadata"]["labels"] == labels
    assert [(event.reason, event.message) for event in plan.events] == [
        (
            "ScalingReplicaSet",
            f"Scaled up replica set {plan.create['metadata']['name']} from 0 to 1",
        )
    ]
    assert "paused" not in plan.create["spec"]


def test_a_rollback_gives_the_old_replica_set_a_new_revision() -> None:
    sets = [replica_set("new", 0, revision=1), replica_set("old", 4, revision=2)]

    plan = plan_deployment(deployment(), sets, 0, NOW)

    assert plan.renumber is sets[0]
    assert plan.revision == "3"


def test_history_is_limited() -> None:
    sets = [replica_set(f"old{i}", 0, revision=i) for i in range(1, 5)]
    sets.append(replica_set("new", 4, revision=9))

    plan = plan_deployment(deployment(revisionHistoryLimit=1), sets, 0, NOW)

    assert [item.metadata.name for item in plan.delete] == ["app-old1", "app-old2", "app-old3"]


def condition(plan: Plan, kind: str) -> tuple[str, str]:
    (found,) = (item for item in plan.status["conditions"] if item["type"] == kind)
    return found["status"], found["reason"]


def test_status() -> None:
    sets = [replica_set("old", 2, 1), replica_set("new", 2, 2, revision=2)]

    plan = plan_deployment(deployment(), sets, 0, NOW)

    assert {key: value for key, value in plan.status.items() if key != "conditions"} == {
        "observedGeneration": 2,
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 2,
    }
    assert condition(plan, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(plan, "Progressing") == ("True", "ReplicaSetUpdated")


def test_progress_has_a_deadline() -> None:
    sets = [replica_set("new", 4, 1)]
    first = plan_deployment(deployment(progressDeadlineSeconds=60), sets, 0, NOW)
    assert first.requeue_at == NOW + 60

    subject = deployment(first.status, progressDeadlineSeconds=60)
    waiting = plan_deployment(subject, sets, 0, NOW + 30)
    late = plan_deployment(subject, sets, 0, NOW + 60)

    assert waiting.requeue_at == NOW + 60
    assert condition(late, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(late, "Available") == ("False", "MinimumReplicasUnavailable")


# -- ReplicaSet ----------------------------------------------------------------------------------


def pod(name: str, phase: str = "Running", *, ready: bool = True, seconds: float = 60) -> AnyObject:
    status: dict[str, Any] = {"phase": phase}
    if ready:
        status["conditions"] = [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": format_time(NOW - seconds),
            }
        ]
    meta = {"name": name, "uid": name, "labels": {"app": "a"}}
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": "n"}, "status": status}, AnyObject
    )


def owner(**spec: Any) -> AnyObject:
    return msgspec.convert(
        {
            "metadata": {"name": "app-1", "namespace": "n", "uid": "R", "generation": 1},
            "spec": {"replicas": 2, "template": template("new")} | spec,
        },
        AnyObject,
    )


@pytest.mark.parametrize(
    ("pods", "created", "deleted"),
    [
        ([], 2, []),
        ([pod("a")], 1, []),
        ([pod("a"), pod("b")], 0, []),
        ([pod("a"), pod("b"), pod("c", ready=False)], 0, ["c"]),
        ([pod("a"), pod("b"), pod("c", seconds=5)], 0, ["c"]),
        ([pod("a"), pod("b", "Failed", ready=False)], 1, []),
    ],
)
def test_a_replica_set_keeps_its_number_of_replicas(
    pods: list[AnyObject], created: int, deleted: list[str]
) -> None:
    plan = plan_replicas(owner(), REPLICA_SETS, pods, NOW)

    assert len(plan.create) == created
    assert [item.metadata.name for item in plan.delete] == deleted


def test_a_replica_set_reports() -> None:
    plan = plan_replicas(
        owner(minReadySeconds=30), REPLICA_SETS, [pod("a"), pod("b", seconds=10)], NOW
    )

    assert plan.status == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "observedGeneration": 1,
    }
    assert plan.requeue_at == NOW + 20


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    controller = owner(selector={"app": "a"})

    assert selector_of(controller) == {"matchLabels": {"app": "a"}}
    assert selector_of(owner(selector={"matchLabels": {"app": "a"}})) == {
        "matchLabels": {"app": "a"}
    }
    (made, _) = plan_replicas(controller, REPLICATION_CONTROLLERS, [], NOW).create
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["apiVersion"]) == ("ReplicationController", "v1")


def test_a_pod_that_cannot_be_created_is_reported_in_a_condition() -> None:
    plan = ReplicaPlan(create=[{}])
    failed = with_failure({"replicas": 0}, plan, "exceeded quota", NOW)

    (condition,) = failed["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "exceeded quota",
    )
    assert with_failure(failed, ReplicaPlan(), "", NOW) == {"replicas": 0}
