"""The log of a job in a real browser: colours, wrapped lines, times, matches, earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from suites.pages import Window, until

from .test_browser import address_of, job

if TYPE_CHECKING:
    from pathlib import Path

    import traincrew

PROGRAM = r"""
print("\x1b[1;31mred\x1b[0m plain \x1b[38;5;46mgreen \x1b[2J\x1b]0;title\x07kept\x1b[0m")
print("<b>bold</b> \x1b[31m<img src=x onerror='document.title=1'>")
print("loss=\x1b[32m0.25\x1b[0m")
for number in range(400):
    print("line", number, "needle" if number % 100 == 50 else "hay")
print("long", "x" * 1000, "end")
"""
RESTARTED = """
import pathlib, time
marker = pathlib.Path("/mark/ran")
if not marker.exists():
    marker.touch()
    print("first run")
    raise SystemExit(3)
print("second run", flush=True)
time.sleep(600)
"""


def switch(window: Window, label: str) -> None:
    window.driver.find_element(By.XPATH, f"//label[contains(., '{label}')]/input").click()


def test_lines_are_coloured_wrapped_and_timed(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    cluster.client.create(job("colours", PROGRAM))
    window.show(address_of("colours"))
    window.until_text("Succeeded", "h1")
    window.until_text("loss", ".curve h3")
    assert "0.2500" in window.curve("loss").text
    window.part("Log")
    window.until_text("404 lines", ".tools")
    switch(window, "Follow")
    window.driver.execute_script("document.querySelector('.log').scrollTop = 0")
    window.until_text("red plain green kept", ".log")
    assert window.texts(".log .ansi-red") == ["red", "<img src=x onerror='document.title=1'>"]
    assert window.text(".log .ansi-bold") == "red"
    assert window.texts(".log .ansi-green")[0] == "green kept"
    assert window.find(".log img, .log b") == []
    assert window.driver.title == "colours · traincrew"
    window.picture("page-log", tmp_path)

    switch(window, "Times")
    until(lambda: window.texts(".log .pod")[0].count(":") == 2, "times")
    switch(window, "Follow")
    window.until_text("end", ".log")
    wide = "const log = document.querySelector('.log'); return log.scrollWidth > log.clientWidth"
    assert window.driver.execute_script(wide)
    switch(window, "Wrap")
    until(lambda: not window.driver.execute_script(wide), "all of the line is in sight")
    until(lambda: "".join(window.texts(".log .line")).count("x") >= 1000, "the whole line")
    # It stays so.
    window.driver.refresh()
    window.part("Log")
    window.until_text("404 lines", ".tools")
    assert window.driver.find_element(By.XPATH, "//label[contains(., 'Wrap')]/input").is_selected()
    window.driver.execute_script("localStorage.clear()")
    cluster.client.delete("chainerjob", "colours")


def test_matches_follow_each_other(window: Window, cluster: traincrew.LocalCluster) -> None:
    cluster.client.create(job("matches", PROGRAM))
    window.show(address_of("matches"))
    window.part("Log")
    window.until_text("404 lines", ".tools")
    search = window.driver.find_element(By.CSS_SELECTOR, "[aria-label='Search the log']")
    search.send_keys("needle")
    window.until_text("4 lines", ".tools")
    switch(window, "Only matches")
    window.until_text("404 lines, 4 match", ".tools")
    search.send_keys(Keys.ENTER)
    for key, number in (("", 50), ("n", 150), ("N", 50), ("N", 350), ("n", 50)):
        window.driver.switch_to.active_element.send_keys(key)
        window.until_text(f"line {number} needle", ".log .current")
        assert window.text(".log .current mark") == "needle"
        # It is in sight, with what stands around it.
        window.until_text(f"line {number - 1} hay", ".log")
    cluster.client.delete("chainerjob", "matches")


def runs_again(cluster: traincrew.LocalCluster, job: str) -> bool:
    """Return whether a container of the job runs that was restarted."""
    pods = cluster.client.list("pods")
    own = [each for each in pods if each["metadata"]["name"].startswith(job)]
    statuses = [each.get("status", {}).get("containerStatuses", ()) for each in own]
    return any(
        one["restartCount"] == 1 and "running" in one["state"]
        for several in statuses
        for one in several
    )


def worker_in(window: Window) -> str:
    """Return the name of the worker that the log offers; empty without one."""
    pods = [each.get_attribute("value") or "" for each in window.find("datalist option")]
    return next((each for each in pods if "master" not in each), "")


def test_what_a_container_printed_before_its_restart(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    document = job("again", "import time; time.sleep(600)", workers=1)
    workers = document["spec"]["workerSets"]["ws0"]["template"]["spec"]
    workers["volumes"] = [{"name": "mark", "emptyDir": {}}]
    workers["containers"][0] |= {
        "command": ["python", "-c", RESTARTED],
        "volumeMounts": [{"name": "mark", "mountPath": "/mark"}],
    }
    cluster.client.create(document)
    # A page that is opened later has not read the first run.
    until(lambda: runs_again(cluster, "again"), "the restart")
    window.show(address_of("again"))
    window.part("Log")
    window.until_text("second run", ".log")
    button = "//button[text()='Previous run']"
    assert not window.driver.find_element(By.XPATH, button).is_displayed()
    name = until(lambda: worker_in(window), "its pod can be chosen")
    window.driver.find_element(By.CSS_SELECTOR, "input[aria-label=Pod]").send_keys(name)
    until(lambda: window.driver.find_element(By.XPATH, button).is_displayed(), "the button")
    window.driver.find_element(By.XPATH, button).click()
    window.until_text("What again-worker", ".log .gap")
    assert "first run" in window.text(".log")
    assert "second run" not in window.text(".log")
    window.driver.find_element(By.XPATH, button).click()
    window.until_text("second run", ".log")
    cluster.client.delete("chainerjob", "again")
