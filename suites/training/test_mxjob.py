"""MXNet trains on the embedded cluster: with pods that someone wires by hand, and as MxJobs."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from traincrew.local.images.interpreters import InterpreterNotFoundError, find_interpreter

from .conftest import pull

if TYPE_CHECKING:
    from suites import shell

    from traincrew.local.images import Environment

Document = dict[str, Any]

pytestmark = pytest.mark.usefixtures("mxnet")

EXAMPLES = Path(__file__).parents[2] / "examples/mxnet"
ACCURACY = re.compile(r"validation accuracy: (0\.\d+)$", re.MULTILINE)
ENDED = re.compile(r"^  (\S+) +exit code 0 +0 ", re.MULTILINE)
WORKERS = "job_type=WORKER"
# As manifests of mxnet-operator have it.
OLD_IMAGE = "10.199.192.16/library/mxnet-gpu-dist:0.12.0"
OLD_DIRECTORY = "/mxnet/example/image-classification"
OLD_WORKER = ["train_cifar10.py", "--num-epochs=10", "--gpus=0", "--num-layers=2"]
ROLES = {"scheduler": 1, "server": 2, "worker": 3}


# -- the environment ---------------------------------------------------------------------------


def python(environment: Environment, directory: Path, *words: str) -> str:
    """Run Python as a container of the image would; return what it printed."""
    result = subprocess.run(
        ["python", *words],
        env={**environment.variables, "HOME": str(directory)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    return result.stdout


def test_the_environment_is_complete_and_consistent(mxnet: Environment, tmp_path: Path) -> None:
    said = python(mxnet, tmp_path, "-m", "pip", "--disable-pip-version-check", "check")
    assert said == "No broken requirements found.\n"


def test_oldest_and_newest_python(cache: Path, tmp_path: Path) -> None:
    """The oldest and newest of the catalog's Python versions on this machine work."""
    found = []
    for version in ("3.8", "3.9", "3.10", "3.11", "3.12"):
        with contextlib.suppress(InterpreterNotFoundError):
            asyncio.run(find_interpreter([version]))
            found.append(version)
    assert found, sys.version
    for version in sorted({found[0], found[-1]}, key=found.index):
        own = tmp_path / "own.yaml"
        own.write_text(
            "environments:\n"
            f'- {{name: mine, from: mxnet, images: [me/mine], python: "{version}"}}\n'
        )
        environment = pull(cache, "me/mine", [own])
        script = str(environment.files["/examples/train_digits.py"])
        assert float(ACCURACY.findall(python(environment, tmp_path, script))[-1]) >= 0.95
        script = str(environment.files[f"{OLD_DIRECTORY}/train_cifar10.py"])
        assert "validation accuracy" in python(environment, tmp_path, script, "--num-epochs=1")


def test_a_model_is_saved_and_loaded(mxnet: Environment, tmp_path: Path) -> None:
    script = str(mxnet.files[f"{OLD_DIRECTORY}/train_cifar10.py"])
    words = ["--num-layers=2", "--model-prefix=./wltest"]
    first = python(mxnet, tmp_path, script, *words, "--num-epochs=2")
    assert sorted(path.name for path in tmp_path.glob("wltest*")) == [
        "wltest-0001.params",
        "wltest-0002.params",
        "wltest-symbol.json",
    ]
    second = python(mxnet, tmp_path, script, *words, "--num-epochs=4", "--load-epoch=2")
    assert re.findall(r"^epoch +(\d+)", first + second, re.MULTILINE) == ["1", "2", "3", "4"]
    (begun,) = re.findall(r"^epoch +3 .*validation accuracy (\S+)", second, re.MULTILINE)
    assert float(begun) > 0.9


# -- on a cluster ------------------------------------------------------------------------------


def wired_by_hand() -> list[Document]:
    """A Service and pods for all roles, with the variables that an operator would set."""
    shared = {
        "DMLC_PS_ROOT_URI": "scheduler",
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NUM_WORKER": "3",
        "DMLC_USE_KUBERNETES": "1",
    }
    found: list[Document] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "scheduler"},
            "spec": {"selector": {"role": "scheduler"}, "ports": [{"port": 9091}]},
        }
    ]
    for role, count in ROLES.items():
        variables = shared | {"DMLC_ROLE": role}
        words = [*OLD_WORKER, "--kv-store=dist_device_sync"] if role == "worker" else OLD_WORKER[:1]
        container = {
            "name": "mxnet",
            "image": OLD_IMAGE,
            "command": ["python"],
            "args": words,
            "workingDir": OLD_DIRECTORY,
            "env": [{"name": name, "value": value} for name, value in variables.items()],
        }
        found += [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{role}-{index}", "labels": {"role": role}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
            for index in range(count)
        ]
    return found


def test_pods_that_are_wired_by_hand(user: shell.User) -> None:
    output = user.traincrew("run", "-f", "-", given=yaml.safe_dump_all(wired_by_hand()))

    assert len(ENDED.findall(output)) == sum(ROLES.values()), output
    assert output.count("so training on scikit-learn's bundled digits, enlarged to 32x32") == 3
    assert "device: processor; --gpus 0 has no effect, this MXNet has no CUDA" in output
    # All workers have the parameters of the servers.
    (accuracy,) = set(ACCURACY.findall(output))
    assert float(accuracy) >= 0.95


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [("mxjob-local.yaml", 1), ("mxjob-dist.yaml", 6), ("mxjob-reference.yaml", 6)],
)
def test_the_examples_train_with_traincrew_run(user: shell.User, manifest: str, pods: int) -> None:
    output = user.traincrew("run", "-f", str(EXAMPLES / manifest))

    assert float(ACCURACY.findall(output)[-1]) >= 0.95, output
    assert len(ENDED.findall(output)) == pods, output
    assert re.search(r"^MxJob \S+: Succeeded", output, re.MULTILINE)


def old_job(group: str, mode: str) -> Document:
    """A manifest as users of the first mxnet-operator write them."""

    def replica(kind: str, count: int, *more: str) -> Document:
        words = [*OLD_WORKER, *more] if kind == "WORKER" else OLD_WORKER[:1]
        container = {
            "image": OLD_IMAGE,
            "name": "mxnet",
            "command": ["python"],
            "args": words,
            "workingDir": OLD_DIRECTORY,
        }
        return {
            "replicas": count,
            "mxReplicaType": kind,
            "template": {"spec": {"containers": [container], "restartPolicy": "OnFailure"}},
        }

    replicas = [replica("WORKER", 1, "--model-prefix=./wltest")]
    if mode == "dist":
        replicas = [
            replica("SCHEDULER", 1) | {"PsRootPort": 9091},
            replica("SERVER", 2),
            replica("WORKER", 3, "--kv-store=dist_device_sync"),
        ]
    return {
        "apiVersion": f"{group}/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": f"old-{mode}"},
        "spec": {"jobMode": mode, "replicaSpecs": replicas},
    }


@pytest.mark.parametrize("mode", ["local", "dist"])
@pytest.mark.parametrize("group", ["mxnet.mlkube.io", "mlkube.io"])
def test_old_manifests_train(user: shell.User, group: str, mode: str) -> None:
    job = old_job(group, mode)
    name, kind = job["metadata"]["name"], f"mxjobs.{group}"
    user.create(job)
    user.until(f"{name} ends", lambda: "state" in user.get(kind, name).get("status", {}))
    status = user.get(kind, name)["status"]

    assert (status["phase"], status["state"]) == ("Done", "Succeeded"), user.state()
    logs = user.kubectl("logs", "-l", f"{WORKERS},mxnet.mlkube.io/job-name={name}", "--tail=-1")
    (accuracy,) = set(ACCURACY.findall(logs))
    assert float(accuracy) >= 0.95
    user.kubectl("delete", kind, name)


@pytest.mark.parametrize("victim", ["SCHEDULER", "SERVER", "WORKER"])
def test_training_resumes_when_a_role_is_lost(user: shell.User, victim: str) -> None:
    claim, job = yaml.safe_load_all((EXAMPLES / "mxjob-dist.yaml").read_text())
    name = job["metadata"]["name"] = f"loses-{victim.lower()}"
    claim["metadata"]["name"] = name
    pod = job["spec"]["replicaSpecs"][2]["template"]["spec"]
    pod["volumes"][0]["persistentVolumeClaim"]["claimName"] = name
    user.create(claim)
    user.create(job)
    own = f"mxnet.mlkube.io/job-name={name}"

    def said() -> str:
        return user.kubectl("logs", "-l", f"{own},{WORKERS}", "--tail=-1", code=None)

    user.until(f"{name} trains", lambda: "\nepoch   3 " in said())
    lost = f"{own},job_type={victim},task_index=0"
    user.kubectl("delete", "pod", "-l", lost, "--force", "--grace-period=0")
    user.until(f"{name} ends", lambda: "state" in user.get("mxj", name)["status"])

    status = user.get("mxj", name)["status"]
    assert (status["state"], status["attempt"]) == ("Succeeded", 1), user.state()
    (begun,) = re.findall(r"to validate, from epoch (\d+) on$", said(), re.MULTILINE)
    assert int(begun) >= 3
    assert f"\nepoch {int(begun) + 1:>3} " in said()
    assert float(ACCURACY.findall(said())[-1]) >= 0.95
    phases = [pod["status"]["phase"] for pod in user.get("pods", "-l", own)["items"]]
    assert phases == ["Succeeded"] * 6
    user.kubectl("delete", "mxj", name)
