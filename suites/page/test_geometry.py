"""Lists and jobs of each length, in windows of each size, with odd names: whether it fits.

And what axe-core finds in them, and how a long list appears.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.keys import Keys
from suites.pages import PageProcess, Window, until

import traincrew
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import NAMESPACES

from . import many_pods
from .axe import violations
from .geometry import misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

LISTS = {"none": 0, "three": 3, "sixty": 60, "thousand": 1000}
METRICS = {"no-metric": 0, "one-metric": 1, "some-metrics": 24, "many-metrics": 199}
LONG_NAMESPACE = "a-namespace-".ljust(63, "n")
LONG = "a-name-of-as-many-letters-as-a-job-of-its-kind-has1"
RIGHT_TO_LEFT = "فقدان التدريب"
LONG_WORD = "Unbreakable" * 20
WINDOWS = {
    "360": (360, 740, 1),
    "920": (920, 700, 1),
    "1024": (1024, 768, 1),
    "1280": (1280, 800, 1),
    "2560": (2560, 1440, 1),
    "200 % of 1280": (640, 400, 2),
}
"""Width, height in CSS pixels, and pixels of the screen for each of them."""
DIRECTIONS = """
const found = [...document.querySelectorAll(".clipped")]
  .filter((each) => each.textContent.includes(arguments[0]));
return [...new Set(found.map((each) => getComputedStyle(each).direction))];
"""
THEME = "document.documentElement.dataset.theme = arguments[0]"
HOLD_FRAMES = """
window.held = [];
window.frame = window.requestAnimationFrame;
window.requestAnimationFrame = (wanted) => held.push(wanted);
"""
RELEASE_FRAMES = """
window.requestAnimationFrame = window.frame;
for (const wanted of held) requestAnimationFrame(wanted);
"""
BOTTOM = """
return [...document.querySelectorAll("tr[data-key]")].slice(-1)
  .map((each) => each.getBoundingClientRect().bottom);
"""
PRINTS = """
import json, time
NAMES = {names!r}
for step in range(6):
    for first in range(0, len(NAMES), 30):
        values = {{name: step * len(name) / 7 for name in NAMES[first : first + 30]}}
        print(json.dumps({{"step": step, **values}}), flush=True)
print({text!r}, flush=True)
time.sleep(3600)
"""


def names(count: int) -> list[str]:
    """Return names of metrics: a short, a long and a right-to-left one, and others."""
    odd = ["loss", "metric_".ljust(63, "m"), RIGHT_TO_LEFT]
    return [*odd, *(f"metric {number}" for number in range(count))][:count]


async def _create(client: Client) -> None:
    for name in (*LISTS, LONG_NAMESPACE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    for namespace, count in LISTS.items():
        for first in range(0, count, many_pods.AT_ONCE):
            numbers = range(first, min(first + many_pods.AT_ONCE, count))
            await asyncio.gather(*(_one_of_many(client, namespace, each) for each in numbers))


async def _one_of_many(client: Client, namespace: str, number: int) -> None:
    """Create a job of a list; some have failed, with messages that are hard to break."""
    name = f"{LONG[:40]}-{number}" if number % 3 == 0 else f"job-{number}"
    await many_pods.create_job(client, name, number % 40 + 1, namespace)
    if number % 3 == 1:
        message = (LONG_WORD, RIGHT_TO_LEFT * 9)[number % 2]
        failed = {"status": {"phase": "Failed", "message": message}}
        await client.patch(
            many_pods.ELASTIC_JOBS, name, namespace, patch=failed, subresource="status"
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster without an operator, so that jobs can have any status."""

    async def work() -> None:
        async with Client(load_config(str(running.kubeconfig))) as client:
            await _create(client)

    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        asyncio.run(work())
        for name, count in METRICS.items():
            many_pods.create(running, name, [], workers=1)
            program = PRINTS.format(names=names(count), text=f"{RIGHT_TO_LEFT} {LONG_WORD}")
            running.client.create(many_pods.printing(name, 0, program))
        statuses = [many_pods.running() for _ in range(3)]
        statuses[1] = many_pods.failed(3)
        many_pods.create(running, LONG, statuses, namespace=LONG_NAMESPACE)
        yield running


def sizes(window: Window) -> Iterator[str]:
    """Give the window each size, one after the other."""
    for name, size in WINDOWS.items():
        window.resize(*size)
        yield name


@contextlib.contextmanager
def listed(
    browser: webdriver.Chrome, cluster: traincrew.LocalCluster, namespace: str
) -> Iterator[Window]:
    """Show the jobs of a namespace, all of them."""
    page = PageProcess(cluster.environment, "-n", namespace)
    try:
        window = Window(browser, page)
        window.resize(1280, 800)
        window.open()
        count = LISTS[namespace]
        until(lambda: len(window.find("tr[data-key]")) == count, f"{count} jobs")
        yield window
        assert window.complaints() == []
        window.driver.get("about:blank")
    finally:
        code = page.end()
    assert code == 0


@pytest.mark.parametrize("namespace", LISTS)
def test_a_list_of_each_length(
    browser: webdriver.Chrome, cluster: traincrew.LocalCluster, namespace: str, axe: str
) -> None:
    with listed(browser, cluster, namespace) as window:
        if LISTS[namespace]:
            # What is read from right to left is cut at its end, which is on the left.
            word = RIGHT_TO_LEFT.split(maxsplit=1)[0]
            assert window.driver.execute_script(DIRECTIONS, word) == ["rtl"]
        problems = {size: misplaced(window) for size in sizes(window)}
        # A text has the same contrast in every row of its kind, and sixty rows have all kinds; what
        # axe-core compares in the whole page, such as identities, it finds without colours.
        colours = namespace != "thousand"
        for size, theme in (("360", "dark"), ("1280", "light")):
            window.resize(*WINDOWS[size])
            window.driver.execute_script(THEME, theme)
            problems[f"{size}, {theme}"] = violations(window, axe, colours=colours)
        assert not any(problems.values()), json.dumps(problems, indent=1, ensure_ascii=False)


def test_the_first_screen_waits_for_no_other_rows(
    browser: webdriver.Chrome, cluster: traincrew.LocalCluster
) -> None:
    with listed(browser, cluster, "thousand") as window:

        def names() -> list[str]:
            return window.texts("tr[data-key]:not([hidden]) a")

        # As if the first frame took long.
        window.driver.execute_script(HOLD_FRAMES)
        window.driver.execute_script("location.hash = '#/?sort=Job'")
        window.until_text("1,000 jobs", ".tools")
        first = names()
        assert len(first) < 100
        (bottom,) = window.driver.execute_script(BOTTOM)
        assert bottom > 800, "the screen is full"
        # What is looked for needs no row that is there already.
        search = window.find("input[type=search]")[0]
        search.send_keys("job-998")
        window.until_text("1 of 1,000 jobs", ".tools")
        assert names() == ["job-998"]
        search.send_keys(Keys.BACKSPACE * len("job-998"))
        until(lambda: len(names()) > 1, "the rows that are there")
        window.driver.execute_script(RELEASE_FRAMES)
        until(lambda: len(names()) == 1000, "the other rows")
        assert names()[: len(first)] == first
        assert names()[-1] == "job-998"


@pytest.mark.parametrize("name", METRICS)
def test_a_job_with_each_number_of_metrics(window: Window, name: str, axe: str) -> None:
    window.show(many_pods.address_of(name))
    diagrams = min(METRICS[name], 24)
    until(lambda: len(window.find(".curve .u-wrap")) == diagrams, f"{diagrams} diagrams")
    window.until_text(RIGHT_TO_LEFT, ".log")
    if METRICS[name] > diagrams:
        window.until_text("175 metrics more: find them by name.")
    problems = everywhere(window, axe)
    assert not problems, json.dumps(problems, indent=1, ensure_ascii=False)


def test_a_job_whose_names_are_as_long_as_names_can_be(window: Window, axe: str) -> None:
    window.show(many_pods.address_of(LONG, LONG_NAMESPACE))
    until(lambda: len(window.find(".few-pod")) == 3, "its pods")
    problems = everywhere(window, axe)
    assert not problems, json.dumps(problems, indent=1, ensure_ascii=False)


def everywhere(window: Window, axe: str) -> dict[str, Any]:
    """Return what is misplaced in each part of a job, in each size, and what axe-core finds."""
    problems = {}
    for size in sizes(window):
        for part in ("Overview", "Pods", "Log", "Events", "Manifest"):
            window.part(part)
            found = misplaced(window)
            if size == "1280":
                found += violations(window, axe)
            if found:
                problems[f"{size}, {part}"] = found
    return problems
