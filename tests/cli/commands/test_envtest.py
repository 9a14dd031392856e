"""`traincrew envtest` and `traincrew apiserver`: what users see."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from traincrew.cli.commands.apiserver import apiserver_command
from traincrew.cli.commands.envtest import envtest_command
from traincrew.engine.serving.accepting import open_listener


def test_the_directory_is_named_for_the_shell(tmp_path: Path) -> None:
    directory = tmp_path / "my assets"
    result = CliRunner().invoke(envtest_command, [str(directory)])
    assert result.exit_code == 0
    assert result.stdout == f"export KUBEBUILDER_ASSETS='{directory}'\n"
    assert os.access(directory / "kube-apiserver", os.X_OK)


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(envtest_command, [str(tmp_path / "file" / "assets")])
    assert result.exit_code == 1
    assert f"cannot write {tmp_path}/file/assets: not a directory" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "a/b"], "'a/b': the name cannot be that of a file"),
        (["--user", "@group"], "'@group': the name cannot be that of a file"),
        (["--user", "a" * 65], "the name of a user or group has 1 to 64 characters"),
        (["--user", "a", "--client-ca-file", __file__], "--user needs the CA of this server"),
        (["--client-ca-file", __file__], f"--client-ca-file: {__file__} has no certificate (PEM)"),
        (["--port", "65536"], "65536 is not in the range"),
        (["--data-directory", "/proc/none"], "cannot serve: /proc/none: "),
    ],
)
def test_options_that_cannot_be_used(words: list[str], said: str) -> None:
    result = CliRunner().invoke(apiserver_command, words)
    assert result.exit_code in {1, 2}
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_port_that_is_in_use() -> None:
    listener = open_listener("127.0.0.1", 0)
    port = str(listener.getsockname()[1])
    result = CliRunner().invoke(apiserver_command, ["--port", port])
    listener.close()
    assert result.exit_code == 1
    assert f"127.0.0.1:{port} is in use by " in result.output
    assert f"(process {os.getpid()} of user " in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_until_it_is_asked_to_end(tmp_path: Path, number: signal.Signals) -> None:
    target = tmp_path / "kube config"
    words = ["--kubeconfig", str(target), "--user", "alice@qa,dev"]
    serving = subprocess.Popen(
        [sys.executable, "-m", "traincrew.cli", "apiserver", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    assert serving.stdout.readline() == f"export KUBECONFIG={shlex.quote(str(target))}\n"
    try:
        names = ["kubectl", "--kubeconfig", str(target), "get", "namespaces", "-o", "name"]
        said = subprocess.run(names, capture_output=True, text=True, check=True).stdout
        assert "namespace/default\n" in said
    finally:
        serving.send_signal(number)
        errors = serving.communicate(timeout=60)[1]
    assert serving.returncode == 0
    user, ready = errors.splitlines()
    path = Path(user.removeprefix("user alice: "))
    assert path.name == "alice.kubeconfig"
    assert not path.parent.exists()
    assert ready.startswith("the API is served at https://127.0.0.1:")
