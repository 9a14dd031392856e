"""`traincrew images` with a catalog of environments that need no building."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from traincrew.cli.commands.images import images_command

CATALOG = """environments:
  - name: mine
    images: [team/training]
    python: current
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    catalog = tmp_path / "config" / "traincrew" / "environments.yaml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(CATALOG)
    return tmp_path


def images(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(images_command, arguments)
    return result.exit_code, result.output


def test_environments_of_the_user_and_shipped_ones_are_listed() -> None:
    code, output = images("list")
    assert code == 0
    lines = output.splitlines()
    assert lines[0].split() == ["ENVIRONMENT", "PYTHON", "READY", "IMAGES"]
    assert lines[1].split() == ["mine", "current", "yes", "team/training"]
    assert any("everpeace/chainermn" in line and "on demand" in line for line in lines)


def test_pull() -> None:
    code, output = images("pull", "team/training:3")
    assert code == 0
    assert "team/training:3: environment 'mine' is there already" in output


def test_an_unknown_image_says_what_to_add() -> None:
    code, output = images("pull", "nobody/knows")
    assert code == 1
    assert "no environment is defined for it" in output


def test_prune_removes_what_no_catalog_names(machine: Path) -> None:
    assert images("prune")[1] == "nothing to remove\n"
    old = machine / "cache" / "environments" / "old-1234"
    old.mkdir(parents=True)
    code, output = images("prune")
    assert code == 0
    assert output.endswith(f"removed {old}\n")
    assert not old.exists()


def test_a_wrong_catalog_is_named(machine: Path) -> None:
    wrong = machine / "wrong.yaml"
    wrong.write_text("environments: 3\n")
    code, output = images("list", "--images", str(wrong))
    assert code == 2
    assert str(wrong) in output
