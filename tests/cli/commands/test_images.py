"""`traincrew images` with a catalog of environments that need no building."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from local.images.support import StandIn, stand_in_for_uv
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


def test_the_list_is_wrapped_for_a_terminal(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.cli.display.folding.columns_of", lambda _: 80)
    lines = images("list")[1].splitlines()
    assert max(len(line) for line in lines if str(machine) not in line) < 80
    assert "  kubeflow/pytorch-elastic-example-echo," in "\n".join(lines)


def test_pull() -> None:
    code, output = images("pull", "team/training:3")
    assert code == 0
    assert "team/training:3: environment 'mine' is there already" in output


def test_the_command_that_an_unknown_image_is_told_works(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pasted as it is, from a directory that has such a file."""
    stand_in = stand_in_for_uv(machine / "bin", monkeypatch)
    code, output = images("pull", "localhost:1/t:7")
    assert code == 1
    advice = output.strip().partition("define one: traincrew images ")[2]
    assert advice == "map localhost:1/t:7 --python 3.11 --requirements requirements.txt"
    (machine / "requirements.txt").write_text("# mine\none==1  # as before\n\ntwo>=2\n")
    monkeypatch.chdir(machine)
    code, output = images(*advice.replace("3.11", "3.99").split())
    assert output.splitlines() == [
        "localhost:1/t:7: Python 3.99 with 2 requirements (environment 'localhost-1-t-7')",
        "a pod builds it when it first needs it; now: traincrew images pull localhost:1/t:7",
        "to remove it: traincrew images unmap localhost:1/t:7",
    ]
    assert code == 0
    assert images("list")[1].splitlines()[1].split() == [
        "localhost-1-t-7", "3.99", "on", "demand", "localhost:1/t:7",
    ]  # fmt: skip
    assert images("pull", "localhost:1/t:7")[0] == 0
    assert stand_in.arguments()[-1].endswith("-- one==1 two>=2")

    assert images("map", "localhost:1/t:7")[1].startswith(
        "localhost:1/t:7: the Python of traincrew (env"
    )
    assert images("list")[1].count("localhost:1/t:7") == 1
    assert images("unmap", "localhost:1/t:7") == (0, "localhost:1/t:7: not mapped any more\n")
    code, output = images("unmap", "localhost:1/t:7")
    assert code == 2
    assert "there is no mapping of 'localhost:1/t:7'; there is none" in output
    assert images("pull", "localhost:1/t:7")[0] == 1
    # What users write themselves stays as they wrote it.
    assert (machine / "config" / "traincrew" / "environments.yaml").read_text() == CATALOG


def test_a_mapping_with_a_mistake_changes_nothing(machine: Path) -> None:
    assert images("map", "me/a.b")[0] == 0
    assert images("map", "me/a-b")[0] == 0
    known = images("list")[1]
    assert "me-a-b-2" in known
    options = machine / "options.txt"
    options.write_text("one\n--index-url https://example.com\n")
    for words, said in (
        (["Me/Train"], "Train"),
        (["me/x", "--python", "three"], 'python: "three": must be "current"'),
        (["me/x", "--requirements", str(options)], f"{options}:2: '--index-url"),
        (["me/x", "--requirements", str(machine / "none.txt")], "does not exist"),
    ):
        code, output = images("map", *words)
        assert code == 2
        assert said in output
    assert images("list")[1] == known


def test_a_python_that_is_there_is_used_as_it_is(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = machine / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.chdir(machine)
    code, output = images("map", "me/train", "--python", "venv/bin/python")
    assert code == 0
    assert output.splitlines() == [
        "me/train: Python venv/bin/python (environment 'me-train')",
        "to remove it: traincrew images unmap me/train",
    ]
    monkeypatch.chdir("/")
    assert images("pull", "me/train")[0] == 0
    assert images("list")[1].splitlines()[1].split() == ["me-train", str(python), "yes", "me/train"]
    python.unlink()
    assert images("list")[1].splitlines()[1].split()[2] == "missing"
    code, output = images("map", "me/other", "--python", str(python))
    assert (code, f"python: {python} does not exist" in output) == (2, True)
    code, output = images("map", "me/other", "--python", f"/{'h' * 300}")
    assert (code, "hhh does not exist" in output) == (2, True)


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


BUILT = """environments:
- {name: one, images: [me/one], python: "3.99", requirements: [one==1]}
- {name: same, images: [me/same], python: "3.99", requirements: [one==1], env: {A: b}}
- {name: two, images: [me/two], python: "3.99", requirements: [two==2]}
- {name: shell, images: [me/shell]}
"""
INSTALL = """\
top="${4%/bin/python}"
mkdir -p "$top/lib"
for number in $(seq 10 39); do echo $number > "$top/lib/file$number"; done
"""


@pytest.fixture
def built(machine: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Stand-ins that build, and two built environments, one of which two entries share."""
    stand_in = stand_in_for_uv(machine / "bin", monkeypatch)
    stand_in.pip(INSTALL)
    (machine / "config/traincrew/environments.yaml").write_text(BUILT)
    code, output = images("pull", "me/one", "me/two")
    assert code == 0, output
    return stand_in


def harm(machine: Path, name: str) -> Path:
    """Damage the environment that has been built for an entry; return its directory."""
    (tree,) = (
        path.parent
        for path in (machine / "cache/environments").glob("*/traincrew-environment.json")
        if f'"name": "{name}"' in path.read_text()
    )
    (tree / "lib").chmod(0o755)
    for number in range(10, 34):
        (tree / f"lib/file{number}").unlink()
    (tree / "lib/file35").chmod(0o644)
    (tree / "lib/file35").write_text("36\n")
    (tree / "lib/evil\x1b[31m").touch()
    (tree / "lib").chmod(0o555)
    return tree


@pytest.mark.usefixtures("built")
def test_verify_lists_what_has_changed(machine: Path) -> None:
    code, output = images("verify")
    assert code == 0
    assert [line.partition(" (")[0] for line in output.splitlines()] == [
        "one, same: unchanged since it was built",
        "two: unchanged since it was built",
    ]
    tree = harm(machine, "one")
    code, output = images("verify")
    assert code == 1
    lines = output.splitlines()
    assert lines[0] == f"one, same: damaged ({tree})"
    assert lines[1] == r"  added    lib/evil\x1b[31m"
    assert lines[2] == "  missing  lib/file10"
    assert lines[21] == "  and 6 more: 1 changed, 5 missing"
    assert lines[22].startswith("two: unchanged since it was built (")
    assert lines[23] == (
        "traincrew: 1 environment(s) not as they were built: the next pull builds them anew, "
        "and so does `traincrew images verify --repair`"
    )
    assert images("verify", "same")[0] == 1
    assert images("verify", "two")[0] == 0


def test_verify_repairs(machine: Path, built: StandIn) -> None:
    tree = harm(machine, "one")
    built.pip("exit 1")
    code, output = images("verify", "--repair")
    assert code == 1
    assert "one, same: uv could not install the requirements" in output
    assert "traincrew: 1 environment(s) could not be repaired" in output
    built.pip(INSTALL)
    code, output = images("verify", "--repair")
    assert code == 0
    assert f"one, same: built anew ({tree}-1)" in output
    assert images("verify")[0] == 0
    # A pod may still be using the old one, so it stays until somebody decides.
    code, output = images("prune")
    assert output == f"removed {tree}\n"
    assert images("verify", "one")[1].endswith(f"({tree}-1)\n")


@pytest.mark.usefixtures("built")
def test_verify_of_what_is_not_there() -> None:
    code, output = images("verify", "three")
    assert code == 2
    assert 'there is no environment "three"; there are: alpine, chainer, ' in output
    assert images("verify", "shell") == (0, "shell: not built by traincrew\n")
    assert images("prune", "--all")[0] == 0
    assert images("verify") == (0, "no environment is built\n")


@pytest.mark.usefixtures("built")
def test_prune_removes_all_generations(machine: Path) -> None:
    harm(machine, "two")
    assert images("verify", "--repair")[0] == 0
    assert len(list((machine / "cache/environments").glob("*/"))) == 3
    assert images("prune", "--all")[0] == 0
    assert not list((machine / "cache/environments").glob("*/"))
    assert not list((machine / "cache/environments").glob("*.seal"))


@pytest.mark.usefixtures("built")
def test_a_pull_says_that_it_repairs(machine: Path) -> None:
    harm(machine, "two")
    code, output = images("pull", "me/two")
    assert code == 0
    assert (
        'me/two: environment "two" is damaged, so it is built anew: 1 changed (lib/file35)'
        in output
    )
    assert "me/two: environment 'two' is ready" in output
