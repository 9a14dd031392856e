"""Changes of upstream's test suites, so that they judge traincrew's operator instead of their own.

Each directory has a ``changes.toml`` (Go package and directory of the tests, files that are added,
texts that are replaced, with the reason) and Go files. Nothing of upstream is kept here: the
sources are those of the Go module.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["applied", "copy_sources", "files"]

HERE = Path(__file__).parent
_NAME = "changes.toml"
_PACKAGE = re.compile(r"^package \w+$", re.MULTILINE)


def files(name: str) -> list[Path]:
    """Return the files on which changes depend; none for an empty name."""
    return [HERE / name / _NAME, *_added(name)] if name else []


def copy_sources(source: Path, target: Path) -> None:
    """Copy sources of a Go module so that they can be changed."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for each in (target, *target.rglob("*")):
        if each.is_dir():
            each.chmod(0o755)  # those of the module cache cannot be written


def applied(name: str, module: Path, sources: tuple[str, Path], directory: Path) -> Path:
    """Copy a module and change it.

    Args:
        name: A directory beside this file.
        module: The directory of the go.mod with which the module is built.
        sources: The module's path, and the directory of its sources.
        directory: Where to.

    Returns:
        A go.mod for the option ``-modfile``.

    Raises:
        ValueError: A text that is to be replaced is not there exactly once.
    """
    path, source = sources
    copied = directory / "source"
    copy_sources(source, copied)
    change = _read(name)
    tests = copied / change["directory"]
    for file in _added(name):
        text = _PACKAGE.sub(f"package {change['package']}", file.read_text(), count=1)
        (tests / f"traincrew_{file.stem}_test.go").write_text(text)
    for each in change["replace"]:
        changed = tests / each["file"]
        text = changed.read_text()
        if text.count(each["text"]) != 1:
            raise ValueError(f"{name}: {each['file']} has not once {each['text']!r}")
        changed.write_text(text.replace(each["text"], each["by"]))
    for name_of_file in ("go.mod", "go.sum"):
        shutil.copyfile(module / name_of_file, directory / name_of_file)
    with (directory / "go.mod").open("a") as written:
        written.write(f"\nreplace {path} => {copied}\n")
    return directory / "go.mod"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name / _NAME).read_text())


def _added(name: str) -> list[Path]:
    return [(HERE / name / each).resolve() for each in _read(name)["add"]]
