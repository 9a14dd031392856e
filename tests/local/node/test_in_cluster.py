"""Programs in pods find the API server as on any cluster: by their service account."""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from local.node.support import CAPABILITIES
from traincrew.engine.resources import CONFIG_MAPS, PODS, ROLE_BINDINGS, ROLES
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.images import kubectl

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE = 60.0

# As every client library does inside a pod.
PROGRAM = """
import json, os, ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
namespace = open(account + "namespace").read()
request = urllib.request.Request(
    f"https://{host}:{port}/api/v1/namespaces/{namespace}/pods/{os.environ['HOSTNAME']}",
    headers={"Authorization": "Bearer " + open(account + "token").read()},
)
trusted = ssl.create_default_context(cafile=account + "ca.crt")
with urllib.request.urlopen(request, context=trusted) as answer:
    print(json.load(answer)["metadata"]["name"])
"""


async def _let_read_pods(cluster: LocalCluster) -> None:
    group, metadata = "rbac.authorization.k8s.io", {"name": "reader"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    }
    await cluster.client.create(ROLES, role, "default")
    await cluster.client.create(ROLE_BINDINGS, binding, "default")


@pytest.mark.skipif(not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}")
async def test_programs_in_a_pod_read_their_own_pod(tmp_path: Path) -> None:
    catalog = tmp_path / "images.yaml"
    catalog.write_text('{"environments": [{"name": "any", "images": ["any"]}]}')
    options = ClusterOptions(image_catalogs=(catalog,), image_cache=tmp_path / "cache")
    small_kubectl = [sys.executable, "-IS", kubectl.__file__]
    async with LocalCluster(options) as cluster:
        await _let_read_pods(cluster)
        assert await _output(cluster, "reader", sys.executable, "-c", PROGRAM) == b"reader\n"
        own = [*small_kubectl, "get", "pod", "small", "-o", "name"]
        assert await _output(cluster, "small", *own) == b"pod/small\n"
        forbidden = await _output(
            cluster, "curious", *small_kubectl, "get", "secrets", "-o", "name"
        )
        assert forbidden.decode() == (
            "Error from server (Forbidden): secrets is forbidden: User "
            '"system:serviceaccount:default:default" cannot list resource "secrets" in API group '
            '"" in the namespace "default"\n'
        )

        # Without a token requests are rejected.
        config_map = await cluster.client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
        trusted = ssl.create_default_context(cadata=config_map["data"]["ca.crt"])
        url = f"{cluster.server.url}/api/v1/pods"
        async with ClientSession() as session, session.get(url, ssl=trusted) as answer:
            assert answer.status == 401


async def _output(cluster: LocalCluster, name: str, *command: str) -> bytes:
    container = {"name": "main", "image": "any:1", "command": list(command)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    await cluster.client.create(PODS, pod, "default")
    phase = ""
    async with asyncio.timeout(DEADLINE):
        while phase not in {"Succeeded", "Failed"}:
            await asyncio.sleep(0.05)
            found = await cluster.client.get(PODS, name, "default")
            phase = found["status"].get("phase", "")
    return b"".join([chunk async for chunk in cluster.client.logs(name, "default")])
