"""Reads the configuration of accelerators: the file of ``--controller_config_file``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine import yamlreader
from traincrew.plan.shared.templates.accelerators import Accelerators, parse

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 1024 * 1024
"""Bytes of the file; a ConfigMap has room for no more."""


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
        document = yamlreader.read(data, as_text=True)
    except yamlreader.YamlError as error:
        raise AcceleratorsError(yamlreader.explain(str(path), error)) from error
    try:
        return parse(document)
    except ValueError as error:
        raise AcceleratorsError(f"{path}: {error}") from error
