"""Starting, observing and ending the operator."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
from typing import TYPE_CHECKING

import aiohttp
import pytest

from harness import OPERATOR_AGENT
from plan.chainerjob.world import plain
from traincrew.engine.errors import UnreachableError
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES
from traincrew.local.apiserver.http.faults import Fault
from traincrew.operator.app import listen_address, run_operator
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Cluster


@pytest.fixture
def free_port(unused_tcp_port: int) -> int:
    """A port nobody listens on."""
    return unused_tcp_port


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ("0.0.0.0", 8080)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:9", ("::1", 9)),
    ],
)
def test_listen_addresses(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "8080", "a:b", ":70000"])
def test_bad_listen_addresses_say_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT or :PORT"):
        listen_address(text)


async def test_metrics_and_health(cluster: Cluster, free_port: int) -> None:
    await cluster.start_operator(metrics_address=f"127.0.0.1:{free_port}")
    await cluster.create(plain())
    await cluster.until_phase("digits", "Created")

    async with aiohttp.ClientSession(f"http://127.0.0.1:{free_port}") as session:
        for path in ("/healthz", "/readyz"):
            async with session.get(path) as response:
                assert response.status == 200
        async with session.get("/metrics") as response:
            text = await response.text()
    assert 'controller_runtime_reconcile_total{controller="chainerjob"' in text


OPERATOR = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 128))
from traincrew.cli.main import main
main()
"""


async def test_a_crowd_at_its_port_takes_neither_the_lease_nor_the_probes(
    cluster: Cluster, free_port: int, tmp_path: Path
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(cluster.server.kubeconfig()))
    flags = [f"--kubeconfig={config}", f"--metrics-address=127.0.0.1:{free_port}"]
    operator = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPERATOR, "operator", *flags, "--lease-namespace=default"
    )
    url = f"http://127.0.0.1:{free_port}/readyz"

    async def is_ready() -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as response:
                return response.status == 200
        return False

    async def renewed() -> str:
        lease = await cluster.client.get(LEASES, "chainer-operator", "default")
        return str(lease["spec"]["renewTime"])

    crowd = []
    try:
        await cluster.until(is_ready)
        if hasattr(resource, "prlimit"):
            assert resource.prlimit(operator.pid, resource.RLIMIT_NOFILE) == (128, 128)
        async with asyncio.timeout(20):
            for _ in range(400):
                crowd.append(await asyncio.open_connection("127.0.0.1", free_port))  # noqa: PERF401
            assert await is_ready()
        last = await renewed()
        # It connects to the API server again, for which it needs a descriptor.
        connections = cluster.server._connections
        assert connections is not None
        for transport in tuple(connections._transports.values()):
            transport.abort()

        async def is_renewed() -> bool:
            with contextlib.suppress(UnreachableError):
                return await renewed() > last
            return False

        await cluster.until(is_renewed)
        assert operator.returncode is None
    finally:
        for _, writer in crowd:
            writer.close()
        if operator.returncode is None:
            operator.terminate()
        assert await operator.wait() == 0


async def test_an_operator_that_lost_its_lease_goes_on_in_the_same_process(
    cluster: Cluster, free_port: int
) -> None:
    """A standby meanwhile, by its metrics and probes; then it finds what has happened."""
    await cluster.start_operator(
        leader_elect=True,
        lease_namespace="default",
        lease_duration=5.0,
        renew_deadline=2.0,
        retry_period=0.5,
        metrics_address=f"127.0.0.1:{free_port}",
    )
    await cluster.create(plain())
    master = await cluster.run_master()
    await cluster.until_phase("digits", "Running")

    async with aiohttp.ClientSession(f"http://127.0.0.1:{free_port}") as session:

        async def status(path: str) -> int:
            async with session.get(path) as response:
                return response.status

        async def shows(*lines: str) -> bool:
            async with session.get("/metrics") as response:
                text = await response.text()
            return all(f"\n{line}\n" in text for line in lines)

        leads = 'leader_election_master_status{name="chainer-operator"}'

        async def led() -> bool:
            return await shows(f"{leads} 1.0", "traincrew_leadership_lost_total 0.0")

        async def lost() -> bool:
            return await shows(f"{leads} 0.0", "traincrew_leadership_lost_total 1.0")

        async def leads_again() -> bool:
            return await shows(f"{leads} 1.0") and await status("/readyz") == 200

        await cluster.until(led)
        assert await status("/readyz") == 200
        cluster.server.faults = lambda _method, _path, agent: (
            Fault(cut="before") if agent.startswith(OPERATOR_AGENT) else None
        )
        await cluster.until(lost)
        assert await status("/readyz") == 503, "its caches are old"
        assert await status("/healthz") == 200, "it is not to be restarted"
        await cluster.end_pod(master, 0)
        cluster.server.faults = None
        await cluster.until_phase("digits", "Succeeded")
        await cluster.until(leads_again)
    assert not cluster.operator_has_ended


async def test_a_missing_definition_is_logged_and_waited_for(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "chainerjobs.kubeflow.org"
    definition = await cluster.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    await cluster.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    async def gone() -> bool:
        return await cluster.client.is_gone(
            CUSTOM_RESOURCE_DEFINITIONS, name, uid=definition["metadata"]["uid"]
        )

    # A definition is served until its objects are gone.
    await cluster.until(gone)
    starting = asyncio.create_task(cluster.start_operator())

    async def said() -> bool:
        return "is not installed: kubectl apply -f deploy/" in capsys.readouterr().err

    await cluster.until(said)
    assert not starting.done()
    clean = {"metadata": {"name": name}}
    kept = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, {**kept, **clean})
    await starting
    await cluster.create(plain())
    await cluster.until_phase("digits", "Created")


async def test_one_operator_at_a_time(cluster: Cluster) -> None:
    lease = {"leader_elect": True, "lease_namespace": "default"}
    await cluster.start_operator(identity="first", **lease)
    await cluster.create(plain())
    await cluster.until_phase("digits", "Created")
    standby = asyncio.create_task(
        run_operator(
            cluster.config,
            OperatorOptions(identity="second", leader_elect=True, lease_namespace="default"),
            asyncio.Event(),
        )
    )
    found = await cluster.client.get(LEASES, "chainer-operator", "default")
    assert found["spec"]["holderIdentity"] == "first"

    await cluster.stop_operator()

    async def taken() -> bool:
        found = await cluster.client.get(LEASES, "chainer-operator", "default")
        return bool(found["spec"]["holderIdentity"] == "second")

    await cluster.until(taken)
    await cluster.run_master()
    await cluster.until_phase("digits", "Running")
    standby.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await standby


async def test_the_operator_can_serve_a_single_namespace(cluster: Cluster) -> None:
    await cluster.start_operator(namespace="other")
    await cluster.create(plain())
    await cluster.kill_operator()
    await cluster.start_operator(namespace="default")
    job = await cluster.until_phase("digits", "Created")

    assert len([c for c in job["status"]["conditions"] if c["type"] == "Created"]) == 1
