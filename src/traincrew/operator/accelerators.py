"""Reads the configuration of accelerators: the file of ``--controller_config_file``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from traincrew.plan.shared.accelerators import Accelerators, parse

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 1024 * 1024
"""Bytes of the file; a ConfigMap has room for no more."""


class _TextLoader(yaml.SafeLoader):
    """Leaves numbers, booleans and dates as they are written, for the values of variables."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class AcceleratorsError(ValueError):
    """The file cannot be used; the message names it, the field and the fix."""


def read(path: Path) -> Accelerators:
    """Read the file.

    Raises:
        AcceleratorsError: It cannot be read, is not YAML, or a field in it is wrong.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AcceleratorsError(f"cannot read {path}: {reason}") from error
    if len(data) > LARGEST:
        raise AcceleratorsError(f"{path}: larger than 1 MiB; is it the right file?")
    try:
        document = yaml.load(data, _TextLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}" if mark is not None else ""
        raise AcceleratorsError(f"{path}{where}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise AcceleratorsError(f"{path}: not YAML: {reason}") from error
    try:
        return parse(document)
    except ValueError as error:
        raise AcceleratorsError(f"{path}: {error}") from error
