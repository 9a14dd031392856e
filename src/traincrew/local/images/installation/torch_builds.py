"""The build of PyTorch that an environment gets: without CUDA where there is no GPU.

PyPI's builds for Linux include CUDA, gigabytes that are useless there. The builds without it are on
PyTorch's own index, and other indexes may have them as a local version (``2.13.0+cpu``).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.local.images.installation.pip_settings import pip_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["REFUSED", "Choice", "choices", "variant"]

REFUSED = "PyTorch without CUDA is not available here, so the build with CUDA is installed"

_TORCH = re.compile(r"\s*torch\s*==\s*([0-9][0-9.]*)\s*(;.*)?")
_INDEX_ARGUMENTS = ("--index", "--default-index", "--extra-index-url", "-i", "--no-index", "-f")
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_TORCH_BACKEND")
# Device files of NVIDIA's and AMD's drivers, and of Windows' for WSL.
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


class Choice(Struct, frozen=True):
    """Arguments for uv and requirements that may or may not be satisfiable."""

    arguments: tuple[str, ...]
    requirements: tuple[str, ...]


def variant(requirements: Sequence[str]) -> str:
    """Return the variant of a build besides its recipe: "cpu" for PyTorch without a GPU."""
    return "cpu" if _wants_cpu(requirements) else ""


def choices(requirements: tuple[str, ...], arguments: Sequence[str]) -> Iterator[Choice]:
    """Yield the choices to try before the unchanged requirements."""
    if not _wants_cpu(requirements):
        return
    settings = pip_settings(os.environ)
    own_index = any(argument.startswith(_INDEX_ARGUMENTS) for argument in arguments)
    own_index |= any(name in os.environ for name in _INDEX_VARIABLES)
    own_index |= any(name in settings for name in ("index-url", "extra-index-url", "no-index"))
    if own_index:
        # A user who configures an index wants no packages from another one.
        local = (_TORCH.sub(r"torch==\1+cpu\2", one, count=1) for one in requirements)
        yield Choice((), tuple(local))
    else:
        yield Choice(("--torch-backend", "cpu"), requirements)


def _wants_cpu(requirements: Sequence[str]) -> bool:
    return (
        sys.platform == "linux"
        and any(_TORCH.fullmatch(one) for one in requirements)
        and not any(Path(device).exists() for device in _DEVICES)
    )
