"""Finding a Python interpreter of a wanted version on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROBE = """
import importlib.util, json, sys
print(json.dumps({
    "executable": sys.executable,
    "prefix": sys.prefix,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "has_pip_bundle": importlib.util.find_spec("ensurepip") is not None,
}))
"""
_PROBE_SECONDS = 15.0


class Interpreter(Struct, frozen=True):
    """An interpreter that was started and answered."""

    executable: Path
    prefix: Path
    version: str
    has_pip_bundle: bool
    """Whether it can create environments (Debian ships that part separately)."""

    def is_version(self, wanted: str) -> bool:
        """Tell whether it is of the wanted version: ``3.11`` or exactly ``3.11.7``."""
        return self.version == wanted or self.version.startswith(wanted + ".")


class _Answer(Struct):
    executable: str
    prefix: str
    version: str
    has_pip_bundle: bool


class InterpreterNotFoundError(Exception):
    """No interpreter of the wanted versions; the message says what to install."""


async def find_interpreter(versions: Sequence[str]) -> Interpreter:
    """Find an interpreter, trying the wanted versions in order.

    Looked at are the interpreter traincrew runs on, ``PATH``, pyenv's and uv's directories,
    Homebrew and the macOS framework. Each candidate is started once: a name alone says little
    (pyenv puts one on ``PATH`` for every version it has ever seen).

    Raises:
        InterpreterNotFoundError: There is none.
    """
    incomplete: list[Interpreter] = []
    for version in versions:
        for candidate in _candidates(version):
            with contextlib.suppress(OSError, ValueError):
                found = await probe(candidate)
                if found.is_version(version):
                    if found.has_pip_bundle:
                        return found
                    incomplete.append(found)
    wanted = " or ".join(versions)
    first = ".".join(versions[0].split(".")[:2])
    if incomplete:
        one = incomplete[0]
        minor = ".".join(one.version.split(".")[:2])
        raise InterpreterNotFoundError(
            f"Python {one.version} ({one.executable}) cannot create environments because its "
            f'"ensurepip" is missing: install it (Debian and Ubuntu: apt install '
            f"python{minor}-venv)"
        )
    raise InterpreterNotFoundError(
        f"no Python {wanted} was found on PATH or among those of pyenv, uv and Homebrew: install "
        f'one, for example with "uv python install {first}", "pyenv install {first}", '
        f'"apt install python{first} python{first}-venv" or "brew install python@{first}"'
    )


async def probe(executable: Path) -> Interpreter:
    """Start `executable` and ask what it is.

    Raises:
        OSError: It cannot be started, or does not answer in time.
        ValueError: It is not a Python 3 interpreter.
    """
    process = await asyncio.create_subprocess_exec(
        str(executable),
        "-I",
        "-c",
        _PROBE,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except msgspec.DecodeError:
        raise ValueError(f"{executable} is not a working Python 3 interpreter") from None
    return Interpreter(
        executable=Path(answer.executable),
        prefix=Path(answer.prefix),
        version=answer.version,
        has_pip_bundle=answer.has_pip_bundle,
    )


def _candidates(version: str) -> Iterator[Path]:
    minor = ".".join(version.split(".")[:2])
    name = f"python{minor}"
    seen: set[Path] = set()
    for path in _places(minor, name):
        if path not in seen and os.access(path, os.X_OK):
            seen.add(path)
            yield path


def _places(minor: str, name: str) -> Iterator[Path]:
    yield Path(sys.executable)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    # Real installations first: what PATH has under this name may be a slow front of pyenv.
    for root, pattern in (
        (pyenv / "versions", f"{minor}.*"),
        (uv, f"cpython-{minor}.*"),
    ):
        for directory in sorted(root.glob(pattern), key=_natural, reverse=True):
            yield directory / "bin" / name
    for entry in (os.environ.get("PATH") or os.defpath).split(os.pathsep):
        if entry:
            yield Path(entry) / name
            yield Path(entry) / "python3"
    for brew in ("/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"):
        yield Path(brew) / "opt" / f"python@{minor}" / "bin" / name
    framework = Path("/Library/Frameworks/Python.framework/Versions")
    yield framework / minor / "bin" / name


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part or 0), part) for part in re.findall(r"\d+|\D+", path.name) if part.isdigit()]
