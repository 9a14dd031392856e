"""TrainJobs train on the embedded cluster by Trainer's runtimes, and resume where they were."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.shell import User, running

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples/trainjob/trainjob.yaml"
ACCURACY = re.compile(r"validation accuracy: (0\.\d+)$", re.MULTILINE)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with PyTorch's environment, and without a cluster."""
    found = User(tmp_path, default_cache())
    found.traincrew("images", "pull", "pytorch/pytorch")
    yield found
    assert "Traceback" not in found.log()


def example(**trainer: Any) -> dict[str, Any]:
    """The example, with other fields of the trainer."""
    found: dict[str, Any] = copy.deepcopy(yaml.safe_load(EXAMPLE.read_text()))
    found["spec"]["trainer"] |= trainer
    return found


def written(user: User, *documents: dict[str, Any]) -> str:
    """The path of a manifest."""
    manifest = user.home / "trainjob.yaml"
    manifest.write_text(yaml.safe_dump_all(documents))
    return str(manifest)


def test_the_example_trains(user: User) -> None:
    printed = user.traincrew("run", "-f", str(EXAMPLE))

    assert "4 process(es), from epoch 0 on" in printed
    (accuracy,) = ACCURACY.findall(printed)
    assert float(accuracy) > 0.85
    assert "digits: 100%" in printed
    assert "TrainJob digits: Succeeded" in printed


def runtime() -> dict[str, Any]:
    """A runtime of the user's, which tries nothing again."""
    container = {"name": "node", "image": "pytorch/pytorch:2.5.1"}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0, "template": pods}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "once"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": template},
    }


def test_a_job_that_fails_ends_the_run_with_its_exit_code(user: User) -> None:
    job = example(command=["sh", "-c", "exit 7"], args=[])
    job["spec"]["runtimeRef"] = {"name": "once", "kind": "TrainingRuntime"}
    printed = user.traincrew("run", "-f", written(user, runtime(), job), code=7)

    assert "jobset failed due to one or more job failures" in printed


def test_a_job_is_suspended_and_resumed(user: User) -> None:
    directory = user.home / "checkpoints"
    directory.mkdir()
    job = example(args=["--epochs=1000", "--pause=0.2"])
    volume = {"name": "checkpoints", "hostPath": {"path": str(directory)}}
    mount = {"name": "checkpoints", "mountPath": "/checkpoints"}
    pods = {"volumes": [volume], "containers": [{"name": "node", "volumeMounts": [mount]}]}
    node = {"name": "node", "template": {"spec": {"template": {"spec": pods}}}}
    patch = {"template": {"spec": {"replicatedJobs": [node]}}}
    job["spec"]["runtimePatches"] = [{"manager": "example.com/me", "trainingRuntimeSpec": patch}]
    with running(user, "--nodes=2"):
        user.create(job)
        checkpoint = directory / "digits.pt"
        user.until("a checkpoint", checkpoint.exists)
        begins(user, "from epoch 0 on")
        listed = json.loads(user.traincrew("list", "-o", "json"))["jobs"]
        assert [(each["kind"], each["name"]) for each in listed] == [("TrainJob", "digits")]
        assert "Running" in user.traincrew("why", "digits")
        user.kubectl("patch", "trainjob", "digits", "--type=merge", "-p", suspended(True))
        user.until("the pods are gone", lambda: not user.get("pod")["items"])
        assert user.get("trainjob", "digits")["status"]["phase"] == "Suspended"
        user.until("its JobSet says so", lambda: jobs_status(user)["suspended"] == 1)
        before = checkpoint.stat().st_mtime_ns
        user.kubectl("patch", "trainjob", "digits", "--type=merge", "-p", suspended(False))
        user.until("the next one", lambda: checkpoint.stat().st_mtime_ns > before)
        begins(user, r"from epoch [1-9]\d* on")

        status = user.get("trainjob", "digits")["status"]
        assert status["trainerStatus"]["metrics"]
        user.kubectl("delete", "trainjob/digits")
        user.until("nothing is left", lambda: not user.get("jobset")["items"])


def suspended(value: bool) -> str:
    """A patch."""
    return json.dumps({"spec": {"suspend": value}})


def jobs_status(user: User) -> dict[str, Any]:
    """What the status says of the only replicated job, some time after the job itself."""
    (found,) = user.get("trainjob", "digits")["status"]["jobsStatus"]
    return dict(found)


def begins(user: User, line: str) -> None:
    """Wait until the log has this line, with which training began.

    Called when there is a checkpoint of it: each look takes a processor that training needs.
    """
    user.until(line, lambda: re.search(line, user.traincrew("logs", "digits", code=None)))
