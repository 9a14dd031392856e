"""CSINodes, in which storage drivers say which nodes they serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.apiserver.support import TABLE

if TYPE_CHECKING:
    from local.apiserver.support import Api

NODES = "/apis/storage.k8s.io/v1/csinodes"


def node(*drivers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "spec": {"drivers": list(drivers)}}


def driver(name: str = "disk.example.com", **fields: Any) -> dict[str, Any]:
    return {"name": name, "nodeID": "n-1", "topologyKeys": None, **fields}


async def test_a_driver_changes_its_limit_only(api: Api) -> None:
    (await api.post(NODES, node(driver()))).ok()
    limited = driver(allocatable={"count": 5})
    stored = (await api.get(f"{NODES}/n")).ok()
    stored["spec"]["drivers"] = [limited]
    stored = (await api.put(f"{NODES}/n", stored)).ok()
    stored["spec"]["drivers"] = [limited | {"nodeID": "n-2"}]
    answer = (await api.put(f"{NODES}/n", stored)).refused(422, "Invalid")
    assert "spec.drivers: Invalid value" in answer["message"]
    assert "field is immutable" in answer["message"]
    table = (await api.get(NODES, headers={"Accept": TABLE})).ok()
    assert [row["cells"][:2] for row in table["rows"]] == [["n", 1]]


async def test_drivers_that_no_node_can_have(api: Api) -> None:
    drivers = [
        driver("Disk_1"),
        driver(nodeID=""),
        driver(topologyKeys=["zone", "zone", "a b"]),
        driver(allocatable={"count": -1}),
    ]
    message = (await api.post(NODES, node(*drivers))).refused(422)["message"]
    for part in (
        'spec.drivers[0].name: Invalid value: "Disk_1"',
        "spec.drivers[1].nodeID: Required value",
        'spec.drivers[2]: Duplicate value: "zone"',
        'spec.drivers[2]: Invalid value: "a b"',
        'spec.drivers[2].name: Duplicate value: "disk.example.com"',
        "spec.drivers[3].allocatable.count: Invalid value: -1",
    ):
        assert part in message
