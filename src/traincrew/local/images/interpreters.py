"""Finding a Python interpreter of a requested version on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.programs import OutputTooLongError, ask_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Distributions move the wheels of "ensurepip" (WHEEL_PKG_DIR), or ship it separately. Some Pythons
# have two versions of pip there (3.8.18): the newest one of each project counts.
_PROBE = """
import glob, importlib.util, json, os, re, sys, sysconfig
spec = importlib.util.find_spec("ensurepip")
wheels = sysconfig.get_config_var("WHEEL_PKG_DIR") or ""
if not glob.glob(os.path.join(wheels, "pip-*.whl")):
    wheels = os.path.join(os.path.dirname(spec.origin), "_bundled") if spec else ""
newest = {}
def version(path):
    return [int(part) for part in re.findall("[0-9]+", os.path.basename(path))]
for path in sorted(glob.glob(os.path.join(wheels, "*.whl")) if wheels else [], key=version):
    newest[os.path.basename(path).split("-")[0]] = path
print(json.dumps({
    "executable": sys.executable,
    "prefix": sys.prefix,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "wheels": sorted(newest.values()),
}))
"""
_PROBE_SECONDS = 15.0
_MAX_OUTPUT = 1 << 20


class Interpreter(Struct, frozen=True):
    """An interpreter that was probed successfully."""

    executable: Path
    prefix: Path
    version: str
    bundled_wheels: tuple[Path, ...] = ()
    """The wheels it installs into new environments: pip (Debian ships them separately)."""

    def is_version(self, wanted: str) -> bool:
        """Return whether it is of this version: ``3.11`` or exactly ``3.11.7``."""
        return self.version == wanted or self.version.startswith(wanted + ".")


class _Answer(Struct):
    executable: str
    prefix: str
    version: str
    wheels: list[str] = []


class InterpreterNotFoundError(Exception):
    """There is no interpreter of the requested versions; the message names what to install."""


async def find_interpreter(versions: Sequence[str], downloaded: Path | None = None) -> Interpreter:
    """Find an interpreter, trying the versions in order.

    Candidates are the interpreter traincrew runs on, `downloaded`, ``PATH``, pyenv's and uv's
    directories, Homebrew and the macOS framework. Each is started once: a name alone proves little
    (pyenv puts one on ``PATH`` for every version it has ever installed).

    Args:
        versions: Such as ``3.11`` or ``3.11.7``, best first.
        downloaded: Directory of the interpreters that uv downloaded for traincrew.

    Raises:
        InterpreterNotFoundError: There is none.
    """
    for version in versions:
        for candidate in _candidates(version, downloaded):
            with contextlib.suppress(OSError, ValueError):
                found = await probe(candidate)
                if found.is_version(version):
                    return found
    wanted = " or ".join(versions)
    first = ".".join(versions[0].split(".")[:2])
    raise InterpreterNotFoundError(
        f"no Python {wanted} was found on PATH or among those of pyenv, uv and Homebrew: install "
        f'one, for example with "uv python install {first}", "pyenv install {first}", '
        f'"apt install python{first}" or "brew install python@{first}"'
    )


async def probe(executable: Path) -> Interpreter:
    """Start `executable` and query its version and paths.

    Raises:
        OSError: It cannot be started, or does not answer in time.
        ValueError: It is not a Python 3 interpreter.
    """
    command = (str(executable), "-I", "-c", _PROBE)
    try:
        found = await ask_program(command, seconds=_PROBE_SECONDS, max_output=_MAX_OUTPUT)
        answer = decode_json(found.output, type=_Answer)
    except (UndecodableError, OutputTooLongError):
        raise ValueError(f"{executable} is not a working Python 3 interpreter") from None
    return Interpreter(
        executable=Path(answer.executable),
        prefix=Path(answer.prefix),
        version=answer.version,
        bundled_wheels=tuple(map(Path, answer.wheels)),
    )


def _candidates(version: str, downloaded: Path | None = None) -> Iterator[Path]:
    minor = ".".join(version.split(".")[:2])
    name = f"python{minor}"
    seen: set[Path] = set()
    for path in _places(minor, name, downloaded):
        if path not in seen and os.access(path, os.X_OK):
            seen.add(path)
            yield path


def _glob(root: Path, pattern: str) -> list[Path]:
    """Return the matches in a directory; none if it is missing or cannot be read."""
    try:
        return list(root.glob(pattern))
    except OSError:
        return []


def _places(minor: str, name: str, downloaded: Path | None) -> Iterator[Path]:
    yield Path(sys.executable)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    # Real installations first: the program on PATH may be a slow shim of pyenv.
    for root, pattern in (
        (pyenv / "versions", f"{minor}.*"),
        (uv, f"cpython-{minor}.*"),
        *([(downloaded, f"cpython-{minor}.*")] if downloaded is not None else []),
    ):
        for directory in sorted(_glob(root, pattern), key=_natural, reverse=True):
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
