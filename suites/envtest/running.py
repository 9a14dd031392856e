"""Upstream's own suites, unmodified, on the programs that `traincrew envtest` writes.

`gosuites.GO_SUITES` says which. Most are Ginkgo's, which write a report; others are plain Go tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hack.cluster import binaries, gosuites
from hack.cluster.changes import copy_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_SECONDS = 900
_NETWORK = (
    "ip link set lo up && ip link add out type veth peer name other && ip link set other up"
    " && ip address add 192.0.2.1/24 dev out && ip link set out up"
    ' && ip route add default via 192.0.2.2 && exec "$@"'
)
_ALONE = (
    *("unshare", "--net", *(() if os.geteuid() == 0 else ("--map-root-user",))),
    *("sh", "-c", _NETWORK, "sh"),
)
"""In a network of its own: managers in these suites listen on fixed ports. kube-apiserver starts
only where there is an address besides those of the loopback device."""
HERE = Path(__file__).parent
_COSCHEDULING = ("sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/crd.yaml")
_JOBSET = ("sigs.k8s.io/jobset", "config/components/crd/bases/*")
# No Go module has Volcano's definitions; what stands for them accepts any field.
_VOLCANO = (None, "scheduling.volcano.sh_podgroups.yaml")
_ADDED: dict[str, dict[str, tuple[str | None, str]]] = {
    "mpi-operator": {
        "dep-crds/scheduler-plugins": _COSCHEDULING,
        "dep-crds/volcano-scheduler": _VOLCANO,
    },
    "trainer": {
        "manifests/external-crds/jobset-operator": _JOBSET,
        "manifests/external-crds/scheduler-plugins": _COSCHEDULING,
        "manifests/external-crds/volcano": _VOLCANO,
    },
    "training-operator": {
        "manifests/external-crds/jobset-operator": _JOBSET,
        "manifests/external-crds/scheduler-plugins": _COSCHEDULING,
    },
}
"""By project and directory: definitions of others, as the Makefiles of the projects copy them."""
_ADDED |= {f"{name}-by-traincrew": _ADDED[name] for name in ("mpi-operator", "trainer")}
_KUSTOMIZED = {
    "kueue": ("config/components/crd", "config/components/crd/_output/crds-with-webhooks.yaml")
}
"""By project: a directory of kustomize, and the file that its Makefile writes from it."""
_PLAIN = re.compile(r"^ *--- (PASS|FAIL): (\S+)", re.MULTILINE)


class Spec(NamedTuple):
    """A spec of a suite, or a Go test.

    Attributes:
        name: With the names of what it is in.
        passed: Whether it passed.
        message: Why not.
    """

    name: str
    passed: bool
    message: str


def release(project: str) -> str:
    """Return the release of a project that is built, with its ``v``."""
    module = gosuites.GO_SUITES[project].module
    text = (binaries.MODULES / gosuites.suite_module(project) / "go.mod").read_text()
    found = re.search(rf"{re.escape(module)} (v[0-9.]+)", text)
    assert found is not None
    return found[1]


def source(project: str, module: str | None = None) -> Path:
    """Return the directory of a project's module.

    Args:
        project: A key of `gosuites.GO_SUITES`.
        module: Another one, in the release that the project requires.

    Raises:
        subprocess.CalledProcessError: It cannot be downloaded, or is not what go.sum says.
    """
    found = subprocess.run(
        ["go", "mod", "download", "-json", module or gosuites.GO_SUITES[project].module],
        cwd=binaries.MODULES / gosuites.suite_module(project),
        env={**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(found.stdout)["Dir"])


def prepared(project: str, directory: Path) -> Path:
    """Return a directory with a project's sources, and what its Makefile adds for the tests.

    Args:
        project: A key of `gosuites.GO_SUITES`.
        directory: For a copy, if something is added.
    """
    found = source(project)
    if project not in _ADDED and project not in _KUSTOMIZED:
        return found
    copied = directory / "source"
    copy_sources(found, copied)
    for target, (module, files) in _ADDED.get(project, {}).items():
        (copied / target).mkdir(parents=True)
        origin = HERE / "definitions" if module is None else source(project, module)
        for file in origin.glob(files):
            shutil.copyfile(file, copied / target / file.name)
    if project in _KUSTOMIZED:
        place, written = (copied / each for each in _KUSTOMIZED[project])
        written.parent.mkdir()
        kubectl = binaries.build("kubectl", print)
        with written.open("wb") as output:
            subprocess.run([kubectl, "kustomize", place], stdout=output, check=True)
    return copied


def run(project: str, package: str, assets: Path, directory: Path) -> list[Spec]:
    """Run the suite of a package; return its specs, without those that it skips.

    Args:
        project: A key of `gosuites.GO_SUITES`.
        package: One of its packages.
        assets: The directory for ``KUBEBUILDER_ASSETS``.
        directory: An empty one.
    """
    program = binaries.build(gosuites.suite_program(project, package), print)
    report = directory / "report.json"
    place = prepared(project, directory) / package  # test data is found relative to it
    plain = "ginkgo" not in "".join(each.read_text() for each in place.glob("*_test.go"))
    options = ["-test.v"] if plain else ["-ginkgo.no-color", f"-ginkgo.json-report={report}"]
    result = subprocess.run(
        [*_ALONE, program, *options],
        cwd=place,
        env={
            **os.environ,
            "KUBEBUILDER_ASSETS": str(assets),
            # For those that judge traincrew's operator.
            "TRAINCREW": str(Path(sys.executable).with_name("traincrew")),
            "TRAINCREW_DEFINITIONS": str(HERE.parents[1] / "deploy" / "0-crd.yaml"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    _end_leftovers(assets)
    if plain:
        return plain_tests(result.stdout)
    if not report.exists():
        raise AssertionError(f"{package}: no report\n{result.stdout[-10_000:]}")
    return list(specs(json.loads(report.read_text())))


def _end_leftovers(assets: Path) -> None:
    """End the servers that specs have started and not stopped, as some of upstream's do."""
    wanted = f"KUBEBUILDER_ASSETS={assets}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGTERM)


def plain_tests(output: str) -> list[Spec]:
    """Return the tests that ``-test.v`` tells of; of those with parts, the parts.

    Raises:
        AssertionError: None has run.
    """
    found = {name: verdict == "PASS" for verdict, name in _PLAIN.findall(output)}
    if not found:
        raise AssertionError(f"no test has run\n{output[-10_000:]}")
    parts = [name for name in found if not any(each.startswith(f"{name}/") for each in found)]
    return [Spec(name, found[name], "" if found[name] else output[-2000:]) for name in parts]


def specs(reports: list[dict[str, Any]]) -> Iterator[Spec]:
    """Yield the specs of Ginkgo's report that ran. Set-ups count only if they failed."""
    for suite in reports:
        for each in suite["SpecReports"] or ():
            state = each["State"]
            if state in {"pending", "skipped"}:
                continue
            leaf = each["LeafNodeText"] or each["LeafNodeType"]
            name = " ".join([*(each["ContainerHierarchyTexts"] or ()), leaf])
            if each["LeafNodeType"] == "It" or state != "passed":
                message = (each.get("Failure") or {}).get("Message", "")
                yield Spec(name, state == "passed", message[:2000])
