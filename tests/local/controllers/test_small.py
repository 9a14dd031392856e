"""Pure helpers: selectors, conditions, TTLs, disruption budgets, ownership."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import Resource
from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.controllers.claims import adoption_patch, claim, release_patch
from traincrew.local.controllers.common import (
    format_time,
    parse_time,
    scaled_value,
    set_condition,
    short_hash,
)
from traincrew.local.controllers.disruption import Scale, budget_status
from traincrew.local.controllers.selectors import matches, matches_map
from traincrew.local.controllers.ttl import expires_at
from traincrew.local.controllers.unsupported import (
    STORED_ONLY,
    of_claim,
    of_service,
    of_stateful_set,
    of_volume,
    stored_only,
)

NOW = 1_700_000_000.0


def obj(**document: Any) -> AnyObject:
    return msgspec.convert(document, AnyObject)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchLabels": {"c": "1"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "Gt", "values": ["4"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Lt", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "Sounds"}]}, False),
    ],
)
def test_selectors(selector: Any, expected: bool) -> None:
    assert matches(selector, {"a": "1", "b": "5"}) == expected


def test_an_empty_label_map_selects_nothing() -> None:
    assert not matches_map({}, {"a": "1"})
    assert matches_map({"a": "1"}, {"a": "1", "b": "2"})


def test_times() -> None:
    assert format_time(NOW + 0.9) == "2023-11-14T22:13:20Z"
    assert parse_time("2023-11-14T22:13:20Z") == NOW
    assert parse_time("2023-11-14T22:13:20.500000Z") == NOW + 0.5


def test_a_transition_time_moves_only_with_the_status() -> None:
    first = set_condition([], "Ready", True, "A", "a", now=NOW)
    same = set_condition(first, "Ready", True, "A", "a", now=NOW + 5, extra_times=("seen",))
    other_reason = set_condition(first, "Ready", True, "B", "b", now=NOW + 5)
    flipped = set_condition(first, "Ready", False, "B", "b", now=NOW + 5)

    assert same == first
    assert other_reason[0]["lastTransitionTime"] == format_time(NOW)
    assert other_reason[0]["reason"] == "B"
    assert flipped[0]["lastTransitionTime"] == format_time(NOW + 5)


@pytest.mark.parametrize(
    ("value", "up", "expected"),
    [(3, True, 3), ("25%", True, 3), ("25%", False, 2), ("100%", True, 10), (None, True, 0)],
)
def test_numbers_and_percentages(value: Any, up: bool, expected: int) -> None:
    assert scaled_value(value, 10, round_up=up) == expected


def test_hashes_are_stable_and_short() -> None:
    assert short_hash("u", {"b": 1, "a": 2}) == short_hash("u", {"a": 2, "b": 1})
    assert short_hash("u", 1) != short_hash("u", 2)
    assert len(short_hash("u", length=5)) == 5


# -- ownership -----------------------------------------------------------------------------------


def owned(name: str, uid: str | None = None, labels: Any = None, **meta: Any) -> AnyObject:
    owners = [{"kind": "Job", "name": "o", "uid": uid, "controller": True}] if uid else []
    return obj(
        metadata={
            "name": name,
            "uid": name,
            "resourceVersion": "7",
            "labels": {"app": "a"} if labels is None else labels,
            "ownerReferences": owners,
        }
        | meta
    )


def test_claims() -> None:
    owner = obj(metadata={"name": "o", "uid": "O"})
    selector = {"matchLabels": {"app": "a"}}
    mine, stranger = owned("mine", "O"), owned("stranger", "O", labels={})
    orphan, unrelated = owned("orphan"), owned("unrelated", labels={})
    going = owned("going", deletionTimestamp=format_time(NOW))

    claims = claim(owner, selector, [mine, stranger], [orphan, unrelated, going])

    assert claims.mine == [mine]
    assert claims.release == [stranger]
    assert claims.adopt == [orphan]


def test_a_terminating_owner_adopts_and_releases_nothing() -> None:
    owner = obj(metadata={"name": "o", "uid": "O", "deletionTimestamp": format_time(NOW)})

    claims = claim(owner, {}, [owned("mine", "O")], [owned("orphan")])

    assert [item.metadata.name for item in claims.mine] == ["mine"]
    assert (claims.adopt, claims.release) == ([], [])


def test_patches_of_ownership_are_refused_when_the_object_changed() -> None:
    adopted = adoption_patch(owned("p"), {"name": "o", "uid": "O"}, ["f"])
    released = release_patch(owned("p", "O", finalizers=["f", "g"]), ["O"], ["f"])

    guard = {"uid": "p", "resourceVersion": "7"}
    assert adopted == {
        "metadata": guard | {"ownerReferences": [{"name": "o", "uid": "O"}], "finalizers": ["f"]}
    }
    assert released == {"metadata": guard | {"ownerReferences": [], "finalizers": ["g"]}}


# -- lifetimes and budgets -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind", "expected"),
    [
        ({}, "Complete", None),
        ({"ttlSecondsAfterFinished": 0}, "Complete", NOW),
        ({"ttlSecondsAfterFinished": 30}, "Failed", NOW + 30),
        ({"ttlSecondsAfterFinished": 30}, "SuccessCriteriaMet", None),
    ],
)
def test_lifetime_of_a_finished_job(spec: Any, kind: str, expected: float | None) -> None:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": format_time(NOW)}]

    assert expires_at(obj(spec=spec, status={"conditions": conditions})) == expected


def healthy(name: str, ready: bool = True, phase: str = "Running") -> AnyObject:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return obj(
        metadata={"name": name, "uid": name}, status={"phase": phase, "conditions": conditions}
    )


@pytest.mark.parametrize(
    ("spec", "ready", "scale", "expected"),
    [
        ({"minAvailable": 2}, 3, 5, (3, 2, 1)),
        ({"minAvailable": 3}, 3, 5, (3, 3, 0)),
        ({"minAvailable": "50%"}, 3, 5, (3, 3, 0)),
        ({"minAvailable": "50%"}, 5, 5, (5, 3, 2)),
        ({"maxUnavailable": 1}, 5, 5, (5, 4, 1)),
        ({"maxUnavailable": 1}, 4, 5, (4, 4, 0)),
        ({"maxUnavailable": "50%"}, 5, 5, (5, 2, 3)),
        ({"minAvailable": 0}, 0, 0, (0, 0, 0)),
    ],
)
def test_disruption_budgets(spec: Any, ready: int, scale: int, expected: tuple[int, ...]) -> None:
    budget = obj(metadata={"name": "b", "generation": 3}, spec=spec)
    pods = [healthy(str(i)) for i in range(ready)] + [healthy("sick", ready=False)]
    pods.append(healthy("done", phase="Succeeded"))

    status = budget_status(budget, pods, [Scale("w", scale)] * 3, NOW)

    names = ("currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert tuple(status[name] for name in names) == expected
    reason = "SufficientPods" if expected[2] else "InsufficientPods"
    assert status["conditions"][0]["reason"] == reason


# -- what is not emulated ------------------------------------------------------------------------


def test_every_kind_that_is_only_stored_exists() -> None:
    known = {(item.group, item.plural) for item in builtin_resources()}

    assert STORED_ONLY.keys() <= known


def test_a_kind_that_is_only_stored_is_reported_with_an_alternative() -> None:
    ingresses = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")

    assert stored_only(ingresses) == (
        "the embedded cluster stores Ingress objects without acting on them: nothing listens; use "
        "the Service's address"
    )
    assert not stored_only(Resource("", "v1", "pods", "Pod"))


@pytest.mark.parametrize(
    ("rule", "spec", "fields"),
    [
        (of_service, {"type": "ClusterIP", "sessionAffinity": "None"}, []),
        (of_service, {"type": "NodePort"}, ["spec.type"]),
        (
            of_service,
            {"sessionAffinity": "ClientIP", "externalIPs": ["1.2.3.4"], "ipFamilies": ["IPv6"]},
            ["spec.externalIPs", "spec.ipFamilies"],
        ),
        (of_claim, {"volumeMode": "Filesystem"}, []),
        (
            of_claim,
            {"storageClassName": "fast", "volumeMode": "Block", "dataSource": {"name": "x"}},
            ["spec.volumeMode", "spec.dataSource"],
        ),
        (of_volume, {"hostPath": {"path": "/data"}}, []),
        (
            of_volume,
            {
                "nfs": {"server": "files", "path": "/"},
                "mountOptions": ["ro"],
                "nodeAffinity": {"required": {}},
                "persistentVolumeReclaimPolicy": "Delete",
            },
            [
                "spec.nfs",
                "spec.mountOptions",
                "spec.nodeAffinity",
                "spec.persistentVolumeReclaimPolicy",
            ],
        ),
        (of_stateful_set, {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, []),
        (
            of_stateful_set,
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}},
            ["spec.updateStrategy.rollingUpdate.maxUnavailable"],
        ),
    ],
)
def test_unsupported_fields_are_reported(rule: Any, spec: Any, fields: list[str]) -> None:
    assert [message.partition(":")[0] for message in rule(obj(spec=spec))] == fields
