"""The embedded cluster with Kueue, as its own manifests install it; and an operator to kill."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hack.cluster import binaries
from suites import elastic_training
from suites.conftest import REQUIRE
from suites.kueue import multikueue
from suites.kueue.queue_user import Queues
from suites.operators.modules import sources

from traincrew.local.directories import default_cache

HERE = Path(__file__).parent
KUEUE = "sigs.k8s.io/kueue"


class EmbeddedQueues(Queues):
    """A user of the embedded cluster; our operator is a process of its own."""

    operator: "subprocess.Popen[bytes] | None" = None
    images: str
    """The option that names the catalog."""

    def start_operator(self) -> None:
        """Start our operator."""
        with (self.home / "operator.log").open("ab") as log:
            self.operator = subprocess.Popen(
                [
                    *("traincrew", "operator", f"--kubeconfig={self.kubeconfig}"),
                    "--leader-elect-lease-duration=3s",
                    "--leader-elect-renew-deadline=2s",
                    "--leader-elect-retry-period=1s",
                ],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill_operator(self) -> None:
        """Kill it, so that it can tidy nothing up."""
        assert self.operator is not None
        self.operator.send_signal(signal.SIGKILL)
        self.operator.wait()

    def log(self) -> str:
        """The logs of the cluster and of the operator."""
        path = self.home / "operator.log"
        return f"{super().log()}\n{path.read_text() if path.exists() else ''}"


def _require_go() -> None:
    if shutil.which("go") is None:
        text = "Kueue cannot be built here; missing: Go, on PATH"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


@contextlib.contextmanager
def running(home: Path, change: Callable[[EmbeddedQueues], None]) -> Iterator[EmbeddedQueues]:
    """Run a cluster with Kueue and our operator.

    Args:
        home: An empty directory.
        change: Changes what the manifests of Kueue have installed.
    """
    catalog = home / "images"
    (catalog / "build").mkdir(parents=True)
    (catalog / "build" / "kueue").symlink_to(binaries.build("kueue", print))
    shutil.copy(elastic_training.SCRIPT, catalog / "build")
    images = f"--images={shutil.copy(HERE / 'environments.yaml', catalog)}"
    user = EmbeddedQueues(home, default_cache(), "pod,event")
    user.images = images
    with contextlib.ExitStack() as stack:
        user.traincrew(
            "up", "--nodes=2", "--no-operator", images, f"--kubeconfig={user.kubeconfig}"
        )
        stack.callback(user.traincrew, "down")
        user.kubectl("apply", "--server-side", f"--kustomize={sources(KUEUE)}/config/default")
        change(user)
        user.until_kueue_is_up()
        user.start_operator()
        stack.callback(user.kill_operator)
        user.until_kueue_answers()
        yield user
        log = user.log()
    assert "Traceback" not in log, log


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedQueues]:
    """A cluster with Kueue and our operator; skips where Kueue cannot be built."""
    _require_go()
    with running(tmp_path_factory.mktemp("kueue"), lambda _: None) as user:
        yield user


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedQueues, EmbeddedQueues]]:
    """A cluster whose Kueue runs jobs on another one, and that one; both with our operator."""
    _require_go()
    with (
        running(tmp_path_factory.mktemp("there"), lambda _: None) as there,
        running(tmp_path_factory.mktemp("here"), multikueue.configure) as here,
    ):
        multikueue.connect(here, there)
        yield here, there
