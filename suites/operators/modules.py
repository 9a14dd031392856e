"""Other people's operators: sources and programs, of the Go modules that `hack/cluster` pins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

MPI = "github.com/kubeflow/mpi-operator"
TRAINING = "github.com/kubeflow/training-operator"
JOBSET = "sigs.k8s.io/jobset"
TRAINER = "github.com/kubeflow/trainer/v2"
OPERATORS = ("jobset", "mpi-operator", "trainer", "training-operator", "training-operator-1.8")
HERE = Path(__file__).parent


def missing() -> Iterator[str]:
    """What this machine lacks for this suite, each with its fix."""
    if shutil.which("go") is None:
        yield "Go, on PATH: the operators are built from source"
    packages = {"g++": shutil.which("g++"), "openssh-server": shutil.which("sshd", path=_SYSTEM)}
    if lacking := [name for name, found in packages.items() if found is None]:
        yield f"Debian packages: apt-get install {' '.join(lacking)}"


_SYSTEM = os.pathsep.join(("/usr/sbin", "/usr/local/sbin"))


def sources(module: str, program: str = "") -> Path:
    """The directory of a module at the release its operator is built from.

    Args:
        module: Path of the module.
        program: The directory of `hack/cluster/modules`, if it is not named like the module.

    Raises:
        subprocess.CalledProcessError: It cannot be downloaded, or is not what go.sum says.
    """
    directory = binaries.MODULES / (program or module.rpartition("/")[2])
    found = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=directory,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(found.stdout)["Dir"])


def prepare(directory: Path, open_mpi: Path) -> Path:
    """Make what the suite's catalog names; returns a copy of the catalog beside it.

    Args:
        directory: An empty one.
        open_mpi: Where Open MPI is installed, with its compiler.
    """
    build = directory / "build"
    build.mkdir(parents=True)
    for name in OPERATORS:
        (build / name).symlink_to(binaries.build(name))
    mpi = sources(MPI)
    settings = (mpi / "build/base/sshd_config").read_text()
    (build / "sshd_config").write_text(f"{settings}\nPort 2222\n")
    subprocess.run(
        [open_mpi / "bin/mpicxx", "-o", build / "pi", mpi / "examples/v2beta1/pi/pi.cc"],
        env={**os.environ, "OPAL_PREFIX": str(open_mpi)},
        check=True,
    )
    shutil.copytree(HERE / "images", directory / "images")
    return Path(shutil.copy(HERE / "environments.yaml", directory))
