"""Pods of one container, in the cluster of a user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.container_images.users import User

SECONDS = 60


class Cluster:
    """A user's cluster, and its kubectl."""

    def __init__(self, user: User) -> None:
        self.user = user
        self._kubeconfig = user.home / "kubeconfig"
        user.traincrew("up", "--no-operator", "--kubeconfig", str(self._kubeconfig))

    def kubectl(self, *words: str, content: str | None = None) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("kubectl")), *words],
            env={"KUBECONFIG": str(self._kubeconfig), "HOME": str(self.user.home)},
            input=content,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def lines(
        self, name: str, image: str, pod: dict[str, Any] | None = None, **fields: Any
    ) -> list[str]:
        """Run a pod to its end; return what it printed."""
        self._apply(name, image, pod, fields)
        ended = "--for=jsonpath={.status.phase}=Succeeded"
        self.kubectl("wait", f"pod/{name}", ended, f"--timeout={SECONDS}s")
        return self.kubectl("logs", name).splitlines()

    def start(self, name: str, image: str, **fields: Any) -> None:
        """Start a pod and wait until it is ready."""
        self._apply(name, image, None, fields)
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={SECONDS}s")

    def _apply(
        self, name: str, image: str, pod: dict[str, Any] | None, fields: dict[str, Any]
    ) -> None:
        container = {"name": "main", "image": image, **fields}
        spec = {"restartPolicy": "Never", "containers": [container], **(pod or {})}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.kubectl("apply", "-f", "-", content=json.dumps(made))

    def close(self) -> None:
        """Stop the cluster."""
        self.user.traincrew("down")
