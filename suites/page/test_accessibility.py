"""What axe-core finds in the page, and whether what is shown fits: each state, in each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from suites.pages import Window, until

import traincrew

from . import checkers, many_pods
from .geometry import misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

FIND = """
const done = arguments[arguments.length - 1];
axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(
  ({violations}) => done(violations.flatMap(({id, impact, nodes}) =>
    nodes.map((node) => `${impact} ${id}: ${node.target} ${node.failureSummary}`))),
  (error) => done([String(error)]));
"""
LONG = "a-name-of-as-many-letters-as-a-job-of-its-kind-has1"
JOBS = {"few": 3, "crowd": 40, LONG: 1}
COMPARED = "#/compare?" + "&".join(f"job={many_pods.address_of(name)}" for name in JOBS)
SIZES = [(360, 740), (1280, 800), (2560, 1440)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster without an operator, so that pods can have any status."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        for name, count in JOBS.items():
            statuses = [many_pods.running() for _ in range(count)]
            if count > 3:
                statuses[7] = many_pods.failed(3)
                statuses[9] = many_pods.running(restarts=2)
                statuses[11] = many_pods.unscheduled()
            many_pods.create(running, name, statuses)
            many_pods.set_job(running, name, many_pods.reported(1, step=1, loss=0.5))
        yield running


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of axe-core."""
    made = tmp_path_factory.mktemp("axe")
    checkers.install(made)
    return (made / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["360", "1280", "2560"])
def test_each_state_in_each_size(
    window: Window, axe: str, size: tuple[int, int], theme: str
) -> None:
    window.resize(*size)
    window.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    window.driver.execute_script(axe)
    problems: dict[str, Any] = {}
    for name in ("", *JOBS):
        window.show(many_pods.address_of(name) if name else "")
        if not name:
            window.until_text(f"{len(JOBS)} jobs")
            window.find("td.select input")[0].click()
            problems["list"] = _problems(window)
            window.find("td.select input")[0].click()
            continue
        until(lambda: window.find(".few-pod, .square"), "its pods")
        for part in ("Overview", "Pods", "Log", "Events", "Manifest"):
            window.part(part)
            problems[f"{name} {part}"] = _problems(window)
    window.driver.execute_script("location.hash = arguments[0]", COMPARED)
    until(lambda: window.find(".legend .state.run"), "the jobs that are compared")
    problems["compared"] = _problems(window)
    lines = [f"{place}: {each}" for place, found in problems.items() for each in found]
    assert not lines, "\n".join(lines)


def _problems(window: Window) -> list[str]:
    found: list[str] = window.driver.execute_async_script(FIND)
    return found + misplaced(window)
