"""`traincrew.LocalCluster`, as a program, a test or a notebook uses it."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import traincrew

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "labels": {"app": "x"}},
    "data": {"a": "1"},
}


def pod(name: str, command: str) -> dict[str, object]:
    container = {"name": "main", "image": "python:3.11", "command": ["sh", "-c", command]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        yield running


@pytest.fixture
def client(cluster: traincrew.LocalCluster) -> Iterator[traincrew.ClusterClient]:
    yield cluster.client
    for name in [each["metadata"]["name"] for each in cluster.client.list("ConfigMap")]:
        if name != "kube-root-ca.crt":
            cluster.client.delete("ConfigMap", name)


# -- objects ------------------------------------------------------------------------------------


def test_objects_are_plain_data(client: traincrew.ClusterClient) -> None:
    created = client.create(CONFIG_MAP)

    assert created["metadata"]["namespace"] == "default"
    assert client.get("ConfigMap", "settings") == created
    assert client.patch("cm", "settings", {"data": {"b": "2"}})["data"] == {"a": "1", "b": "2"}
    applied = client.apply({**CONFIG_MAP, "data": {"a": "3"}})
    assert applied["data"]["a"] == "3"
    (listed,) = client.list("configmaps", label_selector="app=x")
    assert listed == applied  # with its kind, so that it can be applied again
    client.delete("ConfigMap", "settings")
    with pytest.raises(traincrew.NotFoundError, match='configmaps "settings" not found'):
        client.get("ConfigMap", "settings")


def test_another_namespace(client: traincrew.ClusterClient) -> None:
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
    client.create(CONFIG_MAP, "lab")
    client.apply({**CONFIG_MAP, "metadata": {"name": "own", "namespace": "lab"}})

    assert client.get("ConfigMap", "settings", "lab")["data"] == {"a": "1"}
    names = {each["metadata"]["name"] for each in client.list("ConfigMap", "lab")}
    assert {"settings", "own"} <= names
    found = {each["metadata"]["namespace"] for each in client.list("ConfigMap", None)}
    assert {"default", "lab"} <= found


@pytest.mark.parametrize(
    "name", ["Deployment", "deployments", "deploy", "deployments.apps", "apps/v1/Deployment"]
)
def test_a_kind_has_the_names_it_has_for_kubectl(
    client: traincrew.ClusterClient, name: str
) -> None:
    assert client.resource(name).path() == "/apis/apps/v1/deployments"


def test_mistakes_are_named(client: traincrew.ClusterClient) -> None:
    with pytest.raises(ValueError, match="there is no kind 'Gadget' on this cluster"):
        client.get("Gadget", "g")
    with pytest.raises(ValueError, match="apiVersion is missing in the object"):
        client.create({"kind": "Pod"})
    with pytest.raises(traincrew.ApiError, match='unknown field "dta"'):
        client.create({**CONFIG_MAP, "dta": {}})


def test_a_kind_can_be_added_later(client: traincrew.ClusterClient) -> None:
    with pytest.raises(ValueError, match="no kind 'Widget'"):
        client.resource("Widget")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
    client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        }
    )

    def established(crd: dict[str, object]) -> bool:
        return '"Established"' in json.dumps(crd.get("status"))

    client.wait("crd", "widgets.example.com", established)
    client.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    assert client.get("wd", "w")["kind"] == "Widget"
    client.delete("crd", "widgets.example.com")


# -- pods ---------------------------------------------------------------------------------------


def test_a_pod_runs(client: traincrew.ClusterClient) -> None:
    client.create(pod("greeter", "echo hello"))

    ended = client.wait_for_pod("greeter")
    assert ended["status"]["phase"] == "Succeeded"
    assert client.logs("greeter") == "hello\n"


def test_a_condition_that_is_not_met_says_the_last_state(client: traincrew.ClusterClient) -> None:
    client.create(pod("failing", "exit 3"))

    with pytest.raises(TimeoutError, match=r"Pod failing: not after 1 s: status \{"):
        client.wait_for_pod("failing", timeout=1)
    with pytest.raises(TimeoutError, match=r"Pod absent: not after 0\.1 s: it does not exist"):
        client.wait_for_pod("absent", timeout=0.1)


# -- the cluster ----------------------------------------------------------------------------------


def test_other_clients_use_its_kubeconfig(cluster: traincrew.LocalCluster) -> None:
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    said = subprocess.run(
        ["kubectl", "get", "nodes", "-o", "name"],
        env={**cluster.environment, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "node/local\n"


def test_it_is_used_beside_a_running_loop(cluster: traincrew.LocalCluster) -> None:
    async def cell() -> int:
        return len(cluster.client.list("Node", None))

    assert asyncio.run(cell()) == 1


def test_several_threads_use_one(cluster: traincrew.LocalCluster) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(cluster.client.list("Node", None))))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [1] * 8


def test_nothing_of_it_is_left() -> None:
    threads = set(threading.enumerate())
    running = traincrew.LocalCluster(training=False, sandbox="bare")
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        _ = running.kubeconfig
    with running:
        client, place = running.client, running.kubeconfig
        assert running.start() is running
        client.create(pod("endless", "sleep 1000"))
        client.wait_for_pod("endless", "Running")
    running.stop()

    assert not place.parent.exists()
    assert set(threading.enumerate()) <= threads
    with pytest.raises(RuntimeError, match="the cluster was stopped"):
        client.list("Pod")


def test_state_is_kept_in_a_directory(tmp_path: Path) -> None:
    for turn in range(2):
        with traincrew.LocalCluster(
            training=False, sandbox="bare", directory=tmp_path / "state"
        ) as cluster:
            if turn == 0:
                cluster.client.create(CONFIG_MAP)
            assert cluster.client.get("ConfigMap", "settings")["data"] == {"a": "1"}


def test_arguments_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        traincrew.LocalCluster(nodes=0)
    with pytest.raises(traincrew.BadInput, match=r"images: .*none\.yaml is no file"):
        traincrew.LocalCluster(training=False, images=[tmp_path / "none.yaml"]).start()


def test_the_training_kinds() -> None:
    with traincrew.LocalCluster() as cluster:
        assert cluster.client.list("chainerjobs", None) == []
