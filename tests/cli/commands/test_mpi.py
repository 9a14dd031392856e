"""`traincrew mpi`: a values file in, a manifest out, and mistakes with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from traincrew.cli.main import cli
from traincrew.cli.manifest.documents import load

VALUES = Path(__file__).parents[2] / "api" / "mpicluster" / "values"


def run(*words: object, given: str | None = None, code: int = 0) -> tuple[str, str]:
    """Run the command; return what it wrote to standard output and standard error."""
    result = CliRunner().invoke(cli, ["mpi", *map(str, words)], input=given)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def test_a_values_file_becomes_a_manifest() -> None:
    printed, said = run("-f", VALUES / "one-shot.yaml")
    document = yaml.safe_load(printed)

    assert said == ""
    assert document["metadata"] == {"name": "kube-openmpi"}
    command = document["spec"]["master"]["oneShot"]["command"]
    given = yaml.safe_load((VALUES / "one-shot.yaml").read_text())
    assert command == given["mpiMaster"]["oneShot"]["command"]
    assert "command: |\n" in printed, "as it was written"


@pytest.mark.parametrize("flag", ["-f", "--values", None])
def test_the_flag_may_be_left_out(flag: str | None) -> None:
    path = VALUES / "quickstart.yaml"
    words = [path] if flag is None else [flag, path]

    assert run(*words)[0] == run("-f", path)[0]


def test_keys_name_and_namespace(tmp_path: Path) -> None:
    printed, _ = run(
        "-f", VALUES / "quickstart.yaml", "-f", VALUES / "ssh-key.yaml",
        "--name", "mine", "--namespace", "lab",
    )  # fmt: skip
    path = tmp_path / "manifest.yaml"
    path.write_text(printed)
    secret, cluster = load([str(path)])

    assert (secret.kind, secret.name, secret.namespace) == ("Secret", "mine-ssh-key", "lab")
    assert (cluster.kind, cluster.name, cluster.namespace) == ("MPICluster", "mine", "lab")
    assert cluster.content["spec"]["ssh"]["keySecretName"] == secret.name


def test_later_files_win(tmp_path: Path) -> None:
    later = tmp_path / "later.yaml"
    later.write_text("mpiWorkers: {num: 9}\n")

    document = yaml.safe_load(run("-f", VALUES / "quickstart.yaml", "-f", later)[0])
    assert document["spec"]["workers"]["replicas"] == 9
    document = yaml.safe_load(run("-f", later, "-f", VALUES / "quickstart.yaml")[0])
    assert document["spec"]["workers"]["replicas"] == 3


def test_standard_input_and_empty_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("# nothing\n")
    text = "mpiWorkers:\n  num: 2\n"

    document = yaml.safe_load(run("-f", empty, "-f", "-", given=text)[0])
    assert document["spec"]["workers"]["replicas"] == 2
    assert yaml.safe_load(run(empty)[0])["spec"]["workers"]["replicas"] == 4


def test_every_mistake_has_a_line_with_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "values.yaml", tmp_path / "more.yaml"
    first.write_text(
        "image:\n"
        "  repository: _EDIT_ME_\n"
        "mpiWorkers:\n"
        "  nums: 4\n"
        "  num: x\n"
        "appCodesToSync:\n"
        "- name: examples\n"
        "  gitRepo: https://example.com/x.git\n"
    )
    second.write_text("mpiWorkers:\n  num: y\n")
    printed, said = run(first, second, code=1)

    assert printed == ""
    assert said.splitlines() == [
        f"traincrew: {second}:2: mpiWorkers.num: expected a whole number, got text",
        f"{first}:4: mpiWorkers.nums: there is no such key; did you mean mpiWorkers.num?",
        f"{first}:7: appCodesToSync[0].mountPath: it is required: Where the containers have it.",
        f"{first}:2: image.repository: replace _EDIT_ME_ by a value of your own",
    ]


def test_a_mistake_that_is_in_no_file_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("mpiWorkers: {num: 2}\n")
    _, said = run(path, "--name", "Mine", code=1)

    assert said.startswith("traincrew: the name of the cluster: it becomes part of host names")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", ": a values file is a mapping of keys to values"),
        ("a: 1\n---\nb: 1\n", ": 2 documents; write all values in one"),
        ("a: [\n", ":2:1: not valid YAML"),
        ("image: {}\nimage: {}\n", ":2:1: not valid YAML: the key 'image' is there twice"),
    ],
)
def test_what_is_no_values_file(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(text)
    _, said = run(path, code=2)

    assert said.startswith(f"traincrew: {path}{says}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no values file: write traincrew mpi -f values.yaml" in run(code=2)[1]
    missing = tmp_path / "missing.yaml"
    assert f"cannot read {missing}: no such file" in run("-f", missing, code=2)[1]
