"""What suites share: the real cluster, started once for all that ask for it."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hack.cluster import Options, RealCluster, missing
from xdist.scheduler import LoadScopeScheduling

import variation
from hack import images

# Set where a suite that could not have its real cluster must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
# The name of a running cluster (`make cluster-up`) to use instead of starting one.
ATTACH = "TRAINCREW_REAL_CLUSTER"
IMAGES = ("operator", "helper", "chainermn", "busybox")
# Suites that share what there is only one of: the real cluster, and the place images are built.
SLOWEST = 40
SHARING = {"images", "real", "scenarios", "kubectl/comparison"}


def pytest_report_header() -> str:
    """Print the number that repeats a run."""
    return f"{variation.VARIABLE}={variation.NUMBER}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how long the tests of each file took, so that a run says where its time goes."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += round(report.duration)
    if seconds:
        terminalreporter.section("seconds of each file")
    for path, spent in seconds.most_common(SLOWEST):
        terminalreporter.write_line(f"{spent:5} s  {path}")


class Lanes(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Two lanes for pytest-xdist: suites mostly wait, but some share what is single."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("suites/")[2]
        return "real" if any(path.startswith(f"{each}/") for each in SHARING) else "embedded"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    """Tests of a lane run one after the other."""
    return Lanes(config, log)


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
