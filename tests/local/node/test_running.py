"""Running pods: probes, commands, logs, Services, restarts of the node."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import (
    AnyImage,
    World,
    condition,
    control_plane,
    needs_own_proc,
    node_world,
    running_node,
    shell,
)
from traincrew.engine.resources import ENDPOINT_SLICES, LEASES, NODES, PODS, SERVICES
from traincrew.local.apiserver.http.node_backend import StreamRefusedError
from traincrew.local.images import Environment, Notice
from traincrew.local.node import NodeSpec, end_pods

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SLEEP = "exec sleep 100"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


class Streams:
    """A client of exec."""

    def __init__(self, *stdin: bytes, tty: bool = False, hold: bool = False) -> None:
        self.tty = tty
        self.stdin = bool(stdin) or hold
        self._stdin = list(stdin)
        self._hold = asyncio.Event()
        if not hold:
            self._hold.set()
        self.out = b""
        self.err = b""
        self.size: list[tuple[int, int] | None] = []

    async def read_stdin(self) -> bytes:
        if self._stdin:
            return self._stdin.pop(0)
        await self._hold.wait()
        return b""

    async def write_stdout(self, data: bytes) -> None:
        self.out += data

    async def write_stderr(self, data: bytes) -> None:
        self.err += data

    async def resized(self) -> tuple[int, int] | None:
        return self.size.pop(0) if self.size else None


async def execute(world: World, streams: Streams, *command: str, pod: str = "p") -> int:
    return await world.node.backend.exec(await world.get(pod) or {}, "main", list(command), streams)


# -- probes -----------------------------------------------------------------------------------


async def test_readiness_follows_its_probe(world: World) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    probe |= {"failureThreshold": 1}
    await world.pod({"containers": [shell("main", SLEEP, readinessProbe=probe)]})
    await world.container(lambda each: each["started"])
    assert condition(await world.status(), "Ready") == "False"
    assert await execute(world, Streams(), "touch", "/tmp/ready") == 0
    await world.ready()
    assert await execute(world, Streams(), "rm", "/tmp/ready") == 0

    async def unready() -> bool:
        return condition(await world.status(), "Ready") == "False"

    await world.until(unready)


async def test_a_failed_liveness_probe_restarts_the_container(world: World) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    await world.pod(
        {
            "terminationGracePeriodSeconds": 0,
            "containers": [shell("main", SLEEP, livenessProbe=probe)],
        }
    )
    shown = await world.container(lambda each: each["restartCount"] > 0)
    assert shown["lastState"]["terminated"]["exitCode"] == 137
    event = await world.event("Unhealthy")
    assert event["message"].startswith("Liveness probe failed: ")
    event = await world.event("Killing")
    assert event["message"] == "Container main failed liveness probe, will be restarted"


async def test_a_startup_probe_delays_the_others(world: World) -> None:
    server = "exec python3 -m http.server --bind $IP 18080"
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    probe = {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1, "failureThreshold": 30}
    await world.pod(
        {
            "containers": [
                shell(
                    "main",
                    server,
                    env=env,
                    startupProbe=probe,
                    readinessProbe=probe,
                    ports=[{"name": "web", "containerPort": 18080}],
                )
            ]
        }
    )
    await world.ready()
    assert (await world.status())["containerStatuses"][0]["started"]


async def test_a_failed_post_start_hook_kills_the_container(world: World) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}}
    await world.pod(
        {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [shell("main", SLEEP, lifecycle=hook)],
        }
    )
    await world.phase("Failed")
    assert "no" in (await world.event("FailedPostStartHook"))["message"]


# -- commands ---------------------------------------------------------------------------------


@needs_own_proc
async def test_a_command_runs_in_the_container(world: World) -> None:
    env = [{"name": "WHERE", "value": "inside"}]
    # Not started by a shell, which `ps` may still list.
    container = {"name": "main", "image": "any:1", "command": ["sleep", "100"], "env": env}
    await world.pod({"containers": [{**container, "workingDir": "/made/here"}]})
    await world.ready()
    streams = Streams(b"typed")
    script = """
    hostname; pwd; echo $WHERE; cat; echo; ps -o args= 1; ls -x /proc/self/fd; echo e >&2; exit 3
    """
    assert await execute(world, streams, "sh", "-c", script) == 3
    assert streams.out.split() == b"p /made/here inside typed sleep 100 0 1 2 3".split()
    assert streams.err == b"e\n"


async def test_a_command_with_a_terminal(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    streams = Streams(b"stty size; tty; exit 4\n", tty=True, hold=True)
    streams.size = [(132, 43)]
    assert await execute(world, streams, "sh") == 4
    assert b"43 132" in streams.out
    assert b"/dev/pts/0" in streams.out


async def test_large_input_and_output_pass(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    streams = Streams(*[b"x" * 300_000] * 10)
    assert await execute(world, streams, "cat") == 0
    assert len(streams.out) == 3_000_000


async def test_a_slow_client_gets_all_that_a_command_has_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Streams):
        async def write_stdout(self, data: bytes) -> None:
            await asyncio.sleep(0.2)
            await super().write_stdout(data)

    monkeypatch.setattr("traincrew.local.node.runtime.commands._DRAIN_SECONDS", 0.01)
    monkeypatch.setattr("traincrew.local.node.runtime.commands._CHUNK", 10_000)
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    streams = Slow()
    assert await execute(world, streams, "head", "-c", "60000", "/dev/zero") == 0
    assert len(streams.out) == 60_000


async def test_a_command_is_killed_when_its_client_disconnects(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    streams = Streams(hold=True)
    task = asyncio.create_task(execute(world, streams, "sh", "-c", "echo up; exec sleep 77"))

    async def is_up() -> bool:
        return streams.out == b"up\n"

    await world.until(is_up)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    async def gone() -> bool:
        listing = Streams()
        await execute(world, listing, "ps", "ax")
        return b"sleep 77" not in listing.out

    await world.until(gone)


@needs_own_proc
async def test_background_processes_of_a_command_continue(world: World) -> None:
    # An MPI daemon detaches itself like this and has to continue.
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    script = "setsid sleep 78 > /dev/null 2>&1 < /dev/null & echo done"
    streams = Streams()
    assert await execute(world, streams, "sh", "-c", script) == 0
    assert streams.out == b"done\n"
    listing = Streams()
    await execute(world, listing, "ps", "ax")
    assert b"sleep 78" in listing.out


async def test_commands_that_cannot_run_are_refused(world: World) -> None:
    await world.pod({"containers": [shell("main", SLEEP)]})
    await world.ready()
    with pytest.raises(StreamRefusedError, match="executable file not found in"):
        await execute(world, Streams(), "no-such-program")
    await world.pod("true", "done")
    await world.phase("Succeeded", name="done")
    with pytest.raises(StreamRefusedError, match='container "main" in pod "done" is not running'):
        await execute(world, Streams(), "true", pod="done")


# -- Services ---------------------------------------------------------------------------------


async def test_a_cluster_ip_is_forwarded_to_ready_pods(world: World) -> None:
    script = """
    exec python3 -c '
    import os, socket
    server = socket.create_server((os.environ["IP"], 18081))
    while True:
        connection, _ = server.accept()
        received = b""
        while data := connection.recv(100): received += data
        connection.sendall(received + b" heard by " + os.environ["IP"].encode())
        connection.close()
    '
    """
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    probe = {"tcpSocket": {"port": 18081}, "periodSeconds": 1}
    text = "\n".join(line.removeprefix("    ") for line in script.splitlines())
    await world.pod({"containers": [shell("main", text, env=env, readinessProbe=probe)]})
    address = (await world.ready())["podIP"]
    ports = [{"name": "x", "port": 2379, "targetPort": 18081}]
    service = await world.create(SERVICES, {"metadata": {"name": "etcd"}, "spec": {"ports": ports}})
    await world.create(
        SERVICES,
        {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": ports}},
    )
    for name in ("etcd", "headless"):
        await world.create(
            ENDPOINT_SLICES,
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4",
                "ports": [{"name": "x", "port": 18081, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            },
        )
    virtual = service["spec"]["clusterIP"]
    ask = """
    import socket, time
    deadline = time.time() + 20
    while True:
        try:
            names = socket.gethostbyname("headless"), socket.gethostbyname("etcd")
            with socket.create_connection(("etcd.default.svc", 2379)) as connection:
                connection.sendall(b"hello")
                connection.shutdown(socket.SHUT_WR)
                if answer := connection.makefile("rb").read():
                    break
        except OSError:
            assert time.time() < deadline
        time.sleep(0.05)
    print(answer.decode())
    print(*names)
    import os
    print(os.environ["ETCD_SERVICE_HOST"], os.environ["ETCD_SERVICE_PORT_X"])
    """
    code = "\n".join(line.removeprefix("    ") for line in ask.splitlines())
    output = await world.result(
        {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "a:1", "command": ["python3", "-c", code]}],
        },
        "client",
    )
    assert output.splitlines() == [
        f"hello heard by {address}",
        f"{address} {virtual}",
        f"{virtual} 2379",
    ]


# -- logs -------------------------------------------------------------------------------------


async def test_logs_before_a_container_runs_are_refused(world: World) -> None:
    await world.pod({"containers": [{"name": "main", "image": "unknown:1", "command": ["x"]}]})
    await world.container(lambda each: each["state"].get("waiting"))
    from traincrew.engine.errors import ApiError

    with pytest.raises(ApiError, match='container "main" in pod "p" is waiting to start'):
        await world.logs()


async def test_following_ends_with_the_container(world: World) -> None:
    await world.pod("for i in 1 2 3; do echo $i; sleep 0.05; done")
    await world.until(lambda: _has_log(world))
    assert await world.logs(follow=True) == "1\n2\n3\n"


async def _has_log(world: World) -> bool:
    statuses = (await world.status()).get("containerStatuses") or [{}]
    return "waiting" not in statuses[0].get("state", {"waiting": {}})


# -- the node itself --------------------------------------------------------------------------


async def test_nodes_register_and_renew_their_leases(tmp_path: Path) -> None:
    nodes = (
        NodeSpec("one", cpu="4", memory="8Gi", gpus=2, labels={"zone": "a"}),
        NodeSpec("two"),
    )
    async with node_world(tmp_path / "node", nodes=nodes) as world:
        node = await world.client.get(NODES, "one")
        assert (
            node["status"]["allocatable"]
            | {
                "cpu": "4",
                "memory": "8Gi",
                "nvidia.com/gpu": "2",
            }
            == node["status"]["allocatable"]
        )
        assert node["metadata"]["labels"]["zone"] == "a"
        assert node["metadata"]["annotations"]["traincrew.dev/sandbox"] in {"namespaces", "bare"}
        assert condition(node["status"], "Ready") == "True"

        async def renewed() -> Any:
            leases = (await world.client.list(LEASES, "kube-node-lease"))["items"]
            return {lease["metadata"]["name"] for lease in leases} == {"one", "two"}

        await world.until(renewed)


async def test_containers_get_their_devices(tmp_path: Path) -> None:
    async with node_world(tmp_path / "node", nodes=(NodeSpec("local", gpus=3),)) as world:
        show = "echo [$CUDA_VISIBLE_DEVICES]"
        resources: dict[str, Any] = {"limits": {"nvidia.com/gpu": 2}}
        await world.pod({"containers": [shell("main", f"{show}; {SLEEP}", resources=resources)]})
        await world.ready()
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        pod = {"restartPolicy": "Never", "containers": [shell("main", show, resources=resources)]}
        assert await world.result(pod, "second") == "[2]\n"
        assert await world.result(show, "none") == "[]\n"
        assert await world.output() == "[0,1]\n"


async def test_pods_continue_without_a_node(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False):
            await world.pod({"containers": [shell("main", "echo up; exec sleep 100")]})
            await world.pod({"containers": [shell("main", "exec sleep 100")]}, "deleted")
            await world.pod(
                {
                    "restartPolicy": "Never",
                    "containers": [
                        shell("main", "while ! test -e /tmp/end; do sleep 0.02; done; exit 5")
                    ],
                },
                "ends",
            )
            for name in ("p", "deleted", "ends"):
                await world.ready(name)
            before = await world.status()
            leaving = {name: _program(world, await world.get(name) or {}) for name in ("p", "ends")}
        # As if an administrator stopped it while no node is running.
        os.kill(leaving["ends"], signal.SIGKILL)
        await world.client.delete(PODS, "deleted", "default", grace_period=0)
        async with running_node(world):
            status = await world.phase("Failed", name="ends")
            assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
            streams = Streams()
            assert await execute(world, streams, "echo", "still here") == 0
            assert _program(world, await world.get() or {}) == leaving["p"]
            status = await world.status()
            assert status["containerStatuses"] == before["containerStatuses"]
            assert status["podIP"] == before["podIP"]
            assert await world.output() == "up\n"

            async def cleaned() -> bool:
                return len(list((world.state / "pods").iterdir())) == 2

            await world.until(cleaned, "the deleted pod's directory is gone")
            await world.client.delete(PODS, "p", "default", grace_period=1)
            await world.gone()


async def test_pods_can_be_ended_without_node_and_api(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world, running_node(world, kill=False):
        await world.pod({"containers": [shell("main", SLEEP)]})
        await world.ready()
        program = _program(world, await world.get() or {})
        memory = world.node._paths.memory
    assert Path(f"/proc/{program}").exists()
    await end_pods(world.state)
    assert not Path(f"/proc/{program}").exists()
    assert not (world.state / "pods").exists()
    assert not memory.exists()


async def test_a_pod_whose_processes_are_lost_is_restarted(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=True):
            await world.pod({"containers": [shell("main", SLEEP)]})
            await world.pod(
                {"restartPolicy": "Never", "containers": [shell("main", SLEEP)]}, "once"
            )
            await world.ready()
            await world.ready("once")
        assert not (world.state / "pods").exists()
        async with running_node(world):
            shown = await world.container(lambda each: each["restartCount"] == 1)
            assert shown["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
            status = await world.phase("Failed", name="once")
            assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_pods_end_with_the_process_when_they_must_not_survive(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False, survive=False):
            await world.pod({"containers": [shell("main", SLEEP)]})
            await world.ready()
            program = _program(world, await world.get() or {})

        async def ended() -> bool:
            return not Path(f"/proc/{program}").exists()

        await world.until(ended)


def _program(world: World, pod: dict[str, Any]) -> int:
    container = world.state / "pods" / pod["metadata"]["uid"] / "containers" / "main"
    (instance,) = container.iterdir()
    return int(json.loads((instance / "process.json").read_text())["program"]["pid"])


async def test_progress_of_a_pull_is_reported(tmp_path: Path) -> None:
    lines: list[tuple[str, str]] = []
    async with node_world(tmp_path / "node", on_progress=lambda *line: lines.append(line)) as world:
        await world.result("true")
        assert lines == [("any:1", "collecting")]
        await world.event("Pulling")
        assert "Successfully pulled" in (await world.event("Pulled"))["message"]


async def test_a_damaged_image_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with node_world(tmp_path / "node") as world:

        async def pull(_image: str, progress: Callable[[str], None], *_: object) -> Environment:
            progress(Notice('environment "any" is damaged, so it is built anew'))
            return Environment("host")

        monkeypatch.setattr(world.images, "pull", pull)
        world.images.pulled.append("any:1")
        await world.result("true")
        event = await world.event("ImageDamaged")
        assert event["type"] == "Warning"
        assert event["message"] == 'environment "any" is damaged, so it is built anew'
        assert "Successfully pulled" in (await world.event("Pulled"))["message"]


async def test_files_of_an_image_are_mounted(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("print('trained')")
    async with node_world(tmp_path / "node") as world:
        images: AnyImage = world.images
        images.environment = type(images.environment)(
            "i",
            variables={"FROM": "image"},
            files={"/opt/app/train.py": source},
            working_directory="/opt/app",
            command=["python3"],
            arguments=["train.py"],
        )
        container: dict[str, Any] = {"name": "main", "image": "any:1"}
        spec = {"restartPolicy": "Never", "containers": [container]}
        assert await world.result(spec) == "trained\n"
        container["args"] = ["-c", "import os; print(os.environ['FROM'])"]
        assert await world.result(spec, "q") == "image\n"


async def test_a_command_has_the_capabilities_of_its_container(world: World) -> None:
    security = {"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["KILL"]}}
    await world.pod({"containers": [shell("main", SLEEP, securityContext=security)]})
    await world.ready()
    streams = Streams()
    assert await execute(world, streams, "grep", "Cap[EB]", "/proc/self/status") == 0
    assert streams.out.split() == [b"CapEff:", b"0000000000000020", b"CapBnd:", b"0000000000000020"]
