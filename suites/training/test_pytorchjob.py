"""PyTorchJobs train on the embedded cluster: a master with workers, and groups that grow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.shell import User, running

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples/pytorch/pytorchjob.yaml"
ACCURACY = re.compile(r"validation accuracy: (0\.\d+)$", re.MULTILINE)
ENDED = re.compile(r"^  (\S+) +exit code (\d+) ", re.MULTILINE)
TRAINING = ["torchrun", "/examples/train_digits.py"]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with PyTorch's environment, and without a cluster."""
    found = User(tmp_path, default_cache())
    found.traincrew("images", "pull", "pytorch/pytorch")
    yield found
    assert "Traceback" not in found.log()


def elastic(directory: str, *command: str, **policy: Any) -> dict[str, Any]:
    """A manifest of an elastic group of one worker with a volume for checkpoints."""
    mount = {"name": "checkpoints", "mountPath": "/checkpoints"}
    container = {
        "name": "pytorch",
        "image": "pytorch/pytorch",
        "command": list(command),
        "volumeMounts": [mount],
    }
    volume = {"name": "checkpoints", "hostPath": {"path": directory}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    worker = {"replicas": 1, "restartPolicy": "ExitCode", "template": template}
    conf = [{"key": "last_call_timeout", "value": "2"}]
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits"},
        "spec": {
            "nprocPerNode": "1",
            "elasticPolicy": {"rdzvConf": conf, "maxRestarts": 20, **policy},
            "pytorchReplicaSpecs": {"Worker": worker},
        },
    }


def test_the_example_trains(user: User) -> None:
    printed = user.traincrew("run", "-f", str(EXAMPLE))

    assert "digits-master-0 | 4 process(es), from epoch 0 on" in printed
    (accuracy,) = ACCURACY.findall(printed)
    assert float(accuracy) > 0.85
    assert dict(ENDED.findall(printed)) == {"digits-master-0": "0", "digits-worker-0": "0"}


def test_a_program_that_fails_ends_the_run_with_its_exit_code(user: User) -> None:
    job = yaml.safe_load(EXAMPLE.read_text())
    for each in job["spec"]["pytorchReplicaSpecs"].values():
        each["restartPolicy"] = "ExitCode"
        each["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "exit 7"]
    manifest = user.home / "job.yaml"
    manifest.write_text(yaml.safe_dump(job))
    printed = user.traincrew("run", "-f", str(manifest), code=7)

    assert 'job "digits" is failing because "Master" replica(s) failed.' in printed


def test_an_elastic_group_grows(user: User) -> None:
    directory = user.home / "checkpoints"
    directory.mkdir()
    command = [*TRAINING, "--epochs=1000", "--pause=0.2"]
    with running(user, "--nodes=2"):
        user.create(elastic(str(directory), *command, minReplicas=1, maxReplicas=2))
        begins(user, "1 process(es), from epoch 0 on")
        user.kubectl("scale", "pytorchjob/digits", "--replicas=2")
        begins(user, "2 process(es), from epoch ")

        job = user.get("pytorchjob", "digits")
        assert job["status"]["replicaStatuses"]["Worker"]["active"] == 2
        assert job["status"]["restarts"] == 0
        user.kubectl("delete", "pytorchjob/digits", "--wait=false")


def begins(user: User, line: str) -> None:
    """Wait until training begins with this line."""
    first = ("logs", "digits-worker-0", "--tail=-1")
    user.until(line, lambda: line in user.kubectl(*first, code=None))
