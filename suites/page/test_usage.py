"""Processors and memory of pods that really run, as the embedded cluster measures them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from suites.pages import Window, until

import traincrew

from . import many_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = {"few": 2, "crowd": 8}
WORKS = """
import time
kept = bytearray(40 << 20)
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.5)
"""
LIMITED = re.compile(r"0\.\d+ of 2 cores\s+(\d+) MiB of 512 MiB")


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A cluster with pods that work a little, without an operator."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        many_pods.install(running)
        for name, count in JOBS.items():
            many_pods.create(running, name, [], workers=count)
            for rank in range(count):
                pod = many_pods.printing(name, rank, WORKS)
                limits = {"cpu": "2", "memory": "512Mi"}
                requests = {"cpu": "10m", "memory": "10Mi"}
                pod["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": requests}
                running.client.create(pod)
        yield running


def words(window: Window, selector: str) -> str:
    return " ".join(" ".join(window.texts(selector)).split())


def test_each_of_a_few_pods_has_curves_and_values(window: Window) -> None:
    window.show(many_pods.address_of("few"))
    found = until(lambda: LIMITED.search(words(window, ".few-pod .usage")), "what a pod uses")
    assert 40 <= int(found[1]) <= 512
    until(lambda: len(window.find(".few-pod .usage polyline")) == 4, "curves of both pods")
    until(lambda: "of 4 cores" in words(window, ".all-pods"), "the sum of both")
    assert "1 GiB" in words(window, ".all-pods")
    assert not window.text(".unmeasured")


def test_a_square_and_a_row_have_them_as_well(window: Window) -> None:
    window.show(many_pods.address_of("crowd"))
    until(lambda: len(window.find(".square")) == JOBS["crowd"], "its pods")
    ActionChains(window.driver).move_to_element(window.find(".square")[3]).perform()
    until(lambda: LIMITED.search(words(window, ".about + .usage")), "what the pod uses")
    until(lambda: window.find(".about + .usage polyline"), "its curves")
    # The same by the keyboard.
    window.driver.execute_script("document.querySelectorAll('.square')[5].focus()")
    until(lambda: window.text(".about").startswith("Worker 5"), "another pod")
    assert LIMITED.search(words(window, ".about + .usage"))
    window.part("Pods")
    rows = until(
        lambda: (
            (found := window.texts(".pod-row .usage"))
            and all(LIMITED.search(" ".join(each.split())) for each in found)
            and found
        ),
        "what each pod uses",
    )
    assert len(rows) == JOBS["crowd"]
