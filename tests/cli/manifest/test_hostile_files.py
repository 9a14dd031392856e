"""Files of others, for every command that reads one: a refusal with file, line and reason."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from cli.programs import PROGRAM
from traincrew.cli.cluster import kubeconfig as user_kubeconfig
from traincrew.cli.commands.manifests import _values
from traincrew.cli.manifest.documents import load
from traincrew.cli.manifest.valuesfiles import load_values
from traincrew.engine import yamlreader
from traincrew.engine.config import load_config
from traincrew.engine.errors import ConfigError
from traincrew.local.images import CatalogError
from traincrew.local.images.catalog import load_catalogs
from traincrew.operator import accelerators
from yamlbombs import SEXAGESIMAL, YAML_BOMBS

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 20.0
"""For one file, on a loaded machine; unbounded readers take minutes, or all memory."""
READERS: dict[str, Callable[[Path], object]] = {
    "a kubeconfig": lambda path: load_config(str(path)),
    "a kubeconfig to merge into": user_kubeconfig._read,
    "a manifest": lambda path: load([str(path)]),
    "values of kube-openmpi": lambda path: load_values([str(path)]),
    "values of our manifests": _values,
    "an environments file": lambda path: load_catalogs([path]),
    "accelerators": accelerators.read,
}
REFUSALS = (ConfigError, click.ClickException, CatalogError, accelerators.AcceleratorsError)
NOTICED_LATER = {"aliases", "merges", "deep blocks", "no end"}
"""What is seen at an end, which libyaml and PyYAML place one line apart."""
AS_TEXT = {"a long number", "infinity"}
"""What the configuration of accelerators takes for texts."""


def refusal(read: Callable[[Path], object], path: Path) -> str:
    started = time.monotonic()
    with pytest.raises(REFUSALS) as caught:
        read(path)
    assert time.monotonic() - started < SECONDS
    error = caught.value
    return error.message if isinstance(error, click.ClickException) else str(error)


@pytest.mark.parametrize("name", YAML_BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_is_refused_with_line_and_reason(tmp_path: Path, reader: str, name: str) -> None:
    path = tmp_path / "file.yaml"
    text, line = YAML_BOMBS[name]
    path.write_text(text)
    said = refusal(READERS[reader], path)
    assert str(path) in said
    assert len(said) < 1000
    if reader == "accelerators" and name in AS_TEXT:
        return
    if reader == "an environments file" and len(text) > 1 << 18:
        assert "KiB" in said
        return
    found = re.search(rf"{re.escape(str(path))}:(\d+)[:\d]*: not valid YAML: \S", said)
    if line:
        assert found is not None, said
        assert abs(int(found[1]) - line) <= (name in NOTICED_LATER)


@pytest.mark.parametrize("reader", READERS)
def test_numbers_of_base_60_are_texts(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(SEXAGESIMAL)
    said = refusal(READERS[reader], path)
    assert str(path) in said
    assert yamlreader.read("a: 1:30\nb: !!int '1:1:1'") == {"a": "1:30", "b": "1:1:1"}


@pytest.mark.parametrize("words", [["list", "--kubeconfig"], ["run"], ["mpi"]])
@pytest.mark.parametrize("name", ["deep lists", "merges", "a list in itself"])
def test_commands_say_so_and_end(tmp_path: Path, words: list[str], name: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(YAML_BOMBS[name][0])
    done = subprocess.run(
        [PROGRAM, *words, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {1, 2}, done
    assert re.search(rf"{re.escape(str(path))}:\d+:", done.stderr)
    assert "not valid YAML: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "should not happen" not in done.stderr


def test_only_the_reader_loads_yaml() -> None:
    """PyYAML's own constructors have no limits."""
    source = Path(sys.modules["traincrew"].__path__[0])
    loading = re.compile(r"yaml\.\w*load(?:_all)?\(|yaml\.(?:compose|scan|parse)\b|SafeLoader")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if loading.search(path.read_text())
    }
    # The last one shows an example in its documentation.
    assert found == {"engine/yamlreader/scalars.py", "sdk/cluster.py"}
