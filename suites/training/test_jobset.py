"""JobSets train on the embedded cluster: they restart as one, and resume where they were."""

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

EXAMPLE = Path(__file__).parents[2] / "examples/jobset/jobset.yaml"
ACCURACY = re.compile(r"validation accuracy: (0\.\d+)$", re.MULTILINE)
ATTEMPT = "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with PyTorch's environment, and without a cluster."""
    found = User(tmp_path, default_cache())
    found.traincrew("images", "pull", "pytorch/pytorch")
    yield found
    assert "Traceback" not in found.log()


def example() -> dict[str, Any]:
    """The example."""
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return copy.deepcopy(found)


def pod_of(jobset: dict[str, Any]) -> dict[str, Any]:
    """``spec`` of its pods."""
    (workers,) = jobset["spec"]["replicatedJobs"]
    spec: dict[str, Any] = workers["template"]["spec"]["template"]["spec"]
    return spec


def test_the_example_trains(user: User) -> None:
    printed = user.traincrew("run", "-f", str(EXAMPLE))

    assert "4 process(es), from epoch 0 on" in printed
    (accuracy,) = ACCURACY.findall(printed)
    assert float(accuracy) > 0.85
    assert "JobSet digits: Succeeded" in printed


def test_a_failure_restarts_all_pods(user: User) -> None:
    jobset = example()
    (container,) = pod_of(jobset)["containers"]
    fail = 'test "$ATTEMPT$JOB_COMPLETION_INDEX" != 01 || exit 3; '
    container["command"][2] = fail + container["command"][2]
    container["env"].append({"name": "ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": ATTEMPT}}})
    manifest = user.home / "jobset.yaml"
    manifest.write_text(yaml.safe_dump(jobset))
    printed = user.traincrew("run", "-f", str(manifest))

    assert "applying RestartJobSet failure policy action" in printed
    (accuracy,) = ACCURACY.findall(printed)
    assert float(accuracy) > 0.85


def test_a_jobset_that_fails_ends_the_run_with_its_exit_code(user: User) -> None:
    jobset = example()
    jobset["spec"]["failurePolicy"]["maxRestarts"] = 1
    pod_of(jobset)["containers"][0]["command"] = ["sh", "-c", "exit 7"]
    manifest = user.home / "jobset.yaml"
    manifest.write_text(yaml.safe_dump(jobset))
    printed = user.traincrew("run", "-f", str(manifest), code=7)

    assert "jobset failed due to reaching max number of restarts" in printed


def test_a_jobset_is_suspended_and_resumed(user: User) -> None:
    directory = user.home / "checkpoints"
    directory.mkdir()
    jobset = example()
    pod = pod_of(jobset)
    (container,) = pod["containers"]
    container["command"][2] = container["command"][2].replace(
        "--epochs=10", "--epochs=1000 --pause=0.2"
    )
    container["volumeMounts"] = [{"name": "checkpoints", "mountPath": "/checkpoints"}]
    pod["volumes"] = [{"name": "checkpoints", "hostPath": {"path": str(directory)}}]
    first = ("logs", "job/digits-workers-0", "--all-pods", "--tail=-1")
    with running(user, "--nodes=2"):
        user.create(jobset)
        begins(user, first, "from epoch 0 on")
        user.until("a checkpoint", lambda: any(directory.iterdir()))
        user.kubectl("patch", "jobset", "digits", "--type=merge", "-p", suspended(True))
        user.until("the pods are gone", lambda: not user.get("pod")["items"])
        found = user.get("jobset", "digits")["status"]
        assert found["phase"] == "Suspended"
        assert found["replicatedJobsStatus"][0]["suspended"] == 1
        user.kubectl("patch", "jobset", "digits", "--type=merge", "-p", suspended(False))
        begins(user, first, r"from epoch [1-9]\d* on")

        assert user.get("jobset", "digits")["status"]["restarts"] == 0
        user.kubectl("delete", "jobset/digits", "--wait=false")


def suspended(value: bool) -> str:
    """A patch."""
    return json.dumps({"spec": {"suspend": value}})


def begins(user: User, logs: tuple[str, ...], line: str) -> None:
    """Wait until training begins with this line."""
    user.until(line, lambda: re.search(line, user.kubectl(*logs, code=None)))
