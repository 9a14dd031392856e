"""`traincrew manifests`, as typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from traincrew.api.kinds import INSTALLED
from traincrew.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["manifests", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_everything_is_printed() -> None:
    code, out, _ = run()
    kinds = [document["kind"] for document in yaml.load_all(out, yaml.CSafeLoader)]

    assert code == 0
    definitions = ["CustomResourceDefinition"] * len(INSTALLED)
    assert kinds[: len(INSTALLED) + 1] == [*definitions, "Namespace"]
    assert "Deployment" in kinds


def test_definitions_only() -> None:
    _, out, _ = run("--crds-only")

    assert [document["metadata"]["name"] for document in yaml.load_all(out, yaml.CSafeLoader)] == [
        f"{kind.plural}.{kind.group}" for kind in INSTALLED
    ]


def test_values_and_namespace(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 1\nimage: {tag: mine}\n")
    _, out, _ = run("--values", str(tmp_path / "values.yaml"), "--namespace", "ops")
    (deployment,) = [
        document
        for document in yaml.load_all(out, yaml.CSafeLoader)
        if document["kind"] == "Deployment"
    ]

    assert deployment["metadata"]["namespace"] == "ops"
    assert deployment["spec"]["replicas"] == 1
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "traincrew/traincrew:mine"


@pytest.mark.parametrize("layout", ["kustomize", "helm"])
def test_trees_of_files(tmp_path: Path, layout: str) -> None:
    code, _, err = run("--format", layout, "--directory", str(tmp_path / "new"))

    assert code == 0
    for line in err.splitlines():
        assert line.startswith(str(tmp_path))
    assert len(err.splitlines()) == len([p for p in tmp_path.rglob("*") if p.is_file()])


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["--format", "helm"], None, "it needs --directory DIR"),
        (["--format", "kustomize", "--directory", "x", "--crds-only"], None, "no --crds-only"),
        (["--format", "helm", "--directory", "x", "--namespace", "y"], None, "helm install"),
        (["--values", "values.yaml"], None, "cannot read values.yaml: no such file"),
        (["--values", "values.yaml"], "a: [", "values.yaml:2: not valid YAML: "),
        (["--values", "values.yaml"], "replicas: many", "values.yaml: Expected `int`"),
        (["--values", "values.yaml"], "podLabels: {app: x}", "values.yaml: podLabels: the"),
    ],
)
def test_mistakes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    text: str | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "values.yaml").write_text(text)
    code, _, err = run(*arguments)

    assert code != 0
    assert message in err


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("--directory", str(tmp_path / "file" / "below"))

    assert code != 0
    assert "cannot write" in err
