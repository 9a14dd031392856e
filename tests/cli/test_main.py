"""The command line itself: help, errors, old flags."""

import errno
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from traincrew.cli.commands.operator import from_go_flags
from traincrew.cli.main import COMMANDS, cli

PROGRAM = str(Path(sys.executable).with_name("traincrew"))


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, arguments)
    return result.exit_code, result.output


def test_help_comes_without_heavy_imports() -> None:
    script = (
        "import sys; sys.argv = ['traincrew', '--help']\n"
        "from traincrew.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'aiohttp', 'asyncio', 'msgspec', 'yaml', 'structlog'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "Commands:" in result.stdout


def test_without_the_embedded_cluster_its_commands_are_refused() -> None:
    # As in the operator's image.
    script = (
        "import sys; sys.modules['traincrew.local'] = None; sys.argv = ['traincrew', 'doctor']\n"
        "from traincrew.cli.main import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr.startswith("traincrew: the embedded cluster is not installed here")


def processor_seconds(*command: str) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_is_fast() -> None:
    # Beside the interpreter with its option parser, for a busy machine slows down both.
    measured = [
        (
            processor_seconds(PROGRAM, "--help"),
            processor_seconds(sys.executable, "-c", "import click"),
        )
        for _ in range(5)
    ]
    ours, least = map(min, zip(*measured, strict=True))
    assert ours < 2 * least


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_that_fits_a_terminal(command: str) -> None:
    code, output = invoke(command, "--help")
    assert code == 0
    assert "Usage:" in output
    assert max(len(line) for line in output.splitlines()) <= 100


def test_a_similar_command_is_suggested() -> None:
    code, output = invoke("rnu")
    assert code == 2
    assert "There is no command 'rnu'. Did you mean 'run'?" in output
    assert "There are: run, up" in invoke("xyz")[1]


def test_run_asks_for_a_manifest() -> None:
    code, output = invoke("run")
    assert code == 2
    assert "which manifest?" in output


def test_a_bad_manifest_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: ChainerJob\n")
    started = time.perf_counter()
    command = [PROGRAM, "run", "-f", str(path)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == (
        f"traincrew: {path}:1: apiVersion is missing or not a string: "
        "write apiVersion: kubeflow.org/v1alpha1\n"
    )
    assert time.perf_counter() - started < 5


def test_version() -> None:
    code, output = invoke("version")
    assert code == 0
    assert output.startswith("traincrew 0.")


def test_manifests_print_what_installs_the_operator() -> None:
    code, output = invoke("manifests")
    assert code == 0
    kinds = re.findall(r"^kind: (\w+)", output, re.MULTILINE)
    before = kinds[: kinds.index("Namespace")]
    assert set(before) == {"CustomResourceDefinition"}
    assert kinds[-1] == "Deployment"
    code, output = invoke("manifests", "--crds-only")
    kinds = re.findall(r"^kind: (\w+)", output, re.MULTILINE)
    assert set(kinds) == {"CustomResourceDefinition"}


def test_manifests_can_be_written(tmp_path: Path) -> None:
    code, _ = invoke("manifests", "--directory", str(tmp_path / "deploy"))
    assert code == 0
    assert min(path.name for path in (tmp_path / "deploy").iterdir()) == "0-crd.yaml"
    (tmp_path / "file").write_text("")
    code, output = invoke("manifests", "--directory", str(tmp_path / "file" / "below"))
    assert code == 1
    assert "cannot write" in output


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (["-v", "4", "-stderrthreshold", "INFO"], ["--log-level=info"]),
        (["-v=5"], ["--verbose"]),
        (["-v"], ["--verbose"]),
        (["-v", "--workers", "2"], ["--verbose", "--workers", "2"]),
        (["-kubeconfig", "f", "-master=http://x"], ["--kubeconfig=f", "--master=http://x"]),
        (["--kubeconfig", "f"], ["--kubeconfig=f"]),
        (["-logtostderr", "-alsologtostderr=true", "-log_dir", "/x", "-vmodule=a=1"], []),
        (["-log_backtrace_at", ":0", "--namespace", "n"], ["--namespace", "n"]),
        (["-stderrthreshold=ERROR"], ["--log-level=error"]),
        (
            ["--controller_config_file=/etc/config/c.yaml", "-alsologtostderr", "-v=1"],
            ["--controller_config_file=/etc/config/c.yaml"],
        ),
        (
            ["-controller_config_file", "c.yaml", "--v=8"],
            ["--controller_config_file=c.yaml", "--verbose"],
        ),
        (["--gc-interval", "10m", "-gc-interval=1h"], ["--gc-interval=10m", "--gc-interval=1h"]),
        (["--chaos-level", "-1", "--workers", "2"], ["--chaos-level=-1", "--workers", "2"]),
        (["-version"], ["--version"]),
        (["--version=true", "-version=false"], ["--version"]),
        (["--", "-v=1"], ["--", "-v=1"]),
    ],
)
def test_flags_of_the_replaced_operators(given: list[str], ours: list[str]) -> None:
    assert from_go_flags(given) == ours


def test_a_flag_without_its_value() -> None:
    with pytest.raises(click.UsageError, match="-kubeconfig needs a value"):
        from_go_flags(["-kubeconfig"])
    with pytest.raises(click.UsageError, match="--chaos-level needs a value"):
        from_go_flags(["--chaos-level"])


def test_a_verbosity_that_is_no_number() -> None:
    code, output = invoke("operator", "-v=high")
    assert code == 2
    assert "-v=high: write a number, such as -v=1" in output


def test_the_operators_version() -> None:
    code, output = invoke("operator", "-version")
    assert code == 0
    assert output.startswith("traincrew operator 0.")


def test_use_kube_config_names_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("USE_KUBE_CONFIG", "true")
    code, output = invoke("operator")
    assert code == 2
    assert "USE_KUBE_CONFIG=true: no such file; set it to the path of a kubeconfig" in output


def test_the_operator_says_which_kubeconfig_it_cannot_read(tmp_path: Path) -> None:
    code, output = invoke("operator", "-kubeconfig", str(tmp_path / "absent"))
    assert code == 2
    assert str(tmp_path / "absent") in output


def shell(command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )


def test_a_reader_that_leaves_ends_the_program_quietly() -> None:
    result = shell("PYTHONUNBUFFERED= traincrew manifests | head -1")
    assert result.returncode == 141  # as cat, or kubectl
    assert result.stdout.startswith("#")
    assert result.stderr == ""


def test_what_a_reader_left_unread_is_no_error_at_exit() -> None:
    # As the console of `watch` and `logs`, whose thread has met the closed pipe.
    script = (
        "import sys, traincrew.cli.main as main\n"
        "main.cli = lambda **_: sys.stdout.write('unread') and 0\n"
        "main.main()\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, "")


def test_output_that_cannot_be_written_is_said() -> None:
    result = shell("traincrew manifests >/dev/full")
    assert result.returncode == 1
    assert result.stderr == "traincrew: cannot write the output: no space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(closed: str) -> None:
    result = shell(f"traincrew version {closed}")
    assert result.returncode == 0
    assert result.stderr == ""
    assert bool(result.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_a_credential_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "interactiveMode": "Never",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": plugin}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    result = shell(f"traincrew list --kubeconfig {path}")
    assert result.returncode == 1
    assert "command 'no-such-plugin' cannot be started" in result.stderr
    assert "should not happen" not in result.stderr


@pytest.mark.parametrize("option", [(), ("-v",), ("--output",), ("--images",)])
def test_a_path_below_an_unreadable_directory_is_an_ordinary_error(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user without rights sees it, whoever runs this test.

    From Python 3.14 on, pathlib takes what may not be looked at for missing.
    """
    hidden = tmp_path / "hidden"
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a},"
        " spec: {containers: [{name: a, image: busybox}]}}"
    )

    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *words: Any, **more: Any) -> Any:
            if isinstance(path, str | Path) and str(path).startswith(str(hidden)):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return function(path, *words, **more)

        return refuse

    for module, name in ((os, "stat"), (os, "mkdir"), (io, "open")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name)))
    place = f"{hidden}/a{'' if option in {(), ('--images',)} else ':/a'}"
    result = CliRunner().invoke(cli, ["run", *option, place, *([str(manifest)] if option else [])])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    words = " ".join(result.output.split()).lower()
    assert "permission denied" in words or "does not exist" in words
    assert str(hidden).lower() in words
