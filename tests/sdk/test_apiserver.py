"""`traincrew.ApiServer`, as the tests of a controller use it."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import traincrew

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


@pytest.fixture(scope="module")
def shared() -> Iterator[traincrew.ApiServer]:
    with traincrew.ApiServer() as running:
        yield running


@pytest.fixture
def server(shared: traincrew.ApiServer) -> traincrew.ApiServer:
    shared.reset()
    return shared


def names(server: traincrew.ApiServer, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in server.client.list(kind, None)]


def config_maps(server: traincrew.ApiServer) -> list[str]:
    """Names of the ConfigMaps that the server does not have by itself."""
    own = "extension-apiserver-authentication"
    return [each for each in names(server, "ConfigMap") if each != own]


# -- reset ----------------------------------------------------------------------------------------


def test_reset_returns_to_an_empty_server(server: traincrew.ApiServer) -> None:
    client = server.client
    before = {kind: names(server, kind) for kind in ("Namespace", "ClusterRole", "Service")}
    roles = client.get("ClusterRole", "view")
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
    client.create(config_map("kept", finalizers=["example.com/never"]), "lab")
    client.create(DEFINITION)
    client.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    client.patch("ClusterRole", "view", {"metadata": {"labels": {"mine": "true"}}})
    client.delete("ClusterRole", "edit")
    client.delete("Service", "kubernetes")
    server.faults.error(500, resource="secrets")

    server.reset()

    assert {kind: names(server, kind) for kind in before} == before
    assert config_maps(server) == names(server, "crd") == names(server, "Secret") == []
    restored = client.get("ClusterRole", "view")
    for each in (roles, restored):
        each["metadata"].pop("resourceVersion")
    assert restored == roles
    # The kind is gone with its definition, and can come back.
    with pytest.raises(traincrew.NotFoundError):
        client.list("widgets.example.com", None)
    client.create(DEFINITION)
    assert names(server, "widgets.example.com") == []


def test_a_watch_goes_on_over_a_reset(server: traincrew.ApiServer) -> None:
    server.client.create(config_map("old"))
    watching = subprocess.Popen(
        ["kubectl", "get", "configmaps", "--watch", "--output-watch-events", "--no-headers"],
        env=server.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().split()[:2] == ["ADDED", "old"]
        server.reset()
        server.client.create(config_map("new"))
        assert watching.stdout.readline().split()[:2] == ["DELETED", "old"]
        assert watching.stdout.readline().split()[:2] == ["ADDED", "new"]
    finally:
        watching.kill()
        watching.communicate()


def test_reset_with_a_directory(tmp_path: Path) -> None:
    for turn in range(2):
        with traincrew.ApiServer(directory=tmp_path / "state") as server:
            assert config_maps(server) == (["kept"] if turn else [])
            server.client.create(config_map(f"other-{turn}"))
            server.reset()
            assert config_maps(server) == []
            assert "default" in names(server, "Namespace")
            server.client.create(config_map("kept"))


# -- audit ----------------------------------------------------------------------------------------


def test_the_audit_says_who_wrote_what(server: traincrew.ApiServer) -> None:
    root = server.kubeconfig_of("root", ["system:masters"])
    server.client.create(config_map("mine"))
    subprocess.run(
        ["kubectl", "--kubeconfig", root, "label", "configmap", "mine", "a=b"],
        check=True,
        capture_output=True,
    )
    with pytest.raises(traincrew.NotFoundError):
        server.client.delete("ConfigMap", "other")

    (created,) = server.audit.writes("configmaps", client="traincrew-python")
    assert (created.verb, created.name, created.user) == ("create", "mine", "traincrew:admin")
    (labelled,) = server.audit.writes("configmaps", user="root")
    assert (labelled.verb, labelled.name, labelled.namespace) == ("patch", "mine", "default")
    assert labelled.client.startswith("kubectl/")
    assert labelled.object is not None
    assert labelled.object["metadata"]["labels"] == {"a": "b"}
    (failed,) = server.audit.requests(verb="delete")
    assert (failed.code, failed.is_write, failed.object) == (404, False, None)
    assert server.audit.writes("secrets") == []
    server.audit.clear()
    assert server.audit.requests() == []


# -- faults ---------------------------------------------------------------------------------------


def test_errors_by_verb_resource_and_client(server: traincrew.ApiServer) -> None:
    client = server.client
    faults = server.faults.error(503, "busy", verb="create", resource="configmaps", times=2)
    for _ in range(2):
        with pytest.raises(traincrew.ApiError, match="busy") as error:
            client.create(config_map("a"))
        assert error.value.code == 503
    client.create(config_map("a"))
    assert faults.count == 2

    with server.faults.error(429, client="kubectl", retry_after=1), server.faults.error(500):
        with pytest.raises(traincrew.ApiError) as error:
            client.get("ConfigMap", "a")
        assert error.value.code == 500
    assert client.get("ConfigMap", "a")


def test_a_conflict(server: traincrew.ApiServer) -> None:
    server.client.create(config_map("a"))
    with server.faults.conflict(resource="configmaps"):
        with pytest.raises(traincrew.ApiError, match="has been modified") as error:
            server.client.patch("ConfigMap", "a", {"data": {"a": "b"}})
        assert error.value.code == 409
        server.client.delete("ConfigMap", "a")


@pytest.mark.parametrize(("when", "left"), [("before", []), ("after", ["a"])])
def test_a_cut_connection(server: traincrew.ApiServer, when: Any, left: list[str]) -> None:
    with (
        server.faults.cut(when, verb="create", resource="configmaps"),
        pytest.raises(traincrew.ApiError),
    ):
        server.client.create(config_map("a"))
    assert config_maps(server) == left
    assert server.audit.requests("configmaps", verb="create")[0].code == 0


def test_a_delay_holds_up_only_what_it_concerns(server: traincrew.ApiServer) -> None:
    with server.faults.delay(30, resource="secrets"):

        def wait() -> None:
            with contextlib.suppress(traincrew.ApiError, CancelledError):  # ended with the server
                server.client.list("Secret")

        threading.Thread(target=wait, daemon=True).start()
        assert server.client.list("ConfigMap") == []
        assert server.audit.requests("secrets") == []


def test_an_expired_watch(server: traincrew.ApiServer) -> None:
    server.client.create(config_map("a"))
    watching = subprocess.Popen(
        ["kubectl", "get", "--raw", "/api/v1/configmaps?watch=true"],
        env=server.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert json.loads(watching.stdout.readline())["type"] == "ADDED"
        assert server.faults.expire_watches("secrets") == 0
        deadline = time.monotonic() + 60
        while not server.faults.expire_watches("configmaps"):
            assert time.monotonic() < deadline
        (line,) = watching.communicate(timeout=60)[0].splitlines()
        event = json.loads(line)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert event["object"]["reason"] == "Expired"
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("error", {"code": 200}, "code: 400 to 599, not 200"),
        ("error", {"verb": "read"}, "verb: 'read' is none of create, delete, "),
        ("error", {"times": 0}, "times: 1 or more, not 0"),
        ("delay", {"seconds": -1}, "seconds: 0 to 3600, not -1"),
        ("cut", {"when": "never"}, "when: before or after, not 'never'"),
    ],
)
def test_faults_that_cannot_be(
    server: traincrew.ApiServer, method: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        getattr(server.faults, method)(**arguments)
    assert str(error.value).startswith(said)


def test_a_cluster_has_both() -> None:
    with traincrew.LocalCluster(training=False, sandbox="bare") as cluster:
        with (
            cluster.faults.error(500, client="traincrew-python", resource="configmaps"),
            pytest.raises(traincrew.ApiError, match="injected fault"),
        ):
            cluster.client.create(config_map("a"))
        cluster.client.create(config_map("a"))
        (written,) = cluster.audit.writes("configmaps", client="traincrew-python")
        assert (written.namespace, written.name) == ("default", "a")


# -- the clock ------------------------------------------------------------------------------------


def test_events_expire_when_the_clock_moves(server: traincrew.ApiServer) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    server.client.create(event)
    server.clock.advance(3000)
    assert names(server, "events") == ["e"]
    server.clock.advance(700)
    assert names(server, "events") == []
    created = server.client.create(config_map("later"))["metadata"]["creationTimestamp"]
    server.reset()
    assert server.client.create(config_map("now"))["metadata"]["creationTimestamp"] < created
    with pytest.raises(ValueError, match="seconds: 0 or more"):
        server.clock.advance(-1)


def test_finished_jobs_expire_when_the_clock_moves() -> None:
    container = {"name": "main", "image": "none"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "late"},
        "spec": {
            "activeDeadlineSeconds": 1,  # it fails, as there are no nodes
            "ttlSecondsAfterFinished": 3600,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    with traincrew.ApiServer(controllers=True) as server:
        server.client.create(job)

        def has_failed(found: dict[str, Any]) -> bool:
            conditions = found.get("status", {}).get("conditions", ())
            return any(each["type"] == "Failed" for each in conditions)

        server.client.wait("job", "late", has_failed)
        server.clock.advance(1800)
        assert names(server, "jobs") == ["late"]
        server.clock.advance(1900)
        deadline = time.monotonic() + 60
        while names(server, "jobs"):
            assert time.monotonic() < deadline
            time.sleep(0.05)


# -- life -----------------------------------------------------------------------------------------


def test_users_may_do_what_roles_say(server: traincrew.ApiServer) -> None:
    said = subprocess.run(
        ["kubectl", "--kubeconfig", server.kubeconfig_of("../alice"), "get", "pods"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'User "../alice" cannot list resource "pods"' in said.stderr


def test_mistakes(tmp_path: Path, server: traincrew.ApiServer) -> None:
    with pytest.raises(RuntimeError, match="the server is not running"):
        _ = traincrew.ApiServer().client
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(traincrew.CommandFailed, match="is in use by"):
        traincrew.ApiServer(port=port).start()
    with (
        traincrew.ApiServer(directory=tmp_path / "state"),
        pytest.raises(traincrew.CommandFailed, match="is served by process"),
    ):
        traincrew.ApiServer(directory=tmp_path / "state").start()


def test_nothing_of_it_is_left() -> None:
    threads = set(threading.enumerate())
    running = traincrew.ApiServer()
    with running:
        assert running.start() is running
        client, place = running.client, running.kubeconfig
        assert running.environment["KUBECONFIG"] == str(place)
    running.stop()
    assert not place.parent.exists()
    assert set(threading.enumerate()) <= threads
    with pytest.raises(RuntimeError, match="the cluster was stopped"):
        client.list("Pod")
