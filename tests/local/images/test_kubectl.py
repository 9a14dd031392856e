"""The small kubectl of the helper image, against a server that speaks the API's protocol."""

import asyncio
import contextlib
import json
import os
import pty
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from traincrew.local.apiserver.http.kubeconfig import kubeconfig
from traincrew.local.authority import make_certificate
from traincrew.local.images import kubectl
from traincrew.local.images.kubectl import KubectlError, render

STATEFUL_SET = {
    "metadata": {"name": "w", "labels": {"example.com/role": "worker"}},
    "spec": {"replicas": 2},
    "status": {"readyReplicas": 1, "conditions": [{"type": "A"}, {"type": "B"}]},
}


class Api:
    """Serves one StatefulSet, a list of pods, and ``exec`` as processes of this machine."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.executed: list[tuple[str, dict[str, list[str]]]] = []
        self.environment = dict(os.environ)

    async def stateful_set(self, request: web.Request) -> web.Response:
        self.paths.append(request.path_qs)
        assert request.host.startswith("127.0.0.1:")
        if request.match_info["name"] != "w":
            status = {
                "kind": "Status",
                "reason": "NotFound",
                "message": f'statefulsets.apps "{request.match_info["name"]}" not found',
            }
            return web.json_response(status, status=404)
        return web.json_response(STATEFUL_SET)

    async def pods(self, request: web.Request) -> web.Response:
        self.paths.append(request.path_qs)
        names = [{"metadata": {"name": name}} for name in ("w-0", "w-1")]
        listed = {"kind": "PodList", "apiVersion": "v1", "items": names}
        return web.json_response(listed)

    async def groups(self, _: web.Request) -> web.Response:
        version = {"groupVersion": "example.com/v2", "version": "v2"}
        return web.json_response(
            {"kind": "APIGroupList", "groups": [{"preferredVersion": version}]}
        )

    async def resources(self, _: web.Request) -> web.Response:
        kind = {"singularName": "widget", "kind": "Widget", "namespaced": True}
        return web.json_response(
            {
                "kind": "APIResourceList",
                "resources": [
                    {"name": "widgets", "shortNames": ["wg"], **kind},
                    {"name": "widgets/gizmos", **kind, "singularName": "", "kind": "Gizmos"},
                ],
            }
        )

    async def widget(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "w"}, "status": {"phase": "Fine"}})

    async def exec(self, request: web.Request) -> web.StreamResponse:
        query = {key: request.query.getall(key) for key in request.query}
        self.executed.append((request.path, query))
        if request.match_info["pod"] != "w-0":
            message = f'pods "{request.match_info["pod"]}" not found'
            return web.json_response({"reason": "NotFound", "message": message}, status=404)
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        command = query["command"]
        if command == ["drop"]:
            await socket.close()
            return socket
        if command == ["refuse"]:
            await self.finish(socket, {"status": "Failure", "message": "container is not running"})
            return socket
        await self.run(socket, command, "stdin" in query)
        return socket

    async def run(self, socket: web.WebSocketResponse, command: list[str], stdin: bool) -> None:
        process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, stderr=-1)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if not stdin:
            process.stdin.close()
        feeding = asyncio.create_task(self.feed(socket, process.stdin))
        await asyncio.gather(
            self.forward(socket, process.stdout, 1), self.forward(socket, process.stderr, 2)
        )
        code = await process.wait()
        feeding.cancel()
        causes = [{"reason": "ExitCode", "message": str(code)}]
        failure: dict[str, object] = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": causes},
        }
        await self.finish(socket, failure if code else {"status": "Success"})

    async def feed(self, socket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
        async for message in socket:
            if message.data[0] == 0:
                stdin.write(message.data[1:])
                await stdin.drain()
            elif message.data == b"\xff\x00":
                stdin.close()

    async def forward(
        self, socket: web.WebSocketResponse, stream: asyncio.StreamReader, channel: int
    ) -> None:
        while data := await stream.read(1 << 16):
            await socket.send_bytes(bytes([channel]) + data)

    async def finish(self, socket: web.WebSocketResponse, status: dict[str, object]) -> None:
        await socket.ping()
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()


class Result(NamedTuple):
    code: int | None
    output: str
    errors: str


class Pod:
    """A shell with a kubeconfig, as a container of the embedded cluster has it."""

    def __init__(self, api: Api, config: Path) -> None:
        self.api = api
        self.config = config

    async def kubectl(self, *words: str, stdin: bytes | None = b"") -> Result:
        code, output, errors = await self.kubectl_bytes(*words, stdin=stdin)
        return Result(code, output.decode(), errors)

    async def kubectl_bytes(
        self, *words: str, stdin: bytes | None = b""
    ) -> tuple[int | None, bytes, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-IS",
            kubectl.__file__,
            *words,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"KUBECONFIG": str(self.config)},
        )
        async with asyncio.timeout(30):
            output, errors = await process.communicate(stdin)
        return process.returncode, output, errors.decode()


@web.middleware
async def let_in(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    assert request.headers["Authorization"] == "Bearer a-token"
    return await handler(request)


@pytest.fixture
async def pod(tmp_path: Path) -> AsyncIterator[Pod]:
    api = Api()
    application = web.Application()
    sets = "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}"
    pods = "/api/v1/namespaces/{namespace}/pods"
    application.router.add_get(sets, api.stateful_set)
    application.router.add_get(pods, api.pods)
    application.router.add_get(pods + "/{pod}/exec", api.exec)
    application.router.add_get("/apis", api.groups)
    application.router.add_get("/apis/example.com/v2", api.resources)
    application.router.add_get("/apis/example.com/v2/namespaces/team/widgets/w", api.widget)
    application.middlewares.append(let_in)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    certificate = make_certificate(tmp_path)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate.context())
    await site.start()
    server = f"https://127.0.0.1:{runner.addresses[0][1]}"
    config = kubeconfig(server, token="a-token", authority=certificate.authority, namespace="team")
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    yield Pod(api, path)
    await runner.cleanup()


# -- get ---------------------------------------------------------------------------------------


async def test_queries_of_the_hostfile_script(pod: Pod) -> None:
    wanted = await pod.kubectl("get", "statefulset", "w", "-o", "jsonpath={.spec.replicas}")
    ready = await pod.kubectl("get", "sts/w", "-o=jsonpath={.status.readyReplicas}")
    absent = await pod.kubectl("get", "statefulset", "w", "-ojsonpath={.status.nothing}")
    assert (wanted, ready, absent) == (Result(0, "2", ""), Result(0, "1", ""), Result(0, "", ""))
    assert set(pod.api.paths) == {"/apis/apps/v1/namespaces/team/statefulsets/w"}


async def test_other_output_and_lists(pod: Pod) -> None:
    name = await pod.kubectl("get", "-n", "other", "statefulsets.apps", "w", "-o", "name")
    assert name.output == "statefulset.apps/w\n"
    assert pod.api.paths == ["/apis/apps/v1/namespaces/other/statefulsets/w"]
    listed = await pod.kubectl("get", "po", "-l", "a=b,c in (d)", "-o", "name")
    assert listed.output == "pod/w-0\npod/w-1\n"
    assert "labelSelector=a%3Db%2Cc%20in%20%28d%29" in pod.api.paths[-1].replace("+", "%20")
    printed = json.loads((await pod.kubectl("get", "po", "-o", "json")).output)
    assert [(each["apiVersion"], each["kind"]) for each in printed["items"]] == [("v1", "Pod")] * 2
    document = await pod.kubectl("get", "sts", "w", "-o", "json")
    assert json.loads(document.output) == STATEFUL_SET


@pytest.mark.parametrize("word", ["widget", "Widgets", "wg", "widgets.example.com"])
async def test_custom_resources_are_discovered(pod: Pod, word: str) -> None:
    shown = await pod.kubectl("get", word, "w", "-o", "jsonpath={.status.phase}")
    named = await pod.kubectl("get", f"{word}/w", "-o", "name")
    assert (shown, named) == (Result(0, "Fine", ""), Result(0, "widget.example.com/w\n", ""))


async def test_not_found(pod: Pod) -> None:
    assert await pod.kubectl("get", "statefulset", "gone", "-o", "name") == Result(
        1, "", 'Error from server (NotFound): statefulsets.apps "gone" not found\n'
    )
    optional = await pod.kubectl("get", "sts", "gone", "-o", "name", "--ignore-not-found")
    assert optional == Result(0, "", "")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.spec.replicas}", "2"),
        (".spec.replicas", "2"),
        ("{$.spec.replicas}", "2"),
        ("{.spec}", '{"replicas":2}'),
        ('{.metadata.name}: {.spec.replicas}{"\\n"}', "w: 2\n"),
        ("{.status.conditions[*].type}", "A B"),
        ("{.status.conditions[1].type}", "B"),
        ("{.status.conditions[7].type}", ""),
        ("{.metadata.labels.example\\.com/role}", "worker"),
        ("{.metadata.labels['example.com/role']}", "worker"),
        ("{.nothing.at.all}", ""),
        ("plain", ""),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template, STATEFUL_SET) == text


@pytest.mark.parametrize("template", ["{.a", "{.a[0}", "{.a[?(@.b==1)]}", "{range .a[*]}{end}"])
def test_unsupported_templates(template: str) -> None:
    with pytest.raises(KubectlError, match="jsonpath"):
        render(template, STATEFUL_SET)


# -- exec --------------------------------------------------------------------------------------


async def test_streams_and_exit_code(pod: Pod) -> None:
    script = "cat; echo out; echo err >&2; exit 7"
    result = await pod.kubectl(
        "exec", "-i", "w-0", "-c", "chainer", "--", "/bin/sh", "-c", script, stdin=b"in\n"
    )
    assert result.output == "in\nout\n"
    assert result.errors == "err\ncommand terminated with exit code 7\n"
    assert result.code == 7
    path, query = pod.api.executed[0]
    assert path == "/api/v1/namespaces/team/pods/w-0/exec"
    assert query == {
        "command": ["/bin/sh", "-c", script],
        "container": ["chainer"],
        "stdin": ["true"],
        "stdout": ["true"],
        "stderr": ["true"],
    }


async def test_arguments_are_passed_unchanged(pod: Pod) -> None:
    words = ["a b", "", "ü&=+%/?#", "--", "-n", "'\"\\\n"]
    result = await pod.kubectl("exec", "pod/w-0", "--", "printf", "<%s>", *words)
    assert result.output == "".join(f"<{word}>" for word in words)
    assert result.code == 0


async def test_without_stdin_option_there_is_no_input(pod: Pod) -> None:
    result = await pod.kubectl("exec", "w-0", "--", "cat", stdin=b"unwanted")
    assert (result.code, result.output) == (0, "")
    assert "stdin" not in pod.api.executed[0][1]


async def test_large_data_in_both_directions(pod: Pod) -> None:
    data = os.urandom(5_000_001)
    code, output, _ = await pod.kubectl_bytes("exec", "-i", "w-0", "--", "cat", stdin=data)
    assert code == 0
    assert output == data


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["w-9", "--", "true"], 'Error from server (NotFound): pods "w-9" not found'),
        (["w-0", "--", "drop"], "error: the command's stream ended without its exit code"),
        (["w-0", "--", "refuse"], "error: container is not running"),
    ],
)
async def test_exec_failures(pod: Pod, words: list[str], message: str) -> None:
    assert await pod.kubectl("exec", *words) == Result(1, "", message + "\n")


async def test_a_terminal(pod: Pod) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-IS", kubectl.__file__, "exec", "-it", "w-0", "--", "sh", "-c", "echo ready; head -c 6"),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        env={"KUBECONFIG": str(pod.config)},
    )
    os.close(theirs)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"ready\n"
            # Raw mode: input arrives unchanged, including the return key.
            os.write(ours, b"typed\r")
            assert await process.stdout.read() == b"typed\r"
            assert await process.wait() == 0
        assert pod.api.executed[0][1]["tty"] == ["true"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["logs", "w-0"], "error: logs: not a command of this kubectl"),
        (["get", "pods"], 'error: -o "": this kubectl prints json, name or jsonpath=TEMPLATE'),
        (["get", "pods", "-o", "yaml"], 'error: -o "yaml"'),
        (["get", "pods", "-o", "jsonpath"], 'error: -o "jsonpath"'),
        (["get", "-o", "name"], "error: get needs a kind"),
        (["get", "gizmos", "-o", "name"], 'the server doesn\'t have a resource type "gizmos"'),
        (["get", "pods", "--watch", "-o", "name"], "error: unknown option --watch"),
        (["get", "pods", "-o"], "error: -o needs a value"),
        (["exec", "w-0"], "error: exec needs a pod, then -- and a command"),
        (["exec", "w-0", "ls"], "error: exec needs a pod, then -- and a command"),
    ],
)
async def test_usage_errors(pod: Pod, words: list[str], message: str) -> None:
    result = await pod.kubectl(*words)
    assert result.code == 1
    assert message in result.errors


CONFIG = (
    '{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}], '
    '"clusters": [{"name": "c", "cluster": {"server": "%s"}}]}'
)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("apiVersion: v1\n", "is not JSON; this kubectl reads no YAML"),
        ("{}", "has no usable 'contexts'"),
        (
            CONFIG % "https://10.0.0.1",
            "https://10.0.0.1: this kubectl speaks to https://HOST:PORT only",
        ),
        (
            CONFIG % "http://127.0.0.1:1/s",
            "The connection to the server 127.0.0.1:1 was refused - is the cluster still up?",
        ),
    ],
)
async def test_unusable_kubeconfigs(pod: Pod, config: str | None, message: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        pod.config.unlink()
    if config is not None:
        pod.config.write_text(config, encoding="utf-8")
    result = await pod.kubectl("get", "pods", "-o", "name")
    assert result.code == 1
    assert message in result.errors


async def test_a_token_in_a_file(pod: Pod, tmp_path: Path) -> None:
    document = json.loads(pod.config.read_text())
    document["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
    pod.config.write_text(json.dumps(document))
    (tmp_path / "token").write_text("a-token")
    assert (await pod.kubectl("get", "pods", "-o", "name")).code == 0


async def test_another_program_on_the_port_gets_no_token(pod: Pod, tmp_path: Path) -> None:
    heard = asyncio.Queue[bytes]()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            heard.put_nowait(await reader.read(4096))
        writer.close()

    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other").context()
    for context in (other, None):
        impostor = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
        document = json.loads(pod.config.read_text())
        port = impostor.sockets[0].getsockname()[1]
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        pod.config.write_text(json.dumps(document))
        task = asyncio.create_task(pod.kubectl("get", "pods", "-o", "name"))
        if context is None:
            assert b"a-token" not in await heard.get()
        result = await task
        assert result.code == 1
        assert "Unable to connect to the server" in result.errors
        impostor.close()
