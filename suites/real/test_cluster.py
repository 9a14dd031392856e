"""The real cluster itself: networking, DNS and node failures work as its users expect."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hack.cluster import RealCluster
from hack.cluster.network import NAMESPACES
from hack.cluster.processes import NotReady

IMAGE = "docker.io/traincrew/busybox:0.1.0"
SPACE = "cluster-test"


def until(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.2)


def web_servers(replicas: int) -> list[dict[str, object]]:
    """Return two Services, one headless, and pods that serve their own names."""
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": IMAGE,
        "command": [
            "sh",
            "-c",
            "hostname > /tmp/index.html; echo serving; httpd -f -p 8080 -h /tmp",
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {"limits": {"cpu": "200m", "memory": "32Mi"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    port = {"port": 80, "targetPort": 8080}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "each"},
            "spec": {"clusterIP": "None", "selector": labels, "ports": [port]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "any"},
            "spec": {"selector": labels, "ports": [port]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "serviceName": "each",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


@pytest.fixture(scope="module")
def web(real_cluster: RealCluster) -> Iterator[Callable[..., str]]:
    """Four web servers on two nodes; kubectl in their namespace."""

    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return real_cluster.kubectl("-n", SPACE, *arguments, stdin=stdin)

    real_cluster.kubectl("create", "namespace", SPACE)
    items = {"apiVersion": "v1", "kind": "List", "items": web_servers(4)}
    kubectl("create", "-f", "-", stdin=json.dumps(items))
    kubectl("rollout", "status", "statefulset/web", "--timeout=90s")
    yield kubectl
    real_cluster.kubectl("delete", "namespace", SPACE)


def nodes_of(kubectl: Callable[..., str]) -> dict[str, str]:
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


def said(kubectl: Callable[..., str], *arguments: str) -> str:
    """Return the output of kubectl; empty if it fails."""
    try:
        return kubectl(*arguments)
    except NotReady:
        return ""


def until_said(kubectl: Callable[..., str], text: str, *arguments: str) -> None:
    """Wait until kubectl prints something."""
    until(lambda: text in said(kubectl, *arguments), f"{' '.join(arguments)}: {text.strip()}")


def until_all_run(kubectl: Callable[..., str]) -> None:
    """Wait until there are four web servers, and none terminating."""

    def do() -> bool:
        pods = said(kubectl, "get", "pods")
        return pods.count("1/1") == 4 and "Terminating" not in pods

    until(do, "four pods run")


def test_pods_are_spread_and_their_logs_can_be_read(web: Callable[..., str]) -> None:
    assert set(nodes_of(web).values()) == {"node-1", "node-2"}
    for name in nodes_of(web):
        until_said(web, "serving\n", "logs", name)
        assert web("logs", name) == "serving\n"


def test_pods_of_both_nodes_reach_each_other_by_name_and_by_service(
    web: Callable[..., str],
) -> None:
    execute = ("exec", "web-0", "--")
    for name in nodes_of(web):
        ip = json.loads(web("get", "pod", name, "-o", "json"))["status"]["podIP"]
        # Names and routes follow the pods.
        lookup = (*execute, "nslookup", f"{name}.each.{SPACE}.svc.cluster.local")
        until_said(web, f"Address: {ip}", *lookup)
        fetch = (*execute, "wget", "-qO-", f"http://{ip}:8080")
        until_said(web, "web-", *fetch)
        assert web(*fetch) == f"{name}\n"
    service = json.loads(web("get", "service", "any", "-o", "json"))["spec"]["clusterIP"]
    fetch = (*execute, "wget", "-qO-", f"http://{service}")
    until_said(web, "web-", *fetch)
    answers = {web(*fetch) for _ in range(40)}
    assert len(answers) > 1, "one Service, several pods behind it"
    assert answers <= {f"{name}\n" for name in nodes_of(web)}


def test_a_lost_node_is_detected_its_pods_move_and_it_recovers(
    real_cluster: RealCluster, web: Callable[..., str]
) -> None:
    node = real_cluster.nodes[1]
    lost = [pod for pod, place in nodes_of(web).items() if place == node.name]
    node.kill()
    try:
        until(lambda: "NotReady" in real_cluster.kubectl("get", "nodes"), "node lost")
        until(lambda: web("get", "pods").count("Terminating") == len(lost), "the pods are evicted")
    finally:
        node.start()
    real_cluster.wait()
    until_all_run(web)


def test_a_disconnected_node_becomes_unreachable_and_recovers(real_cluster: RealCluster) -> None:
    node = real_cluster.nodes[0]
    node.cut()
    try:
        until(lambda: "NotReady" in real_cluster.kubectl("get", "nodes"), "node missed")
    finally:
        node.mend()
    real_cluster.wait()


@pytest.mark.parametrize("component", ["etcd", "kube-apiserver"])
def test_the_control_plane_survives_the_loss_of_a_component(
    real_cluster: RealCluster, web: Callable[..., str], component: str
) -> None:
    process = real_cluster.component(component)
    process.kill()
    process.start()
    real_cluster.wait()
    until_all_run(web)
    assert len(nodes_of(web)) == 4


@pytest.fixture
def program(real_cluster: RealCluster) -> Iterator[list[str]]:
    """Runs ``python -m hack.cluster``; stops a cluster named brief in any case."""
    del real_cluster  # skips this test where no real cluster can run
    command = [sys.executable, "-m", "hack.cluster"]
    yield command
    subprocess.run([*command, "down", "--name", "brief"], check=False)


def test_stopping_leaves_nothing_behind(program: list[str], tmp_path: Path) -> None:
    subprocess.run([*program, "up", "--name", "brief", "--nodes", "1"], check=True)
    brief = RealCluster.attach("brief")
    again = subprocess.run(
        [*program, "up", "--name", "brief"], capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "cluster 'brief' is there; `make cluster-down NAME=brief` first" in again.stderr
    manifest = tmp_path / "pod.json"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "forever"},
        "spec": {"containers": [{"name": "main", "image": "docker.io/traincrew/pause:1"}]},
    }
    manifest.write_text(json.dumps(pod))
    brief.kubectl("create", "-f", str(manifest))
    until(lambda: "1/1" in brief.kubectl("get", "pods"), "pod runs")
    subprocess.run([*program, "down", "--name", "brief"], check=True)
    assert not brief.directory.exists()
    assert not list(NAMESPACES.glob("traincrew-brief*"))
    assert "traincrew-cluster/brief" not in Path("/proc/self/mountinfo").read_text()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has already ended
                assert "/brief/" not in (entry / "cmdline").read_text(errors="replace")
    assert not list(Path("/sys/fs/cgroup").glob("*/traincrew-brief*"))
    down = subprocess.run(
        [*program, "down", "--name", "brief"], capture_output=True, text=True, check=False
    )
    assert down.returncode == 1
    assert "no cluster 'brief' is running" in down.stderr
