"""The capabilities of containers, by their `securityContext`."""

from typing import Any

import pytest

from traincrew.local.node.containers.privileges import DEFAULT, kept_capabilities
from traincrew.local.node.machine.isolation import Isolation
from traincrew.local.node.pods.unsupported import unsupported

CHOWN, RAW, ADMIN = 0, 13, 12
USUAL = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31}


def capabilities(add: str = "", drop: str = "") -> dict[str, Any]:
    return {"capabilities": {"add": add.split(), "drop": drop.split()}}


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ({}, USUAL),
        ({"privileged": False, "capabilities": None}, USUAL),
        ({"privileged": True}, None),
        (capabilities(drop="ALL"), set()),
        (capabilities(drop="all"), set()),
        (capabilities(drop="ALL", add="CHOWN"), {CHOWN}),
        (capabilities(drop="CHOWN CAP_NET_RAW"), USUAL - {CHOWN, RAW}),
        (capabilities(add="NET_ADMIN"), USUAL | {ADMIN}),
        (capabilities(add="CAP_NET_ADMIN", drop="NET_ADMIN"), USUAL),
        (capabilities(add="ALL"), set(range(41))),
        (capabilities(add="ALL", drop="CHOWN"), set(range(1, 41))),
        (capabilities(add="ALL", drop="ALL"), set()),
        (capabilities(add="UNHEARD_OF"), USUAL),
    ],
)
def test_capabilities(security: dict[str, Any], expected: set[int] | None) -> None:
    kept = kept_capabilities(security)
    assert (None if kept is None else set(kept)) == expected
    assert len(DEFAULT) == len(USUAL)


ROOT, USER, BARE = Isolation(root=True), Isolation(uid=1000), Isolation(namespaces=False, uid=1000)


@pytest.mark.parametrize(
    ("isolation", "security", "field"),
    [
        (ROOT, capabilities(drop="ALL"), ""),
        (ROOT, capabilities(add="SYS_ADMIN"), ""),
        (ROOT, {**capabilities(drop="ALL"), "runAsUser": 0}, ""),
        (ROOT, {**capabilities(drop="ALL"), "runAsUser": 7}, ""),
        (ROOT, {**capabilities(drop="NET_RAW"), "runAsUser": 7}, ""),
        (USER, {**capabilities(drop="ALL"), "runAsUser": 7}, ""),
        (USER, capabilities(add="CHOWN"), ""),
        (USER, capabilities(add="NET_ADMIN", drop="ALL"), "add"),
        (BARE, capabilities(drop="ALL"), "whole"),
        (BARE, {"capabilities": {}}, ""),
    ],
)
def test_what_of_capabilities_is_not_emulated(
    isolation: Isolation, security: dict[str, Any], field: str
) -> None:
    pod = {"spec": {"containers": [{"name": "c", "securityContext": security}]}}
    found = [each.field for each in unsupported(pod, isolation) if "capabilities" in each.field]
    path = "spec.containers[0].securityContext.capabilities"
    expected = {"": [], "whole": [path]}.get(field, [f"{path}.{field}"])
    assert found == expected
