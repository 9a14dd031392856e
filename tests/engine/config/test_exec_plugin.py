"""Exec plugins: real programs that print credentials."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.certificates import Authority
from engine.config.test_tls import inline, kubeconfig, serving
from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig, TlsSettings, from_kubeconfig
from traincrew.engine.config.execplugin import ExecCredentials, ExecPlugin
from traincrew.engine.errors import ConfigError
from traincrew.engine.testing import ManualClock

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

# Prints the content of answer.json and records each call with its input.
PLUGIN = """\
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/calls", "a") as calls:
    record = {"info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "arguments": sys.argv[1:],
              "variable": os.environ.get("PLUGIN_VARIABLE"), "stdin": sys.stdin.read()}
    calls.write(json.dumps(record) + "\\n")
sys.stdout.write(open(here + "/answer.json").read())
"""


class Plugin:
    """An exec plugin in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        script = directory / "plugin"
        # No path with a space may be in a script's first line.
        (directory / "plugin.py").write_text(PLUGIN)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$0.py" "$@"\n')
        script.chmod(0o755)
        self.answer(token="one")

    def answer(self, version: str = V1, **status: Any) -> None:
        credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        (self.directory / "answer.json").write_text(json.dumps(credential))

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.directory / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def config(self, cluster: dict[str, Any] | None = None, **section: Any) -> ClientConfig:
        section = {
            "apiVersion": V1,
            "command": "./plugin",
            "interactiveMode": "Never",
        } | section
        document = kubeconfig(1, cluster or {}, {"exec": section})
        return from_kubeconfig(document, directory=self.directory)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_plugin_gets_its_input_and_is_run_once(plugin: Plugin) -> None:
    config = plugin.config(args=["a", "b"], env=[{"name": "PLUGIN_VARIABLE", "value": "v"}])
    headers = await asyncio.gather(*[config.authorization() for _ in range(5)])

    assert headers == ["Bearer one"] * 5
    (call,) = plugin.calls
    assert call["arguments"] == ["a", "b"]
    assert call["variable"] == "v"
    assert call["stdin"] == ""
    assert call["info"] == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


async def test_cluster_information_on_request(plugin: Plugin, authority: Authority) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {
        "certificate-authority": str(authority.directory / "ca.crt"),
        "tls-server-name": "name",
        "extensions": [{"name": "other"}, extension],
    }
    await plugin.config(cluster, provideClusterInfo=True).authorization()

    assert plugin.calls[0]["info"]["spec"]["cluster"] == {
        "server": "https://127.0.0.1:1/prefix",
        "tls-server-name": "name",
        "certificate-authority-data": inline(authority.directory / "ca.crt"),
        "config": {"audience": "x"},
    }


async def test_v1beta1_needs_no_interactive_mode(plugin: Plugin) -> None:
    plugin.answer(V1BETA1, token="beta")
    config = plugin.config(apiVersion=V1BETA1, interactiveMode=None)

    assert await config.authorization() == "Bearer beta"


@pytest.mark.parametrize("which", ["monotonic", "wall"])
async def test_expired_credentials_are_renewed_by_either_clock(plugin: Plugin, which: str) -> None:
    class Clock(ManualClock):
        wall = ManualClock()

        def now(self) -> Any:
            return self.wall.now()

    clock = Clock()
    clock.wall = ManualClock()
    plugin.answer(token="one", expirationTimestamp="2026-01-01T01:00:00Z")
    command = str(plugin.directory / "plugin")
    section = ExecPlugin(where="x", api_version=V1, command=command, interactive_mode="Never")
    credentials = ExecCredentials(section, TlsSettings(), clock=clock)
    assert await credentials.authorization() == "Bearer one"
    plugin.answer(token="two", expirationTimestamp="2026-01-01T09:00:00Z")
    moving = clock if which == "monotonic" else clock.wall
    moving.advance(3590)
    assert await credentials.authorization() == "Bearer one"
    moving.advance(20)
    assert await credentials.authorization() == "Bearer two"
    assert len(plugin.calls) == 2


async def test_a_refused_token_is_renewed_once_for_all_refused_requests(plugin: Plugin) -> None:
    clock = ManualClock()
    command = str(plugin.directory / "plugin")
    section = ExecPlugin(where="x", api_version=V1, command=command, interactive_mode="Never")
    credentials = ExecCredentials(section, TlsSettings(), clock=clock)
    assert await credentials.authorization() == "Bearer one"
    clock.advance(60)
    plugin.answer(token="two")
    again = await asyncio.gather(*[credentials.refresh("Bearer one") for _ in range(5)])

    assert again == [True] * 5
    assert await credentials.authorization() == "Bearer two"
    assert len(plugin.calls) == 2
    assert not await credentials.refresh("Bearer two"), "it was made a moment ago"
    assert len(plugin.calls) == 2


async def test_a_client_certificate_from_a_plugin_is_presented_and_replaced(
    plugin: Plugin, authority: Authority
) -> None:
    def certificate(name: str) -> dict[str, str]:
        return {
            "clientCertificateData": (authority.directory / f"{name}.crt").read_text(),
            "clientKeyData": (authority.directory / f"{name}.key").read_text(),
        }

    plugin.answer(expirationTimestamp="2000-01-01T00:00:00Z", **certificate("alice"))
    async with serving(authority, demand=True) as port:
        section = {
            "apiVersion": V1,
            "command": str(plugin.directory / "plugin"),
            "interactiveMode": "Never",
        }
        cluster = {"certificate-authority": str(authority.directory / "ca.crt")}
        document = kubeconfig(port, cluster, {"exec": section})
        async with Client(from_kubeconfig(document)) as client:
            answer = await client.server_version()
            assert answer == {"client": ["alice"], "authorization": ""}
            plugin.answer(**certificate("bob"))
            assert (await client.server_version())["client"] == ["bob"]
            assert len(plugin.calls) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("hello", "printed no ExecCredential"),
        ("{}", "printed kind '' instead of ExecCredential"),
        ({"apiVersion": V1BETA1}, "but the kubeconfig asks for 'client.authentication.k8s.io/v1'"),
        ({"status": None}, "without status"),
        ({"status": {}}, "neither token nor clientCertificateData"),
        ({"status": {"clientKeyData": "x"}}, "only one of clientCertificateData"),
        ({"status": {"token": "t", "expirationTimestamp": "soon"}}, "printed no ExecCredential"),
        (
            {"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00"}},
            "without time zone",
        ),
    ],
)
async def test_invalid_output_of_a_plugin_is_described(
    plugin: Plugin, answer: Any, message: str
) -> None:
    if not isinstance(answer, str):
        whole = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}} | answer
        answer = json.dumps(whole)
    (plugin.directory / "answer.json").write_text(answer)
    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.config().authorization()
    assert "users[x].user.exec: command" in str(caught.value)


async def test_a_missing_command_shows_the_install_hint(plugin: Plugin) -> None:
    config = plugin.config(command="no-such-plugin", installHint="Install it with: brew")
    with pytest.raises(ConfigError, match=r"cannot be started: No such file(.|\n)*with: brew"):
        await config.authorization()


async def test_a_failing_command_shows_its_exit_code(plugin: Plugin) -> None:
    with pytest.raises(ConfigError, match="command 'false' failed with exit code 1"):
        await plugin.config(command="false").authorization()


async def test_a_plugin_that_must_have_a_terminal_is_refused_without(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigError, match="needs a terminal"):
        await plugin.config(interactiveMode="Always").authorization()
    assert await plugin.config(interactiveMode="IfAvailable").authorization() == "Bearer one"
    assert plugin.calls[0]["info"]["spec"]["interactive"] is False


async def test_a_plugin_that_hangs_is_killed(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traincrew.engine.config.execplugin._TIMEOUT", 0.2)
    with pytest.raises(ConfigError, match=r"did not finish within 0\.2 s"):
        await plugin.config(command="sleep", args=["60"]).authorization()
