"""Commands on a cluster that they did not start: an API server, controllers and an operator."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest
import yaml
from click.testing import CliRunner, Result

from chainerjobs import chainer_job
from cli.programs import PROGRAM, Machine, kubeconfig_of
from harness import CHAINER_JOBS, Cluster
from traincrew.cli.main import cli
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import Resource
from traincrew.local.apiserver.http.faults import Fault, refuse

T = TypeVar("T")

DEADLINE = 60.0


def job(name: str, workers: int = 0, **policy: object) -> dict[str, Any]:
    """A ChainerJob whose pods sleep."""
    return chainer_job(name, workers=workers, policy=policy, backoff_limit=None)


def script(name: str, text: str, workers: int = 0) -> dict[str, Any]:
    """A ChainerJob whose master runs a script of the shell, and is not retried."""
    document = job(name, workers)
    document["spec"]["master"] = chainer_job(name, ["sh", "-c", text])["spec"]["master"]
    return document


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read the output up to a line with this text."""
    assert process.stdout is not None
    lines = ""
    for line in process.stdout:
        lines += line
        if text in line:
            return lines
    raise AssertionError(lines)


class Embedded:
    """An embedded cluster with pods, which commands know by its kubeconfig only."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.kubeconfig = kubeconfig
        self._environment = {**os.environ, "HOME": str(home), "TRAINCREW_HOME": str(home)}
        self._environment.pop("KUBECONFIG", None)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command, *rest = words
        line = [PROGRAM, command, "--kubeconfig", str(self.kubeconfig), *rest]
        return subprocess.Popen(
            line,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        with self.start(*words) as process:
            output, errors = process.communicate(timeout=90)
        assert process.returncode == code, output + errors
        return subprocess.CompletedProcess(process.args, code, output, errors)

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def run() -> T:
            async with Client(load_config(str(self.kubeconfig)), user_agent="test") as client:
                return await work(client)

        return asyncio.run(run())

    def create(self, document: dict[str, Any], resource: Resource = CHAINER_JOBS) -> None:
        self.ask(lambda client: client.create(resource, document, "default"))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    kubeconfig = kubeconfig_of(machine("up"))
    yield Embedded(kubeconfig, tmp_path_factory.mktemp("user"))
    machine("down", "--all")


class Commands:
    """Runs commands in a thread of their own, against one cluster."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(cluster.server.kubeconfig()))

    async def __call__(self, *words: str, code: int = 0) -> Result:
        runner = CliRunner()
        command, *rest = words
        line = [command, "--kubeconfig", str(self.kubeconfig), *rest]
        result = await asyncio.to_thread(runner.invoke, cli, line)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def refuse(self, agent: str, *paths: str, code: int = 403, message: str = "no") -> None:
        """Refuse the requests of a program for paths that contain one of these texts."""

        def fault(_method: str, path: str, asking: str) -> Fault | None:
            refused = asking == agent and any(part in path for part in paths)
            return refuse(code, message) if refused else None

        self.cluster.server.faults = fault


@pytest.fixture
def own_home(tmp_path: Path) -> Iterator[Path]:
    """A user without clusters and kubeconfig."""
    settings = {"HOME": str(tmp_path), "TRAINCREW_HOME": str(tmp_path / "home")}
    with mock.patch.dict(os.environ, settings):
        os.environ.pop("KUBECONFIG", None)
        yield tmp_path


@pytest.fixture
async def commands(own_home: Path) -> AsyncIterator[Commands]:
    async with Cluster() as cluster:
        yield Commands(cluster, own_home)
