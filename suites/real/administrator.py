"""Someone who may do everything on a real cluster, where our operator is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from hack.cluster import published
from suites.operators import modules
from suites.shell import User

from traincrew.local.directories import default_cache

from .install_support import NAME, SECONDS

if TYPE_CHECKING:
    from hack.cluster import RealCluster

OPERATOR = (f"--namespace={NAME}", "--selector", f"app={NAME}")
"""Selects the pods of our operator."""


class Administrator(User):
    """Someone who may do everything on a real cluster.

    Args:
        cluster: The cluster.
        home: Of logs.
    """

    def __init__(self, cluster: RealCluster, home: Path) -> None:
        super().__init__(home, default_cache())
        self.cluster = cluster
        self.kubeconfig = cluster.kubeconfig
        self.environment["KUBECONFIG"] = str(cluster.kubeconfig)
        self._applied: list[str] = []
        self._programs = _programs()

    def apply_published(self, *manifest: str) -> None:
        for option in manifest:
            name, _, path = option.partition("=")
            kustomized = name == "--kustomize"
            text = self.kubectl("kustomize", path) if kustomized else Path(path).read_text()
            self._applied.append(text)
            published.apply(self.cluster, text, self._programs)

    def remove_published(self) -> None:
        """Delete what was applied, the last first."""
        wait = f"--timeout={SECONDS:g}s"
        for text in reversed(self._applied):
            self.kubectl("delete", "-f", "-", "--ignore-not-found", wait, given=text)

    def log(self) -> str:
        return self.does("kubectl", "logs", *OPERATOR, "--tail=-1", "--prefix", code=None)


def _programs() -> dict[str, published.Program]:
    """The programs of other projects, by the images that their catalog has them for."""
    catalog = yaml.safe_load((modules.HERE / "environments.yaml").read_text())
    found: dict[str, published.Program] = {}
    for each in catalog["environments"]:
        for inside, source in each.get("files", {}).items():
            if each.get("command") == [inside]:
                program = published.Program(Path(source).name, inside.removeprefix("/"))
                found |= dict.fromkeys(each["images"], program)
    return found
