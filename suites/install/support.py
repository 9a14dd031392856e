"""What the tests of the installation share: running programs, and telling objects apart."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "traincrew"
KUBERNETES = "1.36.3"
"""Whose capabilities Helm assumes where it talks to no cluster."""

Document = dict[str, Any]
Run = Callable[..., subprocess.CompletedProcess[str]]


def load_all(text: str) -> list[Document]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def by_name(documents: list[Document]) -> dict[tuple[str, str, str], Document]:
    """Objects by kind, namespace and name; two of the same name are a mistake."""
    found = {}
    for document in documents:
        metadata = document["metadata"]
        key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, key
        found[key] = document
    return found


def committed(pattern: str = "deploy/*.yaml") -> list[Document]:
    """The objects of files in the repository."""
    return [found for path in sorted(ROOT.glob(pattern)) for found in load_all(path.read_text())]


def runner(program: Path) -> Run:
    """Runs a program; fails when it exits with another code than expected."""

    def run(
        *arguments: str, code: int | None = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [program, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **options,
        )
        said = f"{program.name} {' '.join(arguments)}: {result.returncode}\n{result.stderr}"
        assert code is None or result.returncode == code, said
        return result

    return run
