"""Values files for kube-openmpi, and what their clusters do on any cluster.

More of them can be tested: TRAINCREW_SUITE_OPENMPI_VALUES names directories. Only what has to be is
changed in them: the placeholder of kube-openmpi's examples, and the addresses of what a machine may
not reach, which is GitHub, and on the real cluster also registries.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from suites import git_servers
from suites.openmpi_user import UPDATE_SECONDS

from traincrew.api.kinds.mpicluster.values import merged
from traincrew.api.placeholders import EDIT_ME

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from suites.openmpi_user import Steps

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts/kube-openmpi"
_LIKE_THEM = ROOT / "tests/api/mpicluster/values"
DIRECTORIES = map(
    Path, filter(None, os.environ.get("TRAINCREW_SUITE_OPENMPI_VALUES", "").split(":"))
)
FILES = [
    CHART / "values.yaml",
    _LIKE_THEM / "quickstart.yaml",
    _LIKE_THEM / "one-shot.yaml",
    *(
        path
        for directory in DIRECTORIES
        for path in sorted(directory.glob("*.yaml"))
        if path.name != "Chart.yaml"
    ),
]
IMAGE = {"repository": "traincrew/openmpi-chainermn", "tag": "0.1.0"}
GPU = "nvidia.com/gpu"
GPUS = 3
"""How many the files ask for."""
SCHEDULER = "kube-batchd"
EXAMPLE = "examples/mnist/train_mnist.py"
TRAIN = '''\
"""Stands for ChainerMN's example on machines without GPUs: the option -g is left out."""

import runpy
import sys

assert "-g" in sys.argv
sys.argv[1:] = sys.argv[sys.argv.index("-e") :][:2]
runpy.run_path("/train_mnist.py", run_name="__main__")
'''


def name_of(path: Path) -> str:
    """Return what a file is called in the names of clusters and tests."""
    return "defaults" if path.parent == CHART else path.stem


@dataclass
class Files:
    """A values file as it is used.

    Attributes:
        paths: The file, filled in, and what is changed.
    """

    paths: list[Path]

    @property
    def values(self) -> dict[str, Any]:
        """What Helm makes of them."""
        return merged(*(yaml.safe_load(path.read_text()) for path in self.paths))

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.values["mpiWorkers"]["num"])


def files(path: Path, directory: Path, repository: str, image: dict[str, str] | None) -> Files:
    """Fill in a values file, and write beside it what is changed.

    Args:
        path: The file.
        directory: Where to write.
        repository: Address of a repository with the examples.
        image: In the place of one that cannot be pulled.
    """
    text = path.read_text()
    for key, value in IMAGE.items():
        text = re.sub(rf"\b{key}: {EDIT_ME}", f"{key}: {value}", text)
    values = yaml.safe_load(text)
    changes: dict[str, Any] = {"image": image} if image else {}
    if codes := values.get("appCodesToSync"):
        changes["appCodesToSync"] = [{**code, "gitRepo": repository} for code in codes]
    found = [directory / "values.yaml", directory / "changes.yaml"]
    found[0].write_text(text)
    found[1].write_text(yaml.safe_dump(changes))
    return Files(found)


def serving(
    directory: Path, place: git_servers.Place = git_servers.HERE
) -> AbstractContextManager[str]:
    """Serve the examples; the address is given."""
    repository = git_servers.Repository(directory)
    repository.add(EXAMPLE, TRAIN, branch="master")
    return git_servers.public(repository, place)


def does_what_it_is_for(user: Steps, name: str, used: Files) -> None:
    """Wait until a cluster has trained, or is there to be used and starts processes everywhere."""
    if not used.values["mpiMaster"]["oneShot"]["enabled"]:
        user.until_condition(name, "Running")
        user.until_hosts(name, used.workers, UPDATE_SECONDS)
        user.runs_everywhere(name, used.workers)
        return
    user.until_condition(name, "Succeeded")
    log = user.kubectl("logs", f"{name}-master", "-c", "mpi-master")
    assert f"processes: {used.workers + 1}, communicator: naive" in log
    assert re.search(r"^epoch +2 .* validation accuracy 0\.[89]", log, re.MULTILINE), log
    user.until("the workers are gone", lambda: list(user.pods(name)) == [f"{name}-master"])
    assert user.get("statefulset", f"{name}-worker")["spec"]["replicas"] == 0


def with_scheduler(directory: Path, name: str) -> Path:
    """Return a file with values for a scheduler of groups, as kube-openmpi suggests them."""
    chosen = {"enabled": True, "schedulerName": name}
    path = directory / "scheduler.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "image": IMAGE,
                "mpiMaster": {"customScheduling": chosen},
                "mpiWorkers": {
                    "num": 2,
                    "customScheduling": {**chosen, "podDisruptionBudget": {"enabled": True}},
                },
            }
        )
    )
    return path


def gang(directory: Path, scheduler: str, workers: int, resource: str) -> Path:
    """Return a file with values for a group of workers each of which needs one of a resource."""
    chosen = {"enabled": True, "schedulerName": scheduler}
    path = directory / "gang.yaml"
    values = {
        "image": {"repository": "traincrew/openmpi", "tag": "0.1.0"},
        "mpiMaster": {"customScheduling": chosen},
        "mpiWorkers": {
            "num": workers,
            "customScheduling": chosen,
            "resources": {"limits": {resource: 1}},
        },
    }
    path.write_text(yaml.safe_dump(values))
    return path


def take_turns(user: Steps, names: tuple[str, str]) -> None:
    """Two clusters fit only one at a time: one runs, the other waits without a pod, then runs."""

    def running() -> list[str]:
        return [
            name
            for name in names
            if user.mpi_cluster(name).get("status", {}).get("phase") == "Running"
        ]

    (first,) = user.until("one of them runs", running, 120)
    (second,) = set(names) - {first}
    user.until(
        "the other says what it waits for",
        lambda: user.mpi_cluster(second)["status"].get("reason") == "WaitingForGang",
        60,
    )
    workers = [pod for name, pod in user.pods(second).items() if "-worker-" in name]
    assert workers
    assert not any(pod["spec"].get("nodeName") for pod in workers)
    user.gone(first)
    user.until_condition(second, "Running")
    user.gone(second)


def schedulers(user: Steps, name: str) -> set[str]:
    """Return by which schedulers the pods of a cluster are to be placed."""
    return {pod["spec"]["schedulerName"] for pod in user.pods(name).values()}
