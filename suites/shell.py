"""Someone at a shell with traincrew and kubectl, as suites play them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Document = dict[str, Any]
T = TypeVar("T")


class User:
    """Runs commands in a home of its own.

    Args:
        home: Of the clusters' state, of logs and of the kubeconfig.
        cache: Of environments.
        shown: What `kubectl get` is asked for when a wait fails.
    """

    timeout = 240.0
    """Seconds that a command may take."""

    def __init__(self, home: Path, cache: Path, shown: str = "pod,event") -> None:
        self.home, self._shown = home, shown
        self.kubeconfig = home / "kubeconfig"
        programs = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TRAINCREW_HOME": str(home / "clusters"),
            "TRAINCREW_CACHE": str(cache),
            "XDG_CONFIG_HOME": str(home / "config"),
            "KUBECONFIG": str(self.kubeconfig),
        }

    def does(self, *command: str, code: int | None = 0, given: str | None = None) -> str:
        """Run a command that has to end with `code`, if any; what it printed, both streams."""
        result = subprocess.run(
            command,
            env=self.environment,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        if code is not None:
            assert result.returncode == code, f"{' '.join(command)}\n{result.stdout}\n{self.log()}"
        return result.stdout

    def log(self) -> str:
        """What the processes of clusters have logged, of those that still run."""
        # Not "**": nodes make and delete directories of pods meanwhile, under which it would fall.
        texts = []
        for path in self.home.glob("clusters/clusters/*/daemon.log"):
            with contextlib.suppress(FileNotFoundError):  # `traincrew down` deletes it
                texts.append(path.read_text())
        return "\n".join(texts)

    def traincrew(self, *words: str, code: int | None = 0, given: str | None = None) -> str:
        """Run `traincrew`."""
        return self.does("traincrew", *words, code=code, given=given)

    def kubectl(self, *words: str, code: int | None = 0, given: str | None = None) -> str:
        """Run `kubectl`."""
        return self.does("kubectl", *words, code=code, given=given)

    def get(self, *words: str) -> Document:
        """An object, or a list of them."""
        found: Document = json.loads(self.kubectl("get", *words, "-o", "json"))
        return found

    def create(self, document: Document) -> None:
        """Create an object."""
        self.kubectl("create", "-f", "-", given=json.dumps(document))

    def apply(self, document: Document) -> None:
        """Create an object, or change it."""
        self.kubectl("apply", "-f", "-", given=json.dumps(document))

    def apply_published(self, *manifest: str) -> None:
        """Create or change what manifests have that another project has published.

        Args:
            manifest: Options of kubectl that name them: ``--filename=…`` or ``--kustomize=…``.
        """
        self.kubectl("apply", "--server-side", *manifest)

    def until(
        self,
        what: str,
        condition: Callable[[], T],
        seconds: float = 300,
        *,
        every: float = 0.2,
    ) -> T:
        """Wait until a condition gives something true, looking every so many seconds; return it.

        Raises:
            AssertionError: It never did; the message has the cluster's state.
        """
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds:.0f} s: {what}\n{self.state()}")
            time.sleep(every)
        return found

    def state(self) -> str:
        """What there is to know when something has not happened."""
        objects = self.kubectl("get", self._shown, "-o", "wide", code=None)
        return f"{objects}\n{self.log()}"


AnyUser = TypeVar("AnyUser", bound=User)


@contextlib.contextmanager
def running(user: AnyUser, *options: str) -> Iterator[AnyUser]:
    """Run a user's cluster; it must log no traceback, and the user's home is removed in the end.

    Args:
        user: The user.
        options: Of `traincrew up`.
    """
    user.traincrew("up", "--kubeconfig", str(user.kubeconfig), *options)
    yield user
    log = user.log()
    user.traincrew("down")
    assert "Traceback" not in log, log
    shutil.rmtree(user.home)
