"""What suites share: the choice of tests, their results, and the real cluster, started once."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hack.cluster import Options, RealCluster, missing
from suites import parts, results
from xdist.scheduler import LoadScopeScheduling

import variation
from hack import images

# Set where a suite that could not have its real cluster must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
# The name of a running cluster (`make cluster-up`) to use instead of starting one.
ATTACH = "TRAINCREW_REAL_CLUSTER"
IMAGES = ("operator", "helper", "chainermn", "busybox")
# How many units are listed with their seconds.
SLOWEST = 40


def pytest_report_header() -> str:
    """Print the number that repeats a run."""
    return f"{variation.VARIABLE}={variation.NUMBER}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are not in the part that this run has."""
    if (part := os.environ.get(parts.VARIABLE)) is None:
        return
    units = {item: parts.unit_of(item.nodeid) for item in items}
    chosen = parts.chosen(parts.read(), units.values(), int(part))
    config.hook.pytest_deselected(items=[item for item in items if units[item] not in chosen])
    items[:] = [item for item in items if units[item] in chosen]


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Groups of suites for pytest-xdist: suites mostly wait, but some share what is single."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._plan = parts.read()

    def _split_scope(self, nodeid: str) -> str:
        return parts.group_of(parts.unit_of(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        waiting = {group: map(parts.unit_of, tests) for group, tests in self.workqueue.items()}
        self.workqueue.move_to_end(parts.first(self._plan, waiting), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Tests of a group run one after the other."""
    return Groups(config, log)


class Recorder:
    """Collects the results of a run, and writes them where the environment says."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._skipped: set[str] = set()
        self._failures: dict[str, results.Failure] = {}
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how one phase of a test ended."""
        test = report.nodeid
        self._seconds[parts.unit_of(test)] += report.duration  # type: ignore[assignment]
        if report.failed:
            self._failures.setdefault(test, results.Failure(test, report.longreprtext))
        elif report.skipped:
            self._skipped.add(test)
        elif report.when == "call":
            self._passed.add(test)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how long the tests of each unit took, so that a run says where its time goes."""
        if self._seconds:
            terminalreporter.section("seconds of each unit")
        for unit, spent in self._seconds.most_common(SLOWEST):
            terminalreporter.write_line(f"{spent:5.0f} s  {unit}")

    def pytest_sessionfinish(self) -> None:
        """Pass the results on to the process that started this run."""
        if not (file := os.environ.get(results.VARIABLE)):
            return
        found = results.Results(
            passed=len(self._passed - self._failures.keys()),
            skipped=len(self._skipped - self._failures.keys()),
            failures=tuple(self._failures.values()),
            seconds=dict(self._seconds),
        )
        results.write(Path(file), found)


def pytest_configure(config: pytest.Config) -> None:
    """Collect results in the process that has all of them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "suites-recorder")


def require_real_cluster() -> None:
    """Skip, saying everything that is missing; where one is required, fail instead."""
    lacking = [*missing(), *images.missing()]
    if not lacking:
        return
    text = "a real cluster cannot run here; missing: " + "; ".join(lacking)
    if os.environ.get(REQUIRE):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[RealCluster]:
    """A real cluster of two nodes with the project's images; tests leave it healthy."""
    if name := os.environ.get(ATTACH):
        yield RealCluster.attach(name)
        return
    require_real_cluster()
    archives = [images.build(name) for name in IMAGES]
    with RealCluster(Options("suites", nodes=2), print) as cluster:
        cluster.load_images(archives)
        yield cluster
