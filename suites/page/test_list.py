"""The list of jobs in a real browser: what a row shows, jobs that are selected, and deleted ones.

Without an operator, so that jobs have any status, and its numbers are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from suites.pages import Window, until

import traincrew

from . import many_pods

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster without an operator."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        yield running


def row(name: str) -> str:
    return f"tr[data-key='{many_pods.address_of(name)}']"


def box(name: str) -> str:
    return f"{row(name)} input[type=checkbox]"


def test_a_row_shows_metric_and_pods(window: Window, cluster: traincrew.LocalCluster) -> None:
    many_pods.create(cluster, "trains", [], workers=4)
    many_pods.create(cluster, "large", [], workers=1000)
    counts = {"Worker": {"ready": 2, "failed": 1}}
    many_pods.set_job(cluster, "trains", {"replicaStatuses": counts})
    many_pods.set_job(cluster, "large", {"replicaStatuses": {"Worker": {"ready": 998}}})
    for number, loss in enumerate((4, 2, 1.25), 1):
        report = many_pods.reported(number, step=number, loss=loss)
        many_pods.set_job(cluster, "trains", report)
        window.until_text(str(loss), f"{row('trains')} .metric")
    (line,) = window.find(f"{row('trains')} .spark polyline")
    heights = [pair.partition(",")[2] for pair in line.get_attribute("points").split(" ")]
    assert heights == ["1", "12.6", "17"]
    assert window.find(f"{row('trains')} .spark")[0].get_attribute("aria-label") == "loss"
    # A dot for each pod; of many, shares.
    dots = f"{row('trains')} .dots"
    assert window.find(dots)[0].get_attribute("aria-label") == "2 running, 1 failed, 1 not ready"
    classes = [each.get_attribute("class") for each in window.find(f"{dots} i")]
    assert classes == ["dot run", "dot bad", "dot wait"]
    assert [each.text for each in window.find(f"{dots} i")] == ["■■", "✕", "◌"]
    assert len("".join(each.text for each in window.find(f"{row('large')} .dots i"))) == 10
    assert "998/1,000" in window.text(f"{row('large')} .pods")
    # One line, as high as another.
    assert len({each.size["height"] for each in window.find("tbody tr")}) == 1
    for name in ("trains", "large"):
        cluster.client.delete("elasticjob", name)


def test_jobs_are_selected_by_keys(window: Window, cluster: traincrew.LocalCluster) -> None:
    names = [f"chosen-{number}" for number in range(9)]
    for name in names:
        many_pods.create(cluster, name, [], workers=1)
    until(lambda: all(window.find(box(name)) for name in names), "all jobs")
    assert not window.find(".selected")[0].is_displayed()
    body = window.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    window.driver.switch_to.active_element.send_keys("x")
    window.until_text("1 selected", ".selected")
    window.driver.switch_to.active_element.send_keys("j", "x")
    window.until_text("2 selected", ".selected")
    window.driver.switch_to.active_element.send_keys("x")
    window.until_text("1 selected", ".selected")
    # What is selected stands in the address.
    window.driver.refresh()
    window.until_text("1 selected", ".selected")
    until(lambda: len(window.find("tbody input:checked")) == 1, "its box")
    for name in names:
        if len(window.find("tbody input:checked")) < 8 and not window.find(f"{box(name)}:checked"):
            window.find(box(name))[0].send_keys(Keys.SPACE)
    window.until_text("8 selected, which is the most", ".selected")
    others = window.find("tbody input:not(:checked)")
    assert others
    assert not any(each.is_enabled() for each in others)
    window.driver.find_element(By.XPATH, "//button[text()='Clear']").click()
    until(lambda: not window.find("tbody input:checked"), "none is selected")
    assert "job=" not in window.driver.current_url
    for name in names:
        cluster.client.delete("elasticjob", name)


def test_a_job_that_was_deleted_stays(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    many_pods.create(cluster, "past", [], workers=2)
    status = {"phase": "Failed", "reason": "ExitCode", "message": "KeyError: 'label'"}
    many_pods.set_job(cluster, "past", {**status, **many_pods.reported(7, loss=0.5)})
    window.until_text("Failed", row("past"))
    cluster.client.delete("elasticjob", "past")
    window.until_text("Deleted", row("past"))
    window.until_text("It was Failed before it was deleted. KeyError", row("past"))
    assert "0.5" in window.text(f"{row('past')} .metric")
    # Also in a window that is opened later.
    window.open()
    window.until_text("Deleted", row("past"))
    window.picture("page-deleted", tmp_path)
    # Its page has what is known, although nobody has opened it before.
    window.show(many_pods.address_of("past"))
    window.until_text("Deleted", "h1")
    window.until_text("It was Failed before it was deleted. KeyError: 'label'")
    window.show("")
    # A new job of this name takes its place.
    many_pods.create(cluster, "past", [], workers=2)
    window.until_text("Running", row("past"))
    assert window.text(f"{row('past')} .metric") == ""
    cluster.client.delete("elasticjob", "past")


LOSSES = {"first": (4, 2, 1), "second": (8, 6, 5, 4.5)}


def values(window: Window) -> dict[str, str]:
    """Return the values in the legend of a comparison, by the names of jobs."""
    cells = window.texts(".legend td.name, .legend td.name + td + td")
    return dict(zip(cells[::2], cells[1::2], strict=True))


def test_jobs_are_compared(window: Window, cluster: traincrew.LocalCluster, tmp_path: Path) -> None:
    for name in LOSSES:
        many_pods.create(cluster, name, [], workers=1)
    for name in LOSSES:
        until(lambda name=name: window.find(box(name)), "its row")  # type: ignore[misc]
        window.find(box(name))[0].click()
    window.find(box("first"))[0].send_keys("c")
    window.until_text("2 jobs compared", "h1")
    window.until_text("No metrics yet")
    for number in range(4):
        for name, losses in LOSSES.items():
            if number < len(losses):
                step, loss = (number + 1) * 10, losses[number]
                report = many_pods.reported(number + 1, step=step, loss=loss, other=step)
                many_pods.set_job(cluster, name, report)
                window.until_text(f"{loss}", f".legend [data-key$='/{name}'] td:nth-child(3)")
    assert values(window) == {"first": "1", "second": "4.500"}
    # By step: both are pointed at in the same place.
    assert window.find(".choice button[aria-pressed=true]")[0].text == "step"
    window.point_at("loss", 1 / 3)
    window.until_text("step 20", ".legend thead")
    assert values(window) == {"first": "2", "second": "6"}
    window.point_at("loss", 1)
    window.until_text("step 40", ".legend thead")
    assert values(window) == {"first": "", "second": "4.500"}
    window.picture("page-compare", tmp_path)
    # What is chosen stands in the address.
    window.driver.find_element(By.XPATH, "//button[text()='time']").click()
    window.driver.find_element(By.XPATH, "//option[text()='other']").click()
    address = window.driver.current_url
    assert "metric=other" in address
    assert "axis=time" in address
    window.driver.refresh()
    until(lambda: values(window) == {"first": "30", "second": "40"}, "the other metric")
    assert window.find(".choice button[aria-pressed=true]")[0].text == "time"
    window.driver.back()
    until(lambda: values(window) == {"first": "1", "second": "4.500"}, "the metric before")
    window.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    window.until_text("2 selected", ".selected")
    for name in LOSSES:
        cluster.client.delete("elasticjob", name)


SAVED = """
window.saved = [];
URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return "#/"; };
HTMLAnchorElement.prototype.click = () => {};
"""
"""Keeps the files that the page would save."""


def test_eight_jobs_are_compared_and_saved(window: Window, cluster: traincrew.LocalCluster) -> None:
    names = [f"eighth-{number}" for number in range(8)]
    for name in names:
        many_pods.create(cluster, name, [], workers=1)
    jobs = "&".join(f"job={many_pods.address_of(name)}" for name in names)
    window.driver.execute_script("location.hash = arguments[0]", f"#/compare?{jobs}")
    window.until_text("8 jobs compared", "h1")
    losses = {name: (number + 2, number + 1.5) for number, name in enumerate(names)}
    for number in range(2):
        for name, values_of in losses.items():
            report = many_pods.reported(number + 1, step=number + 1, loss=values_of[number])
            many_pods.set_job(cluster, name, report)
            row = f".legend [data-key$='/{name}'] td:nth-child(3)"
            window.until_text(f"{values_of[number]}", row)
    assert {name: float(value) for name, value in values(window).items()} == {
        name: last for name, (_, last) in losses.items()
    }
    window.driver.execute_script(SAVED)
    window.driver.find_element(By.XPATH, "//button[text()='CSV']").click()
    (table,) = until(lambda: window.driver.execute_script("return saved"), "the file")
    head, *rows = [line.split(",") for line in table.strip().splitlines()]
    assert len(head) == 9
    assert [[float(cell) for cell in row] for row in rows] == [
        [step + 1, *(found[step] for found in losses.values())] for step in range(2)
    ]
    for name in names:
        cluster.client.delete("elasticjob", name)
