"""Jobs of every kind in queues of the real Kueue, on a real cluster."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hack.cluster import Options, RealCluster, kueue
from suites.conftest import require_real_cluster
from suites.kueue.queue_cases import QueueCases
from suites.kueue.queue_user import KINDS, Queues

from hack import images

from .administrator import OPERATOR, Administrator
from .faults.jobs import IMAGE
from .install_support import DEPLOY, NAME
from .install_support import User as InstallUser

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(600)
IMAGES = ("operator", "helper", "busybox")
ALL = os.environ.get("TRAINCREW_QUEUE_KINDS") == "all"
"""Whether each case for all kinds runs with each: by hand, since it takes ten minutes."""
CHOSEN = {
    "test_a_queue_for_one_job_runs_three_one_after_the_other": ("MPICluster",),
    "test_a_higher_priority_preempts_and_the_victim_returns": ("ChainerJob",),
    "test_a_topology_places_the_pods_of_a_set_together": ("ElasticJob",),
    "test_a_job_is_deleted_in_every_state": ("MxJob",),
}
"""Else kinds of each of these: all four are there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each case that is for all kinds with those that were chosen for it."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS if ALL else CHOSEN[metafunc.function.__name__])


class RealQueues(Administrator, Queues):
    """A user of the real cluster; our operator is installed as users install it."""

    image = IMAGE

    def start_operator(self) -> None:
        # A webhook of Kueue sees each Deployment; while it does not answer, none can be changed.
        self.until("the operator is started", lambda: "patched" in self._scale(2), 120)
        InstallUser(self.cluster).rolled_out()

    def kill_operator(self) -> None:
        assert "patched" in self._scale(0)
        self.kubectl("delete", "pods", *OPERATOR, "--force", "--grace-period=0")
        self.until("no operator runs", lambda: not self.get("pods", *OPERATOR)["items"], 30)

    def _scale(self, replicas: int) -> str:
        patch = json.dumps({"spec": {"replicas": replicas}})
        words = ("patch", "deployment", NAME, f"--namespace={NAME}", "-p", patch)
        return self.kubectl(*words, code=None)


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    """A user of a cluster with Kueue and our operator."""
    require_real_cluster()
    archives = [images.build(name) for name in IMAGES]
    with RealCluster(Options("kueue", nodes=2), print) as cluster:
        cluster.load_images(archives)
        cluster.kubectl("create", "-f", str(DEPLOY))
        kueue.install(cluster, print)
        user = RealQueues(cluster, tmp_path_factory.mktemp("kueue"))
        user.start_operator()
        user.until_kueue_answers()
        yield user
        log = user.log()
    assert "Traceback" not in log, log


class TestQueues(QueueCases):
    """All cases."""

    def test_why_says_how_many_are_before_a_job(self, queues: Queues) -> None:
        """By Kueue's visibility API, which its manifests serve."""
        queues.cluster_queue("line", "200m")
        names = [f"in-line-{number}" for number in range(3)]
        for name in names:
            queues.create(queues.job("ElasticJob", name, "line", "sleep 600"))
            if name == names[0]:
                queues.until_holds("ElasticJob", name, "Running")
        for name, words in zip(names[1:], ("first in line", "; 1 are before it"), strict=True):
            queues.until(
                f"why says the place of {name}",
                lambda name=name, words=words: words in queues.traincrew("why", name, code=None),  # type: ignore[misc]
                60,
            )
        for name in reversed(names):
            queues.delete("ElasticJob", name)
