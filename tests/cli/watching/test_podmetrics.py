"""What pods use and may use, in the words of Kubernetes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from traincrew.cli.watching.jobwatch import Scope
from traincrew.cli.watching.podmetrics import Amounts, limits_of, used_by

SCOPE = Scope("team", labels="app=x")


class Server:
    """Answers every list with these objects."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._items = items

    async def request(self, _method: str, path: str, *, params: dict[str, Any]) -> bytes:
        self.asked.append((path, params))
        return json.dumps({"metadata": {}, "items": self._items}).encode()


def container(limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    resources = {"resources": {"limits": limits}} if limits is not None else {}
    return {"name": "c", **resources, **more}


async def test_the_use_of_a_pod_is_that_of_its_containers() -> None:
    server = Server(
        {
            "metadata": {"name": "a"},
            "timestamp": "2026-01-02T03:04:05Z",
            "containers": [
                {"name": "main", "usage": {"cpu": "1250123456n", "memory": "1048576Ki"}},
                {"name": "side", "usage": {"cpu": "250m", "memory": "1Mi"}},
            ],
        },
        {"metadata": {"name": "starting"}, "containers": []},
        {"metadata": {"name": "odd"}, "containers": [{"usage": {"cpu": "x", "memory": "2Ki"}}]},
        *(
            {"metadata": {"name": "hostile"}, "containers": [{"usage": {"cpu": amount}}]}
            for amount in ("1e999", "9" * 400, -5, ["1"], {"a": 1})
        ),
    )
    assert await used_by(server, SCOPE) == {  # type: ignore[arg-type]
        "a": ("2026-01-02T03:04:05Z", Amounts(1500, 1024**2 + 1024)),
        "odd": ("", Amounts(0, 2)),
        "hostile": ("", Amounts(0, 0)),
    }
    ((path, params),) = server.asked
    assert path == "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods"
    assert params["labelSelector"] == "app=x"


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({"containers": [container({"cpu": "2", "memory": "4Gi"})]}, Amounts(2000, 4 * 1024**2)),
        ({"containers": [container({"cpu": "2"}), container({"cpu": "500m"})]}, (2500, None)),
        ({"containers": [container({"cpu": "2"}), container()]}, (None, None)),
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container(), container({"cpu": "1"}, restartPolicy="Always")],
            },
            (2000, None),
        ),
        ({"containers": [container()], "resources": {"limits": {"cpu": "3"}}}, (3000, None)),
        ({"containers": []}, (0, 0)),
    ],
    ids=["one", "two", "one-has-none", "sidecar", "of-the-pod", "no-container"],
)
async def test_limits(spec: dict[str, Any], limits: tuple[int | None, int | None]) -> None:
    server = Server({"metadata": {"name": "a", "uid": "1"}, "spec": spec})
    assert await limits_of(server, SCOPE) == {"1": limits}  # type: ignore[arg-type]
