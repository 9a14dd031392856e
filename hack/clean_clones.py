"""Run the README's commands from clean clones, as different people on different machines would.

    sudo python3 -m hack.clean_clones [--commands "make run"] [--output FILE] [NAME...]

Needs Linux and root, to switch to an unprivileged user, into a container and into a network
namespace. Every run has a clone, a home and caches of its own, so that nothing is reused from
earlier runs, and all of it is removed at the end. The last lines of each command are printed as
Markdown.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hack.containers import HOME, PROJECT, containers, copy_project

from hack import pythons

if TYPE_CHECKING:
    from collections.abc import Callable

USER = 23456
PATH = "/usr/local/bin:/usr/bin:/bin"
LINES = 25
_SECONDS = 1800


class Outcome(NamedTuple):
    """The result of a command: exit code, output, and duration in seconds."""

    code: int
    output: str
    seconds: float


class Place:
    """A clone with a home directory.

    Args:
        directory: Where both are created.
        prefix: Words before each command, to change user or namespace.
        owner: Owner of the files.
        variables: Added to the environment.
    """

    def __init__(
        self,
        directory: Path,
        prefix: tuple[str, ...] = (),
        owner: int = 0,
        variables: dict[str, str] | None = None,
    ) -> None:
        self.prefix = prefix
        self.clone = directory / "clone"
        home = directory / "home"
        home.mkdir(parents=True)
        source = f"file://{PROJECT}"
        subprocess.run(["git", "clone", "--quiet", source, self.clone], check=True)
        for path in (home, self.clone, *self.clone.rglob("*")):
            os.chown(path, owner, owner, follow_symlinks=False)
        kept = ("PIP_", "UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        own = {name: value for name, value in os.environ.items() if name.upper().startswith(kept)}
        self.environment = {**own, "HOME": str(home), "PATH": PATH, **(variables or {})}

    def run(self, command: str) -> Outcome:
        """Run a shell command in the clone."""
        started = time.monotonic()
        result = subprocess.run(
            [*self.prefix, "sh", "-c", command],
            cwd=self.clone,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        return Outcome(result.returncode, result.stdout, time.monotonic() - started)


def _plain(directory: Path, command: str) -> Outcome:
    return Place(directory).run(command)


def _user(directory: Path, command: str) -> Outcome:
    become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    return Place(directory, become, USER).run(command)


def _space(directory: Path, command: str) -> Outcome:
    return Place(directory / "a path with a space").run(command)


def _with_python(interpreter: pythons.Interpreter | None, directory: Path, command: str) -> Outcome:
    if interpreter is None:
        return Outcome(1, "no usable Python was found", 0)
    outcome = Place(directory).run(f"{command} PYTHON={shlex.quote(str(interpreter.path))}")
    version = ".".join(map(str, interpreter.version))
    return outcome._replace(output=f"{outcome.output}(Python {version})\n")


def _interpreters() -> list[pythons.Interpreter]:
    """Return the interpreters of this machine, oldest first."""
    found = map(pythons.probe, pythons.candidates(os.environ, Path.home()))
    return sorted({one for one in found if one is not None}, key=lambda one: one.version)


def _oldest(directory: Path, command: str) -> Outcome:
    return _with_python(next(iter(_interpreters()), None), directory, command)


def _newest(directory: Path, command: str) -> Outcome:
    return _with_python(next(reversed(_interpreters()), None), directory, command)


def _container(directory: Path, command: str) -> Outcome:
    started = time.monotonic()
    with containers(directory / "bundle") as machine:
        copy_project(machine.root / HOME.lstrip("/") / "clone", USER)
        result = machine.run(
            command, uid=USER, filtered=False, cwd=f"{HOME}/clone", timeout=_SECONDS
        )
    return Outcome(result.returncode, result.stdout, time.monotonic() - started)


def _offline(directory: Path, command: str) -> Outcome:
    place = Place(directory)
    first = place.run(command)
    if first.code != 0:
        return first
    place.prefix = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    return place.run(command)


WAYS: dict[str, tuple[str, Callable[[Path, str], Outcome]]] = {
    "root": ("as root", _plain),
    "user": ("as a new user", _user),
    "space": ("in a path with a space", _space),
    "oldest": ("on the oldest Python", _oldest),
    "newest": ("on the newest Python", _newest),
    "container": ("in an unprivileged container", _container),
    "offline": ("without a network after the first time", _offline),
}


def main() -> int:
    """Run everything; exit code 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--commands", nargs="+", default=["make run", "make test"])
    parser.add_argument("--output", type=Path, help="also write there")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(WAYS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    failed = False
    text = ""
    for name in arguments.names or WAYS:
        title, run = WAYS[name]
        for command in arguments.commands:
            # Not below /tmp, which is private to each pod.
            directory = Path(tempfile.mkdtemp(prefix="clean-clone-", dir="/var/tmp"))
            directory.chmod(0o755)
            try:
                outcome = run(directory, command)
            finally:
                shutil.rmtree(directory)
            failed |= outcome.code != 0
            tail = "\n".join(outcome.output.splitlines()[-LINES:])
            part = (
                f"## `{command}` {title}: exit code {outcome.code}, {outcome.seconds:.0f} s\n\n"
                f"```\n{tail}\n```\n\n"
            )
            print(part, flush=True)
            text += part
            if arguments.output is not None:
                arguments.output.write_text(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
