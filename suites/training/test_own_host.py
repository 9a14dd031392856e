"""mpiexec in a pod whose hostfile has the pod itself: mpi-operator's `runLauncherAsWorker`.

No ssh server runs there: on its own host mpiexec starts processes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites import shell

from .conftest import pull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IMAGE = "traincrew/chainermn:0.1.0"
SCRIPT = """
echo pi-launcher.pi.default.svc slots=2 > /tmp/hostfile
exec mpiexec --allow-run-as-root --hostfile /tmp/hostfile -n 2 --mca plm_rsh_agent /bin/false \\
  python3 -c '
import sys
from mpi4py import MPI
text = f"rank {MPI.COMM_WORLD.allreduce(1)}\\n"
sys.stdout.write(text)  # at once, so that the lines of two ranks do not mix
'
"""


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> Iterator[shell.User]:
    pull(cache, IMAGE)
    with shell.running(shell.User(tmp_path / "user", cache, "pod,event")) as user:
        yield user


def test_mpiexec_knows_its_own_host_by_its_name(user: shell.User) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "pi"}, "publishNotReadyAddresses": True}
    user.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pi"}, "spec": spec})
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", SCRIPT],
        # As mpi-operator sets it: else names are shortened, and the host's own is known anyway.
        "env": [{"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"}],
    }
    pod = {
        "hostname": "pi-launcher",
        "subdomain": "pi",
        "restartPolicy": "Never",
        "containers": [container],
    }
    user.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pi-launcher", "labels": {"app": "pi"}},
            "spec": pod,
        }
    )

    def phase() -> str:
        found = user.get("pod", "pi-launcher")["status"].get("phase", "")
        return found if found in {"Succeeded", "Failed"} else ""

    ended = user.until("the pod has ended", phase)
    assert (ended, user.kubectl("logs", "pi-launcher").splitlines()) == (
        "Succeeded",
        ["rank 2"] * 2,
    )
