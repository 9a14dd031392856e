"""Runs the commands on a cluster."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .commands import HERE, IMAGE, Command, Group, fill
from .normalize import normal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE = 90.0
_SECONDS = 150


@dataclass(frozen=True)
class Output:
    """The result of a command, with normalized lines."""

    code: int
    out: tuple[str, ...]
    err: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return output, errors and exit code as lines."""
        return [*self.out, *(f"stderr: {line}" for line in self.err), f"exit code {self.code}"]


class KubectlRunner:
    """One kubectl on one cluster.

    Args:
        binary: kubectl.
        minor: Its version, such as `1.30`.
        kubeconfig: The administrator's kubeconfig of the cluster.
        directory: Directory for its own files.
    """

    def __init__(self, binary: Path, minor: str, kubeconfig: Path, directory: Path) -> None:
        self._binary = binary
        self._id = "k" + minor.replace(".", "")
        self._minor = int(minor.partition(".")[2])
        self._directory = directory
        self._environment = {
            "HOME": str(directory),
            "KUBECONFIG": str(kubeconfig),
            "PATH": os.environ["PATH"],
            "KUBE_EDITOR": "true",
            "COLUMNS": "400",
        }

    def run(self, group: Group) -> Iterator[tuple[Command, Output]]:
        """Run the commands of a group in a namespace that is deleted afterwards."""
        namespace = f"{self._id}-{re.sub(r'[^a-z]+', '-', group.name)}"
        values = {
            "manifests": str(self._manifests(group.name, "manifests")),
            "kustomization": str(self._manifests(group.name, "kustomization")),
            "namespace": namespace,
            "image": IMAGE,
            "id": self._id,
            "port": f"32{self._minor}0",
        }
        self._run(["create", "namespace", namespace])
        try:
            for command in group.commands:
                arguments = ["-n", namespace, *command.arguments(values)]
                if "-n" in command.words:
                    arguments = arguments[2:]
                if command.awaited is None:
                    yield command, self._output(arguments, command.stdin, values)
                else:
                    self._until(arguments, command.awaited)
        finally:
            self._run(["delete", "namespace", namespace, "--wait=false"])

    def _manifests(self, group: str, name: str) -> Path:
        """Write the manifests with names of this version's own; return their directory."""
        target = self._directory / group.replace(" ", "-") / name
        target.mkdir(parents=True)
        for source in (HERE / name).iterdir():
            text = fill(source.read_text(), {"id": self._id, "image": IMAGE})
            (target / source.name).write_text(text)
        return target

    def _run(self, arguments: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self._binary), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=self._environment,
            cwd=self._directory,
        )

    def _output(self, arguments: list[str], stdin: str, values: dict[str, str]) -> Output:
        done = self._run(arguments, stdin)
        named = {key: value for key, value in values.items() if key != "port"}
        return Output(
            done.returncode,
            tuple(normal(done.stdout, named)),
            tuple(normal(done.stderr, named)),
        )

    def _until(self, arguments: list[str], wanted: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            done = self._run(arguments)
            if done.returncode == 0 and wanted in {done.stdout.strip(), "*"}:
                return
            if time.monotonic() > deadline:
                return  # the next commands will differ and show what is wrong
            time.sleep(0.1)
