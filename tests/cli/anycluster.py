"""Commands on a cluster that they did not start: an API server, controllers and an operator."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest import mock

import pytest
import yaml
from click.testing import CliRunner, Result

from harness import Cluster
from traincrew.cli.main import cli

IMAGE = "busybox:1"
CONTAINERS = [{"name": "chainer", "image": IMAGE, "command": ["sleep", "600"]}]


def job(name: str, workers: int = 0, **policy: object) -> dict[str, object]:
    template = {"spec": {"containers": CONTAINERS}}
    spec: dict[str, object] = {"master": {"template": template}}
    if workers:
        spec["workerSets"] = {"ws0": {"replicas": workers, "template": template}}
    if policy:
        spec["runPolicy"] = policy
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": name},
        "spec": spec,
    }


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
