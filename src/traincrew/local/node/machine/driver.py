"""The libraries and programs of NVIDIA's driver, which images do not have.

What belongs to the driver rather than to CUDA is NVIDIA's list (libnvidia-container,
``src/nvc_info.c``: utility and compute). Images look for it in ``/usr/local/nvidia``, where GKE and
NVIDIA's own images expect it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.local.node.machine.cdi import Edits, FileMount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["LIBRARIES", "driver_files"]

LIBRARIES = "/usr/local/nvidia/lib64"
"""Where the libraries are in a container."""
_PROGRAMS = "/usr/local/nvidia/bin"
_NAMES = (
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-allocator.so",
    "libnvidia-cfg.so",
    "libnvidia-compiler.so",
    "libnvidia-gpucomp.so",
    "libnvidia-ml.so",
    "libnvidia-nvvm.so",
    "libnvidia-nvvm70.so",
    "libnvidia-opencl.so",
    "libnvidia-pkcs11-openssl3.so",
    "libnvidia-pkcs11.so",
    "libnvidia-ptxjitcompiler.so",
    "libnvidia-sandboxutils.so",
)
_TOOLS = ("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
_DIRECTORIES = (
    "/usr/local/nvidia/lib64",
    f"/usr/lib/{os.uname().machine}-linux-gnu",
    f"/usr/lib/{os.uname().machine}-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/wsl/lib",
)


def driver_files(
    directories: Sequence[str] = _DIRECTORIES, programs: Sequence[str] = (_PROGRAMS, "/usr/bin")
) -> Edits:
    """Return what a container of an image needs of the driver; nothing where there is no driver.

    Args:
        directories: searched for `libcuda.so.1`; all libraries are those beside the first one.
        programs: searched for its programs.
    """
    place = next((Path(each) for each in directories if Path(each, "libcuda.so.1").exists()), None)
    if place is None:
        return Edits()
    mounts: dict[str, FileMount] = {}
    links: dict[str, str] = {}
    for path in _libraries(place):
        real = path.resolve()
        mounts[real.name] = FileMount(str(real), f"{LIBRARIES}/{real.name}", read_only=True)
        if path.name != real.name:
            links[f"{LIBRARIES}/{path.name}"] = real.name
    for name in _TOOLS:
        for directory in programs:
            if _is_program(real := Path(directory, name).resolve()):
                mounts[name] = FileMount(str(real), f"{_PROGRAMS}/{name}", read_only=True)
                break
    return Edits(mounts=tuple(mounts.values()), links=links, libraries=(LIBRARIES,))


def _is_program(path: Path) -> bool:
    """Whether the file is a program itself: a script that calls one finds nothing in an image."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _libraries(place: Path) -> Iterator[Path]:
    for name in _NAMES:
        for path in sorted(place.glob(f"{name}*")):
            if path.is_file():
                yield path
