"""MXJobs of training-operator v1 train on the embedded cluster, beside MxJobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.shell import User

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples/mxnet"
ENDED = re.compile(r"^  (\S+) +exit code (\d+) ", re.MULTILINE)
PODS = ("scheduler-0", "server-0", "worker-0", "worker-1")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with MXNet's environment, and without a cluster."""
    found = User(tmp_path, default_cache())
    found.traincrew("images", "pull", "traincrew/mxnet")
    yield found
    assert "Traceback" not in found.log()


def test_the_example_trains(user: User) -> None:
    printed = user.traincrew("run", "-f", str(EXAMPLES / "mxjob-v1.yaml"))

    assert dict(ENDED.findall(printed)) == {f"digits-v1-{pod}": "0" for pod in PODS}
    assert "MXJob digits-v1: Succeeded" in printed


def test_the_example_of_training_operator_trains_in_its_image(user: User) -> None:
    """The scheduler and the server have no command: the image's entrypoint is the program."""
    container: dict[str, Any] = {
        "name": "mxnet",
        "image": "kubeflow/mxnet-gpu:latest",
        "ports": [{"containerPort": 9991, "name": "mxjob-port"}],
    }
    program = "/mxnet/mxnet/example/image-classification/train_mnist.py"
    options = ["--num-epochs", "2", "--num-layers", "2", "--kv-store", "dist_device_sync"]
    trains = {**container, "command": ["python3"], "args": [program, *options]}
    specs = {
        name: {
            "replicas": 1,
            "restartPolicy": "Never",
            "template": {"spec": {"containers": [trains if name == "Worker" else container]}},
        }
        for name in ("Scheduler", "Server", "Worker")
    }
    manifest = user.home / "job.yaml"
    manifest.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "MXJob",
                "metadata": {"name": "mxnet-job"},
                "spec": {"jobMode": "MXTrain", "mxReplicaSpecs": specs},
            }
        )
    )
    printed = user.traincrew("run", "-f", str(manifest))

    assert "MXJob mxnet-job: Succeeded" in printed


def test_both_kinds_of_nearly_the_same_name_are_told_apart(
    user: User, request: pytest.FixtureRequest
) -> None:
    """`list` has both; a name that both have must come with the group."""
    user.traincrew("up", f"--kubeconfig={user.kubeconfig}")
    request.addfinalizer(lambda: user.traincrew("down"))
    newer = yaml.safe_load((EXAMPLES / "mxjob-v1.yaml").read_text())
    older = yaml.safe_load((EXAMPLES / "mxjob-local.yaml").read_text())
    for job in (newer, older):
        job["metadata"]["name"] = "same"
        user.create(job)

    listed = user.traincrew("list")
    assert "MXJob" in listed
    assert "MxJob" in listed
    said = user.traincrew("why", "mxjob/same", code=2)
    assert "mxjobs.kubeflow.org/same" in said
    assert "mxjobs.mxnet.mlkube.io/same" in said
    user.kubectl("wait", "mxjobs.kubeflow.org/same", "--for=condition=Succeeded", "--timeout=120s")
    user.kubectl("wait", "mxj/same", "--for=condition=Succeeded", "--timeout=120s")
