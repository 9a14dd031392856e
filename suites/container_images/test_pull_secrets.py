"""Pods of a registry that wants credentials, or is gone: what they wait for, and what they run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from suites.container_images.registry import PROGRAM, Layer, Server, serving
from suites.image_registry import pull_secret

import traincrew

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSYBOX = shutil.which("busybox", path="/bin:/usr/bin")
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="needs: apt-get install docker-registry"),
    pytest.mark.skipif(BUSYBOX is None, reason="needs: apt-get install busybox-static"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    assert BUSYBOX is not None
    with serving(tmp_path, closed=True) as server:
        program = Layer({"bin/busybox": Path(BUSYBOX).read_bytes()}, mode=0o755)
        server.push("team/busybox", "1", [program])
        yield server


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with traincrew.LocalCluster(training=False) as cluster:
        yield cluster.client


def pod(name: str, image: str, *secrets: str, policy: str = "IfNotPresent") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": policy,
        "command": ["/bin/busybox", "echo", "it runs"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "imagePullSecrets": [{"name": each} for each in secrets],
        },
    }


def refusal(client: Any, name: str) -> str:
    """Return the message of a pod whose image cannot be pulled."""

    def message_of(pod: dict[str, Any]) -> str:
        containers = pod.get("status", {}).get("containerStatuses") or [{}]
        waiting = containers[0].get("state", {}).get("waiting", {})
        message = str(waiting.get("message"))
        return message if "failed to pull image" in message else ""

    return message_of(client.wait("Pod", name, lambda pod: bool(message_of(pod)), timeout=60))


def log_in(client: Any, server: Server) -> None:
    """Make the Secret `right`."""
    right = pull_secret("right")
    document = right["stringData"][".dockerconfigjson"]
    right["stringData"][".dockerconfigjson"] = document.replace("127.0.0.1:5000", server.host)
    client.create(right)


def test_a_pod_waits_for_credentials_and_runs_with_them(server: Server, client: Any) -> None:
    image = f"{server.host}/team/busybox:1"
    client.create(pod("without", image))
    message = refusal(client, "without")
    assert "401 Unauthorized" in message
    assert "It wants credentials, and none were found" in message

    client.create(pod("missing", image, "nowhere"))
    assert "secret default/nowhere: does not exist" in refusal(client, "missing")

    wrong = pull_secret("wrong")
    document = wrong["stringData"][".dockerconfigjson"]
    wrong["stringData"][".dockerconfigjson"] = document.replace("127.0.0.1:5000", "ghcr.io")
    client.create(wrong)
    client.create(pod("other", image, "wrong"))
    message = refusal(client, "other")
    assert f"secret default/wrong: has none for {server.host}, only for ghcr.io" in message

    log_in(client, server)
    client.create(pod("runs", image, "wrong", "right"))
    client.wait_for_pod("runs", phase="Succeeded", timeout=60)
    assert "it runs" in client.logs("runs")


def test_a_stored_image_is_used_if_its_registry_is_gone_but_not_if_it_refuses(
    tmp_path: Path, client: Any
) -> None:
    assert BUSYBOX is not None
    program = Layer({"bin/busybox": Path(BUSYBOX).read_bytes()}, mode=0o755)
    with serving(tmp_path, closed=True) as server:
        image = f"{server.host}/team/busybox:1"
        server.push("team/busybox", "1", [program])
        log_in(client, server)
        client.create(pod("first", image, "right", policy="Always"))
        client.wait_for_pod("first", phase="Succeeded", timeout=60)

        client.create(pod("without", image, policy="Always"))
        assert "401 Unauthorized" in refusal(client, "without")

    client.create(pod("offline", image, "right", policy="Always"))
    client.wait_for_pod("offline", phase="Succeeded", timeout=60)
    notes = [
        event["message"]
        for event in client.list("Event")
        if event["reason"] == "ImageNotRenewed" and event["involvedObject"]["name"] == "offline"
    ]
    assert len(notes) == 1
    assert notes[0].startswith(f'the stored image is used: failed to pull image "{image}" from ')
    assert "cannot reach" in notes[0]
