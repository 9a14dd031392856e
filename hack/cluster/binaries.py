"""The programs of the cluster, built from pinned Go modules and kept in the user's cache.

``modules/*/go.mod`` names the releases, ``modules/*/go.sum`` their checksums, so builds are the
same everywhere. A binary is built once for each version of its module and of Go.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hack.cluster import changes
from hack.cluster.gosuites import GO_SUITES, suite_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MODULES = Path(__file__).parent / "modules"
KUBERNETES = "k8s.io/kubernetes"
# How often a build reports that it is still running.
PROGRESS_SECONDS = 15.0


class BuildFailed(Exception):
    """A program could not be built; the message ends with the last lines of the compiler."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: the directory of its go.mod, and the package that is built.

    Attributes:
        seconds: Approximate duration of a first build on two cores, to be reported to the user.
        test: Built by ``go test -c``.
        shipped: Part of an image, so nothing in it depends on the machine that built it.
        changes: Directory in ``changes/`` that says how the sources are changed; empty for none.
    """

    module: str
    package: str
    seconds: int
    test: bool = False
    shipped: bool = False
    changes: str = ""


PROGRAMS: dict[str, Program] = {
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3", 25),
    "kube-apiserver": Program("kubernetes", f"{KUBERNETES}/cmd/kube-apiserver", 170),
    "kube-controller-manager": Program(
        "kubernetes", f"{KUBERNETES}/cmd/kube-controller-manager", 40
    ),
    "kube-scheduler": Program("kubernetes", f"{KUBERNETES}/cmd/kube-scheduler", 5),
    "kubelet": Program("kubernetes", f"{KUBERNETES}/cmd/kubelet", 15),
    "kube-proxy": Program("kubernetes", f"{KUBERNETES}/cmd/kube-proxy", 12),
    "kube-apiserver-1.37": Program("kubernetes-1.37", f"{KUBERNETES}/cmd/kube-apiserver", 170),
    "kube-controller-manager-1.37": Program(
        "kubernetes-1.37", f"{KUBERNETES}/cmd/kube-controller-manager", 40
    ),
    "kube-scheduler-1.37": Program("kubernetes-1.37", f"{KUBERNETES}/cmd/kube-scheduler", 5),
    "kubectl": Program("kubectl", f"{KUBERNETES}/cmd/kubectl", 75, shipped=True),
    "containerd": Program("containerd", "github.com/containerd/containerd/v2/cmd/containerd", 85),
    "containerd-shim-runc-v2": Program(
        "containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", 5
    ),
    "ctr": Program("containerd", "github.com/containerd/containerd/v2/cmd/ctr", 5),
    "coredns": Program("coredns", "github.com/coredns/coredns", 100),
    "pause": Program("pause", "traincrew/cluster/pause", 1),
    "agnhost": Program("kubernetes", f"{KUBERNETES}/test/images/agnhost", 10),
    "nonewprivs": Program("kubernetes", f"{KUBERNETES}/test/images/nonewprivs", 1),
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", 60),
    "mpi-operator": Program(
        "mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator", 60
    ),
    "training-operator": Program(
        "training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1", 60
    ),
    "training-operator-1.8": Program(
        "training-operator-1.8",
        "github.com/kubeflow/training-operator/cmd/training-operator.v1",
        60,
    ),
    "jobset": Program("jobset", "sigs.k8s.io/jobset", 60),
    "trainer": Program(
        "trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager", 60
    ),
    "kueue": Program("kueue", "sigs.k8s.io/kueue/cmd/kueue", 200),
    "scheduler-plugins-scheduler": Program(
        "scheduler-plugins", "sigs.k8s.io/scheduler-plugins/cmd/scheduler", 150
    ),
    "scheduler-plugins-controller": Program(
        "scheduler-plugins", "sigs.k8s.io/scheduler-plugins/cmd/controller", 20
    ),
    **{
        f"kai-{name}": Program("kai", f"github.com/NVIDIA/KAI-scheduler/cmd/{name}", 120)
        for name in ("scheduler", "binder", "podgroupcontroller", "podgrouper", "queuecontroller")
    },
    "helm": Program("helm", "helm.sh/helm/v3/cmd/helm", 60),
    "helm4": Program("helm4", "helm.sh/helm/v4/cmd/helm", 60),
    "e2e.test": Program("e2e", f"{KUBERNETES}/test/e2e", 240, test=True),
    **{
        suite_program(project, package): Program(
            suites.project or project,
            f"{suites.module}/{package}",
            30,
            test=True,
            changes=suites.project,
        )
        for project, suites in GO_SUITES.items()
        for package in suites.packages
    },
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = (
    "kubelet",
    "kube-proxy",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "coredns",
    "pause",
)


RELEASES = {"1.36": "", "1.37": "-1.37"}
"""Releases of Kubernetes' control plane: what follows a component's name in `PROGRAMS`. Nodes are
those of the first, which a later API server supports."""


def of_release(component: str, release: str) -> str:
    """Return the program of a component of the control plane: a key of `PROGRAMS`."""
    program = component + RELEASES[release]
    return program if program in PROGRAMS else component


def cache_directory() -> Path:
    """Return the directory of built programs: ``$XDG_CACHE_HOME/traincrew/cluster``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "traincrew" / "cluster"


def version(module: str) -> str:
    """Return the release that a module's go.mod names first, without its ``v``: ``1.36.3``."""
    text = (MODULES / module / "go.mod").read_text()
    # Of the direct requirements (those not marked indirect), use that of Kubernetes.
    found = re.search(rf"{re.escape(KUBERNETES)} v([0-9.]+)", text)
    if found is None:
        raise ValueError(f"{module}/go.mod: names no release of {KUBERNETES}")
    return found[1]


def path(name: str) -> Path:
    """Return where a program is, or will be once it is built."""
    program = PROGRAMS[name]
    # Not by name: the programs of a module share a directory and find each other in it.
    digest = hashlib.sha256(f"{_go_version()} {' '.join(_flags(program))}".encode())
    directory = MODULES / program.module
    for source in (*sorted(directory.iterdir()), *changes.files(program.changes)):
        digest.update(source.read_bytes())
    return cache_directory() / f"{program.module}-{digest.hexdigest()[:12]}" / name


def module_directory(name: str) -> Path:
    """Return the directory with the sources of the module that a program is from.

    Raises:
        subprocess.CalledProcessError: The module is not there, and cannot be downloaded.
    """
    return _sources(PROGRAMS[name])[1]


def _sources(program: Program) -> tuple[str, Path]:
    """Return the path of the module that a program is from, and the directory of its sources."""
    module = re.split("/(?:cmd|test)/", program.package)[0]
    listed = subprocess.run(
        ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module],
        cwd=MODULES / program.module,
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=True,
    )
    return module, Path(listed.stdout.strip())


def license_file(name: str) -> Path:
    """Return the license of the module that a program is from.

    Raises:
        subprocess.CalledProcessError: The module is not there, and cannot be downloaded.
    """
    return module_directory(name) / "LICENSE"


def unbuilt(names: Iterable[str]) -> list[str]:
    """Return the programs that have to be built."""
    return [name for name in names if not path(name).exists()]


def build(name: str, report: Callable[[str], None] = lambda _: None) -> Path:
    """Build a program unless it exists; several processes may call this concurrently.

    Args:
        name: A key of :data:`PROGRAMS`.
        report: Called before a build starts and after it has ended.

    Raises:
        BuildFailed: The compiler, or the download of the sources, failed.
    """
    target = path(name)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with _compiled_packages().with_suffix(".lock").open("w") as used:
                fcntl.flock(used, fcntl.LOCK_SH)
                _compile(name, target, report)
    return target


def remove_compiled_packages() -> None:
    """Remove what the compiler keeps to build programs again: several gigabytes.

    Programs that are built stay. Nothing is removed while one is being built.
    """
    if not _compiled_packages().exists():
        return
    with _compiled_packages().with_suffix(".lock").open("w") as used:
        try:
            fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(_compiled_packages())


def _compiled_packages() -> Path:
    """Return the compiler's cache: one of our own, which may be removed."""
    return cache_directory() / "go-build"


def _compile(name: str, target: Path, report: Callable[[str], None]) -> None:
    program = PROGRAMS[name]
    report(f"building {name} (about {program.seconds} s on two cores, the first time)")
    started = time.monotonic()
    temporary = target.with_suffix(".new")
    # Vet would read all that the test imports as well.
    verb = ["go", "test", "-c", "-vet=off"] if program.test else ["go", "build"]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryDirectory() as place:
        flags = _flags(program)
        if program.changes:
            module = MODULES / program.module
            sources = _sources(program)
            flags.append(
                f"-modfile={changes.applied(program.changes, module, sources, Path(place))}"
            )
        command = [*verb, "-v", *flags, "-o", str(temporary), program.package]
        compiler = subprocess.Popen(
            command,
            cwd=MODULES / program.module,
            env={
                **os.environ,
                "CGO_ENABLED": "0",
                "GOCACHE": str(_compiled_packages()),
                "GOTOOLCHAIN": "local",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while True:
            try:
                code = compiler.wait(PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                # With -v the compiler names each package it has finished, one a line.
                packages = len(_text(output).splitlines())
                seconds = time.monotonic() - started
                report(f"  {name}: {packages} packages after {seconds:.0f} s")
        if code != 0:
            tail = "\n".join(_text(output).splitlines()[-15:])
            raise BuildFailed(f"{name}: `{' '.join(command)}` failed:\n{tail}")
    temporary.replace(target)
    report(f"built {name} in {time.monotonic() - started:.0f} s")


def _text(output: IO[str]) -> str:
    """Return the output so far, without seeking: the compiler shares the file's position."""
    size = os.fstat(output.fileno()).st_size
    return os.pread(output.fileno(), size, 0).decode(errors="replace")


def _flags(program: Program) -> list[str]:
    linker = ["-s", "-w"]
    if program.package.startswith(KUBERNETES):
        release = version(program.module)
        major, minor, _ = release.split(".")
        for key, value in {
            "gitVersion": f"v{release}",
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }.items():
            linker += ["-X", f"k8s.io/component-base/version.{key}={value}"]
    paths = ["-trimpath"] if program.shipped else []
    return ["-buildvcs=false", "-mod=readonly", *paths, "-ldflags", " ".join(linker)]


def _go_version() -> str:
    go = shutil.which("go")
    if go is None:
        return "none"
    result = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return result.stdout.strip()
