"""The endpoint for reports as it is installed: its manifests, its permissions, its leader."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from authorization import Permission, judge, of_account, of_http
from harness import ELASTIC_JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.elasticjob.world import elastic
from reporter import Reporter
from traincrew.cli.commands.operator import operator_command
from traincrew.engine.resources import ENDPOINT_SLICES, NAMESPACES, SERVICES
from traincrew.operator.app import run_operator
from traincrew.operator.manifests import documents, render
from traincrew.operator.manifests.values import parse
from traincrew.operator.options import OperatorOptions, ProgressOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMESPACE = "chainer-operator"
SERVICE = "chainer-operator-progress"
ENABLED: dict[str, Any] = {"progress": {"enabled": True}}


def installed(**values: Any) -> list[dict[str, Any]]:
    return [each for contents in documents(parse(values)).values() for each in contents]


def named(kind: str, name: str, **values: Any) -> dict[str, Any]:
    (found,) = [
        each
        for each in installed(**values)
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def test_nothing_of_it_is_installed_by_default() -> None:
    names = {each["metadata"]["name"] for each in installed()}
    assert not [name for name in names if "progress" in name]
    assert "progress" not in str(named("Deployment", NAMESPACE))
    assert "tokenreviews" not in str(installed())


def test_the_installation_fits_together() -> None:
    pod = named("Deployment", NAMESPACE, **ENABLED)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (port,) = [each for each in container["ports"] if each["name"] == "progress"]
    service = named("Service", SERVICE, **ENABLED)
    policy = named("NetworkPolicy", NAMESPACE, **ENABLED)

    assert f"--progress-address=$(POD_IP):{port['containerPort']}" in container["args"]
    assert f"--progress-service={SERVICE}" in container["args"]
    # The leader is its only endpoint, so it must not select all replicas.
    assert "selector" not in service["spec"]
    (of_service,) = service["spec"]["ports"]
    assert (of_service["name"], of_service["port"]) == (port["name"], port["containerPort"])
    # Pods of jobs are in any namespace.
    assert {"ports": [{"protocol": "TCP", "port": "progress"}]} in policy["spec"]["ingress"]


def test_the_layout_that_renames_objects_refuses_it() -> None:
    with pytest.raises(ValueError, match="use the plain manifests or the chart"):
        render(parse(ENABLED), layout="kustomize")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--progress-service=x"], "need --progress-address"),
        (["--progress-metrics=loss"], "need --progress-address"),
        (["--progress-address=8443"], "write ADDRESS:PORT"),
        (["--progress-address=somewhere:8443"], "write ADDRESS:PORT"),
        (["--progress-address=:8443"], "pods connect to it"),
        (["--progress-address=10.0.0.1:0"], "pods connect to it"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    result = CliRunner().invoke(operator_command, [f"--kubeconfig={kubeconfig}", *arguments])
    assert result.exit_code != 0
    assert message in str(result.exception) + result.output


async def test_the_leader_is_the_endpoint_with_no_permission_too_few_or_too_many(
    cluster: Cluster, unused_tcp_port_factory: Callable[[], int]
) -> None:
    needed: set[Permission] = set()

    def hear(method: str, path: str, agent: str) -> None:
        if agent.startswith(OPERATOR_AGENT) and (request := of_http(method, path)) is not None:
            needed.add(request)

    cluster.server.faults = hear
    for name in (NAMESPACE, "team"):
        metadata = {"name": name}
        await cluster.client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
    port = unused_tcp_port_factory()
    values: dict[str, Any] = {"progress": {"enabled": True, "port": port}, "watchNamespace": "team"}
    await cluster.client.create(SERVICES, named("Service", SERVICE, **values))
    hosts = ["127.0.0.1", "127.0.0.2"]

    async def is_endpoint_of_the_service() -> bool:
        return await _endpoints(cluster) == [hosts[0]] and _accepts(hosts[0], port)

    stops = [asyncio.Event() for _ in hosts]
    operators = []
    for host, stop in zip(hosts, stops, strict=True):
        options = OperatorOptions(
            identity=host,
            namespace="team",
            lease_namespace="team",
            progress=ProgressOptions(
                host=host,
                port=port,
                namespace=NAMESPACE,
                service=SERVICE,
                secret=f"{SERVICE}-ca",
            ),
        )
        operators.append(asyncio.create_task(run_operator(cluster.config, options, stop)))
        await cluster.until(is_endpoint_of_the_service)
    assert await _endpoints(cluster) == [hosts[0]]
    assert not _accepts(hosts[1], port)

    await cluster.client.create(ELASTIC_JOBS, elastic(1), "team")

    async def pod() -> Any:
        return next(iter((await cluster.client.list(PODS, "team"))["items"]), None)

    program = Reporter(cluster, await cluster.until(pod))
    assert program.url.startswith(f"https://{SERVICE}.{NAMESPACE}.svc:{port}/apis/elastic.pytorch")
    program.connect_to = hosts[0]
    assert (await program.report(progressPercentage=10))[0] == 200

    stops[0].set()
    await operators[0]

    async def moved() -> bool:
        return await _endpoints(cluster) == [hosts[1]]

    await cluster.until(moved)
    program.connect_to = hosts[1]
    assert (await program.report(progressPercentage=20))[0] == 200

    async def stored() -> bool:
        job = await cluster.client.get(ELASTIC_JOBS, "flowers", "team")
        return bool(job["status"].get("progress", {}).get("percentage") == 20)

    await cluster.until(stored)
    stops[1].set()
    await operators[1]

    allowed = of_account(installed(**values), NAMESPACE, NAMESPACE)
    assert judge(allowed, needed).denied == []
    extra = allowed - of_account(installed(watchNamespace="team"), NAMESPACE, NAMESPACE)
    assert extra
    for one in extra:
        assert judge(allowed - {one}, needed).denied, one


async def _endpoints(cluster: Cluster) -> list[str]:
    found = await cluster.client.list(ENDPOINT_SLICES, NAMESPACE)
    return [
        address
        for each in found["items"]
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == SERVICE
        for endpoint in each["endpoints"]
        for address in endpoint["addresses"]
    ]


def _accepts(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0
