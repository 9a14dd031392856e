"""The command line itself: help, errors, old flags."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from traincrew.cli.main import COMMANDS, cli
from traincrew.cli.operator import from_go_flags

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


def test_without_the_embedded_cluster_its_commands_say_so() -> None:
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


def test_help_answers_at_once() -> None:
    best = 10.0
    for _ in range(5):
        process = subprocess.Popen([PROGRAM, "--help"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        best = min(best, usage.ru_utime + usage.ru_stime)
    assert best < 0.15  # of processor time: the machine may be busy with other tests


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help_that_fits_a_terminal(command: str) -> None:
    code, output = invoke(command, "--help")
    assert code == 0
    assert "Usage:" in output
    assert max(len(line) for line in output.splitlines()) <= 100


def test_a_misspelt_command_is_recognised() -> None:
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
    assert result.stderr == f"traincrew: {path}:1: apiVersion is missing or not a text\n"
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
    ],
)
def test_flags_of_the_replaced_operators(given: list[str], ours: list[str]) -> None:
    assert from_go_flags(given) == ours


def test_a_flag_without_its_value() -> None:
    with pytest.raises(click.UsageError, match="-kubeconfig needs a value"):
        from_go_flags(["-kubeconfig"])


def test_the_operator_says_which_kubeconfig_it_cannot_read(tmp_path: Path) -> None:
    code, output = invoke("operator", "-kubeconfig", str(tmp_path / "absent"))
    assert code == 2
    assert str(tmp_path / "absent") in output
