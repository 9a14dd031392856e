"""What axe-core finds in the page, and whether what is shown fits: each state, in each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from suites.pages import Window, until

import traincrew
from variation import has_turn

from . import many_pods
from .axe import violations
from .geometry import misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = "a-name-of-as-many-letters-as-a-job-of-its-kind-has1"
JOBS = {"few": 3, "crowd": 40, LONG: 1, "failed": 2, "held": 0, "waits": 2}
STATES: dict[str, dict[str, Any]] = {
    "failed": {"phase": "Failed", "reason": "ExitCode", "message": "ValueError: no such label"},
    "held": {"phase": "Suspended", "replicaStatuses": {}},
    "waits": {"phase": "Restarting", "message": "A worker was lost; the others wait for it."},
}
COMPARED = "#/compare?" + "&".join(f"job={many_pods.address_of(name)}" for name in JOBS)
SIZES = {"360": (360, 740), "1280": (1280, 800), "2560": (2560, 1440)}
# A theme changes colours only, a size places only: each state is judged in every size, and in both
# themes at the size that shows every column; the two other pairs take turns.
OTHERS = [("360", "light"), ("2560", "dark")]
SHOWN = [
    *[("360", "dark"), ("1280", "light"), ("1280", "dark"), ("2560", "light")],
    *(pair for place, pair in enumerate(OTHERS) if has_turn(place, turns=2)),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster without an operator, so that pods can have any status."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        for name, count in JOBS.items():
            statuses = [many_pods.running() for _ in range(count)]
            if name == "failed":
                statuses[0] = many_pods.failed(3)
            if name == "waits":
                statuses = [many_pods.unscheduled(), many_pods.running(restarts=2)]
            if count > 3:
                statuses[7] = many_pods.failed(3)
                statuses[9] = many_pods.running(restarts=2)
                statuses[11] = many_pods.unscheduled()
            many_pods.create(running, name, statuses, workers=max(count, 1))
            report = many_pods.reported(1, step=1, loss=0.5)
            many_pods.set_job(running, name, {**report, **STATES.get(name, {})})
        yield running


@pytest.mark.parametrize(("size", "theme"), SHOWN)
def test_each_state_in_each_size(window: Window, axe: str, size: str, theme: str) -> None:
    window.resize(*SIZES[size])
    window.driver.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    problems: dict[str, Any] = {}
    for name in ("", *JOBS):
        window.show(many_pods.address_of(name) if name else "")
        if not name:
            window.until_text(f"{len(JOBS)} jobs")
            window.click("td.select input")
            problems["list"] = _problems(window, axe)
            window.click("td.select input")
            continue
        if JOBS[name]:
            until(lambda: window.find(".few-pod, .square"), "its pods")
        if name in STATES:
            window.until_text(STATES[name]["phase"], "h1")
        for part in (
            "Overview",
            "Pods",
            *(() if name in STATES else ("Log", "Events", "Manifest")),
        ):
            window.part(part)
            problems[f"{name} {part}"] = _problems(window, axe)
    window.driver.execute_script("location.hash = arguments[0]", COMPARED)
    until(lambda: window.find(".legend .state.run"), "the jobs that are compared")
    problems["compared"] = _problems(window, axe)
    lines = [f"{place}: {each}" for place, found in problems.items() for each in found]
    assert not lines, "\n".join(lines)


def _problems(window: Window, axe: str) -> list[str]:
    return violations(window, axe) + misplaced(window)
