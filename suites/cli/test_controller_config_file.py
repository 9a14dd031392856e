"""`--controller_config_file` of `traincrew run` and `up`: accelerators of MxJobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from cli.programs import Machine, kubeconfig_of, run
from harness import MX_JOBS
from traincrew.cli.main import cli
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import JOBS

if TYPE_CHECKING:
    from pathlib import Path

JOB = """
apiVersion: mxnet.mlkube.io/v1beta1
kind: MxJob
metadata: {name: small}
spec:
  jobMode: local
  RuntimeId: r1
  replicaSpecs:
  - template:
      spec:
        containers:
        - name: mxnet
          image: busybox:1
          command: [sh, -c, 'echo "libraries in $LIBRARIES"']
          resources: {limits: {alpha.kubernetes.io/nvidia-gpu: 1}}
"""
CONFIGURATION = """
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    envVars: [{name: LIBRARIES, value: /usr/local/nvidia}]
"""
BROKEN = "accelerators: {gpu: {volumes: [{name: lib}]}}"
spellings = pytest.mark.parametrize(
    "option", ["--controller_config_file", "--controller-config-file"]
)


def written(directory: Path, text: str = CONFIGURATION) -> Path:
    """Write the file."""
    path = directory / "accelerators.yaml"
    path.write_text(text)
    return path


@spellings
def test_a_run_gives_the_variables_to_a_job_that_uses_the_accelerator(
    tmp_path: Path, environment: dict[str, str], option: str
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    result = run(environment, tmp_path / "job.yaml", "--gpus=1", option, written(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| libraries in /usr/local/nvidia\n" in result.stdout


@spellings
@pytest.mark.parametrize("command", ["run", "up", "operator"])
def test_a_mistake_in_the_file_is_one_line_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text(JOB)
    path = written(tmp_path, BROKEN)
    arguments = [command, f"{option}={path}"]
    if command == "run":
        arguments.append(str(tmp_path / "job.yaml"))
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    expected = f"--controller_config_file: {path}: accelerators[gpu].volumes[0].hostPath: missing"
    assert expected in line
    assert not (tmp_path / "home").exists()


def test_a_file_that_does_not_exist() -> None:
    result = CliRunner().invoke(cli, ["up", "--controller_config_file", "/does/not/exist"])
    assert result.exit_code == 2
    assert "cannot read /does/not/exist: no such file or directory" in result.output


def test_without_our_operator_nobody_reads_the_file(tmp_path: Path) -> None:
    arguments = ["up", "--no-operator", f"--controller_config_file={written(tmp_path)}"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "--no-operator leaves out; give it to `traincrew operator`" in result.output


async def test_a_cluster_keeps_the_file_and_says_if_another_one_is_given(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig = kubeconfig_of(machine("up", "--controller_config_file", written(tmp_path).name))
    monkeypatch.chdir("/")
    machine("restart")
    (tmp_path / "other").mkdir()
    other = machine("up", "--controller_config_file", str(written(tmp_path / "other")), code=1)
    assert "is up already with other options (--controller-config-file)" in other.stderr
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(MX_JOBS, yaml.safe_load(JOB), "default")
        async with asyncio.timeout(60):
            while not (found := (await client.list(JOBS, "default"))["items"]):
                await asyncio.sleep(0.05)
    (container,) = found[0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "LIBRARIES", "value": "/usr/local/nvidia"} in container["env"]
