"""A job of 1,000 pods, and logs that are written faster than they can be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from suites.pages import Window, until

import traincrew

from . import many_pods
from .axe import violations
from .geometry import misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKERS = 1000
FLOOD = """
import time
for burst in range(150):
    print("\\n".join(f"line {burst * 4000 + n} of the flood" for n in range(4000)), flush=True)
    time.sleep(0.2)
"""
IS_SEEN = """
const box = arguments[0].getBoundingClientRect();
const hit = document.elementFromPoint(box.left + 5, box.top + box.height / 2);
return arguments[0].contains(hit);
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster without an operator, so that pods can have any status."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        statuses = [many_pods.running() for _ in range(WORKERS)]
        statuses[613] = many_pods.failed(3)
        statuses[77] = many_pods.running(restarts=2)
        statuses[800] = many_pods.unscheduled()
        many_pods.create(running, "large", statuses)
        yield running


def shown(window: Window) -> None:
    window.show(many_pods.address_of("large"))
    until(lambda: window.find("[role=tab]"), "the parts of the job")
    window.part("Pods")
    window.until_text("1,000 pods", ".pod-tools")


@pytest.mark.parametrize("width", [2560, 1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_not_well_is_seen_first(
    window: Window, axe: str, width: int, theme: str, tmp_path: Path
) -> None:
    window.resize(width, 900)
    script = "document.documentElement.dataset.theme = arguments[0]"
    window.driver.execute_script(script, theme)
    shown(window)
    rows = [row.text.splitlines()[:2] for row in window.find(".pod-row")[:4]]
    assert rows == [
        ["exit code 3", "Worker 613"],
        ["waiting for a node", "Worker 800"],
        ["running, 2 restarts", "Worker 77"],
        ["running", "Worker 0"],
    ]
    assert window.driver.execute_script(IS_SEEN, window.find(".pod-row")[0])
    states = [button.text for button in window.find(".states button")]
    assert states == ["1 exit code 3", "1 waiting for a node", "1 restarted", "998 running"]
    assert misplaced(window) == []
    assert violations(window, axe) == []
    window.picture(f"page-many-{width}-{theme}", tmp_path)
    window.part("Overview")
    until(lambda: len(window.find(".square")) == WORKERS, "a square for each pod")
    assert misplaced(window) == []
    assert violations(window, axe) == []


def test_only_rows_that_can_be_seen_are_drawn(window: Window) -> None:
    shown(window)
    assert len(window.find(".pod-row")) < 50
    assert len(window.find(".life")) < 50
    window.driver.execute_script("document.querySelector('.pod-list').scrollTop = 1e6")
    window.until_text("Worker 999", ".pod-list")
    window.part("Overview")
    assert len(window.find(".square")) == WORKERS
    window.driver.execute_script("document.querySelector('.timeline').scrollTop = 1e6")
    window.until_text("Worker 999", ".timeline")
    assert len(window.find(".life")) < 50
    # What a screen reader says of a bar, and where it is among all.
    last = window.find(".life")[-1]
    assert last.get_attribute("aria-posinset") == last.get_attribute("aria-setsize") == "1000"
    label = last.find_element(By.TAG_NAME, "svg").get_attribute("aria-label")
    assert label.startswith("Worker 999: waiting for a node ")
    assert ", running " in label


def test_the_keyboard_filters_and_opens_a_log(window: Window) -> None:
    shown(window)
    window.driver.find_element(By.TAG_NAME, "body").send_keys("f")
    search = window.driver.switch_to.active_element
    assert search.get_attribute("aria-label") == "Filter the pods"
    search.send_keys("node-99 running")
    window.until_text("8 of 1,000 pods", ".pod-tools")
    until(lambda: len(window.find(".life")) == 8, "the timeline shows the same pods")
    search.clear()
    search.send_keys("large-worker-613", Keys.TAB)  # to the list, which can be scrolled
    window.until_text("1 of 1,000 pods", ".pod-tools")
    window.driver.switch_to.active_element.send_keys(Keys.TAB)
    button = window.driver.switch_to.active_element
    assert button.get_attribute("aria-label") == "Log of large-worker-613"
    button.send_keys(Keys.ENTER)
    chosen = window.driver.find_element(By.CSS_SELECTOR, "input[aria-label=Pod]")
    assert chosen.get_attribute("value") == "large-worker-613"


def test_a_state_is_a_filter(window: Window) -> None:
    shown(window)
    button = window.find(".states button")[0]
    button.click()
    window.until_text("1 of 1,000 pods", ".pod-tools")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    window.until_text("1,000 pods", ".pod-tools")


def test_a_pod_that_fails_comes_first(window: Window, cluster: traincrew.LocalCluster) -> None:
    """The pod that somebody has selected keeps the focus meanwhile."""
    shown(window)
    focused = "return document.activeElement.getAttribute('aria-label')"
    window.driver.execute_script("document.querySelectorAll('.pod-row button')[3].focus()")
    assert window.driver.execute_script(focused) == "Log of large-worker-0"
    many_pods.change(cluster, "large", 500, many_pods.failed(9))
    window.until_text("1 exit code 9", ".states")
    until(lambda: "Worker 500" in window.text(".pod-row:nth-child(1)"), "it is the first")
    assert window.driver.execute_script(focused) == "Log of large-worker-0"
    many_pods.change(cluster, "large", 500, many_pods.running())


@pytest.mark.parametrize("width", [1280, 360])
def test_a_rank_that_is_behind_is_found_without_scrolling(
    window: Window, cluster: traincrew.LocalCluster, width: int, tmp_path: Path
) -> None:
    window.resize(width, 900)
    many_pods.report(cluster, "large", 432, 14.5, behind=True)
    shown(window)
    # After the pods that have failed, or wait for a node.
    row = until(
        lambda: next((row for row in window.find(".pod-row")[:3] if "behind" in row.text), None),
        "a row that says it",
    )
    state, place, *more = row.text.splitlines()
    assert (state, place) == ("running, behind", "Worker 432")
    words = "rank 432 is behind: 14.5%, the median is 47%"
    assert words in (row.get_attribute("title") or "")
    if width > 1000:
        assert words in more
    assert window.driver.execute_script(IS_SEEN, row)
    states = [button.text for button in window.find(".states button")]
    assert states[2:4] == ["1 behind", "1 restarted"]
    window.find(".states button")[2].click()
    window.until_text("1 of 1,000 pods", ".pod-tools")
    window.find(".states button")[2].click()
    assert window.driver.execute_script("return document.documentElement.scrollWidth") <= width
    window.picture(f"page-behind-{width}", tmp_path)

    many_pods.report(cluster, "large", 432, 46, behind=False)
    until(lambda: "behind" not in window.text(".pod-list"), "it is not behind any more")


def test_a_flood_of_lines_is_counted_and_the_page_answers(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    many_pods.create(cluster, "flood", [], workers=1)
    cluster.client.create(many_pods.printing("flood", 0, FLOOD))
    window.show(many_pods.address_of("flood"))
    window.until_text("more came too fast to be shown", ".tools")
    theme = "return document.documentElement.dataset.theme"
    before = window.driver.execute_script(theme)
    window.driver.find_element(By.ID, "theme").click()
    assert window.driver.execute_script(theme) != before
    window.driver.find_element(By.CSS_SELECTOR, ".tools label").click()  # ends following
    search = window.driver.find_element(By.CSS_SELECTOR, ".tools input[type=search]")
    search.send_keys("lines are missing")
    window.until_text("lines are missing here", ".log")
    cluster.client.delete("pod", many_pods.pod_name("flood", 0))
