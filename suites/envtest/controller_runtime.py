"""controller-runtime's own suites, unmodified, on the programs that `traincrew envtest` writes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = Path(__file__).with_name("results.toml")
TIMEOUT_SECONDS = 900


class Spec(NamedTuple):
    """A spec of a suite.

    Attributes:
        name: With the names of what it is in.
        passed: Whether it passed.
        message: Why not.
    """

    name: str
    passed: bool
    message: str


class Expected(NamedTuple):
    """What the table says of a package.

    Attributes:
        floor: Minimum number of specs that pass.
        failing: Names of those that do not, by reason.
    """

    floor: int
    failing: dict[str, list[str]]

    @property
    def names(self) -> set[str]:
        """Names of the specs that are known to fail."""
        return {name for names in self.failing.values() for name in names}


def table() -> dict[str, Expected]:
    """Read the committed table."""
    read = tomllib.loads(PATH.read_text())
    return {
        name: Expected(each["floor"], each.get("failing", {}))
        for name, each in read["packages"].items()
    }


def release() -> str:
    """Return the release of controller-runtime that the table is of."""
    found: str = tomllib.loads(PATH.read_text())["release"]
    return found


def source() -> Path:
    """Return the directory of controller-runtime's module.

    Raises:
        subprocess.CalledProcessError: It cannot be downloaded, or is not what go.sum says.
    """
    found = subprocess.run(
        ["go", "mod", "download", "-json", binaries.CONTROLLER_RUNTIME],
        cwd=binaries.MODULES / "controller-runtime",
        env={**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(found.stdout)["Dir"])


def run(package: str, assets: Path, report: Path) -> list[Spec]:
    """Run the suite of a package; return its specs, without those that it skips.

    Args:
        package: One of `binaries.CONTROLLER_RUNTIME_SUITES`.
        assets: The directory for ``KUBEBUILDER_ASSETS``.
        report: A file for Ginkgo's report.
    """
    program = binaries.build(f"controller-runtime-{package.replace('/', '-')}.test", print)
    result = subprocess.run(
        [program, "-ginkgo.no-color", f"-ginkgo.json-report={report}"],
        cwd=source() / "pkg" / package,  # test data is found relative to it
        env={**os.environ, "KUBEBUILDER_ASSETS": str(assets)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    _end_leftovers(assets)
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
