"""Runner of upstream's `e2e.test` against a cluster, and reader of its reports."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

KUBECTL = Path(sys.prefix) / "bin" / "kubectl"
# Starting the program takes a second or two, so it runs several tests at a time. Long tests mostly
# wait, so they are run one by one, in parallel with the others.
SHARE_SECONDS = 45
MAX_TESTS = 12
LONG_SECONDS = 60
# Upstream's framework can take ten minutes of its own before a test fails.
SLACK_SECONDS = 60
_PLAIN = re.compile(r"([^\w ])")
_SERIAL = ("[Serial]", "[Disruptive]")


@dataclass(frozen=True)
class Result:
    """The result of a test.

    Attributes:
        name: Full name.
        passed: Whether it passed.
        seconds: Its duration.
        message: Why it failed.
    """

    name: str
    passed: bool
    seconds: float = 0.0
    message: str = ""


def is_serial(name: str) -> bool:
    """Return whether a test needs exclusive use of the cluster."""
    return any(mark in name for mark in _SERIAL)


class E2eRunner:
    """Upstream's test program and the clusters it tests.

    Args:
        program: `e2e.test`.
        kubeconfig: The cluster.
        directory: For logs and reports, which are kept.
        serial: A second cluster, for tests that need exclusive use; without it they wait until the
            others have finished on the first.
    """

    def __init__(
        self, program: Path, kubeconfig: Path, directory: Path, *, serial: Path | None = None
    ) -> None:
        self._program = program
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._serial = serial

    def run(
        self,
        tests: Mapping[str, float],
        *,
        workers: int,
        limit: float = 600.0,
        on_result: Callable[[Result], None] = lambda _: None,
    ) -> dict[str, Result]:
        """Run tests: in parallel where possible, serial ones one after the other.

        Args:
            tests: Full names, and approximate durations in seconds.
            workers: Number of parallel programs; the same number again for long tests.
            limit: Seconds after which a program is stopped, beyond what its tests should take.
            on_result: Called with every result as it arrives, one at a time.

        Returns:
            Results by name; a test without one was not run, or its program ended abnormally.
        """
        results: dict[str, Result] = {}
        numbers, lock = itertools.count(), threading.Lock()
        alone = {name: cost for name, cost in tests.items() if is_serial(name)}
        long = {
            name: cost for name, cost in tests.items() if name not in alone and cost >= LONG_SECONDS
        }
        short = {name: cost for name, cost in tests.items() if name not in alone | long}

        def start(group: Mapping[str, float], count: int, cluster: Path) -> list[threading.Thread]:
            shares = deque(shares_of(group))

            def work() -> None:
                while (share := _next(shares)) is not None:
                    for result in self._run_share(next(numbers), share, limit, cluster):
                        with lock:
                            results[result.name] = result
                            on_result(result)

            threads = [threading.Thread(target=work) for _ in range(count)]
            for thread in threads:
                thread.start()
            return threads

        waiting = start(long, workers, self._kubeconfig) + start(short, workers, self._kubeconfig)
        if self._serial is None:
            for thread in waiting:
                thread.join()
        for thread in waiting + start(alone, 1, self._serial or self._kubeconfig):
            thread.join()
        return results

    def names(self) -> list[str]:
        """Return the names of the release's conformance tests."""
        listed = subprocess.run(
            [self._program, "--list-conformance-tests"],
            capture_output=True,
            text=True,
            check=True,
            cwd=self._directory,
        )
        return [each["codename"] for each in yaml.safe_load(listed.stdout)]

    def _run_share(
        self, number: int, share: Mapping[str, float], limit: float, cluster: Path
    ) -> list[Result]:
        directory = self._directory / f"{number:03}"
        directory.mkdir(parents=True, exist_ok=True)
        report = directory / "report.json"
        timeout = int(sum(share.values()) * 2 + limit)
        focus = "|".join(_PLAIN.sub(r"\\\1", name) + "$" for name in share)
        command = [
            str(self._program),
            f"--kubeconfig={cluster}",
            "--provider=skeleton",
            "--num-nodes=2",
            f"--kubectl-path={KUBECTL}",
            "--disable-log-dump",
            f"--e2e-output-dir={directory}",
            f"--ginkgo.focus={focus}",
            f"--ginkgo.timeout={timeout}s",
            "--ginkgo.grace-period=10s",
            "--ginkgo.v",
            "--ginkgo.no-color",
            "--ginkgo.silence-skips",
            f"--ginkgo.json-report={report}",
        ]
        hanging = contextlib.suppress(subprocess.TimeoutExpired)
        with (directory / "log").open("wb") as log, hanging:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, "KUBECONFIG": str(cluster)},
                timeout=timeout + SLACK_SECONDS,
                check=False,
            )
        return list(_results(report))


def _next(shares: deque[dict[str, float]]) -> dict[str, float] | None:
    try:
        return shares.popleft()
    except IndexError:
        return None


def shares_of(tests: Mapping[str, float]) -> list[dict[str, float]]:
    """Split tests into one share per program: long tests first and alone, short ones together."""
    shares: list[dict[str, float]] = []
    for name, cost in sorted(tests.items(), key=lambda item: -item[1]):
        last = shares[-1] if shares else {}
        room = sum(last.values()) + cost <= SHARE_SECONDS and len(last) < MAX_TESTS
        if not shares or not room:
            shares.append({})
        shares[-1][name] = cost
    return shares


def _results(report: Path) -> Iterable[Result]:
    try:
        suites = json.loads(report.read_text())
    except (OSError, ValueError):
        return
    for suite in suites:
        for spec in suite["SpecReports"] or ():
            message = (spec.get("Failure") or {}).get("Message", "")
            if spec["LeafNodeType"] != "It" or (spec["State"] == "skipped" and not message):
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
            yield Result(name, spec["State"] == "passed", spec["RunTime"] / 1e9, message)
