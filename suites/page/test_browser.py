"""The page in a real browser, with jobs that really run."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from suites.pages import TRAINCREW, PageProcess, Window, until

from chainerjobs import chainer_job

if TYPE_CHECKING:
    from pathlib import Path

    import traincrew

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
TRAINING = """
import time
for epoch in range(1, 4001):
    print(f"epoch {epoch}/4000 loss {1 / epoch ** .5:.4f} accuracy={1 - 1 / epoch:.4f}", flush=True)
    time.sleep(0.05)
"""


def job(name: str, program: str, workers: int = 0, **policy: Any) -> dict[str, Any]:
    """Return a ChainerJob that runs a Python program in each of its pods."""
    command = ["python", "-c", program]
    return chainer_job(name, command, image="python:3.11", workers=workers, policy=policy)


def address_of(name: str) -> str:
    return f"ChainerJob.kubeflow.org/default/{name}"


def test_the_list_is_live(window: Window, cluster: traincrew.LocalCluster, tmp_path: Path) -> None:
    window.until_text("No jobs yet")
    cluster.client.create(job("quick", "print('done')"))
    cluster.client.create(job("wrong", "raise SystemExit(3)"))
    cluster.client.create(job("slow", TRAINING))
    for name, phase in (("quick", "Succeeded"), ("wrong", "Failed"), ("slow", "Running")):
        window.until_text(phase, f"tr[data-key$='/{name}']")
    window.until_text("3 jobs")
    window.picture("page-list", tmp_path)

    search = window.driver.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("fail")
    window.until_text("1 of 3 jobs")
    assert "wrong" in window.text("tbody")
    assert "quick" not in window.text("tbody")
    search.clear()
    search.send_keys("x", Keys.BACKSPACE)
    cluster.client.delete("chainerjob", "quick")
    window.until_text("2 jobs, ")
    window.until_text("Deleted", "tr[data-key$='/quick']")


def test_a_job_that_trains(window: Window, cluster: traincrew.LocalCluster, tmp_path: Path) -> None:
    cluster.client.create(job("curves", TRAINING))
    window.show(address_of("curves"))
    window.until_text("Running", "h1")
    window.until_text("loss", ".curve h3")
    window.until_text("accuracy", ".curve h3")
    window.until_text("% done", "main")
    window.until_text("master 0", ".timeline")
    window.until_text("epoch 9/4000", ".log")
    window.picture("page-job", tmp_path)
    # The first screen has the header, two curves, pods and timeline.
    window.resize(1280, 800)
    ends = """const {bottom} = document.querySelector(arguments[0]).getBoundingClientRect();
    return bottom <= innerHeight"""
    for selector in (".head", ".curve", ".curve + .curve", ".few-pod", ".timeline"):
        assert window.driver.execute_script(ends, selector), selector

    window.part("Events")
    window.until_text("Started", ".events")
    window.part("Manifest")
    window.until_text("kind: ChainerJob", ".manifest")
    cluster.client.delete("chainerjob", "curves")
    window.until_text("Deleted", "h1")


FAILING = """
def get(row):
    return row["label"]
{calls}
for step in range(1, 31):
    print(f"step {{step}}/100 loss {{1 / step:.4f}}")
call_7({{}})
""".format(
    calls="\n".join(
        f"def call_{n}(row): return {f'call_{n - 1}' if n else 'get'}(row)" for n in range(8)
    )
)


def test_a_failed_job_says_why_once(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    document = job("broken", FAILING)
    document["spec"]["master"]["backoffLimit"] = 0
    cluster.client.create(document)
    window.resize(1280, 800)
    window.show(address_of("broken"))
    window.until_text("Traceback (most recent call last)", ".panel")
    window.until_text("KeyError: 'label'", ".panel .raised")
    window.until_text("What to do:", ".panel")
    panel = window.text(".panel")
    assert len(window.text(".panel .last-lines").splitlines()) >= 10
    assert panel.count("KeyError: 'label'") == 2  # the cause, and the line that raised it
    # Where it stands: at once, with the first curve below it.
    top = window.driver.execute_script("return innerHeight")
    for selector in (".panel", ".curve .u-over"):
        box = window.find(selector)[0].rect
        assert box["y"] + box["height"] <= top, selector
    window.picture("page-failed", tmp_path)
    window.click(".panel button")
    chosen = window.driver.find_element(By.CSS_SELECTOR, "input[aria-label=Pod]")
    assert "broken-master" in (chosen.get_attribute("value") or "")
    cluster.client.delete("chainerjob", "broken")


def test_the_axis_is_what_the_program_counts(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    program = """
for step in range(1, 201):
    print(f"step {step * 10}/2000 loss {1 / step:.4f} accuracy={1 - 1 / step:.4f}")
"""
    cluster.client.create(job("counted", program))
    window.show(address_of("counted"))
    window.until_text("Succeeded", "h1")
    until(lambda: window.curve("loss"), "a curve")
    window.until_text("best 0.005000 at step 2,000", ".curve")
    until(lambda: window.value("step") == "2000", "the last step in the header")
    # All curves show the values of the place that is pointed at.
    (step, loss), (same, accuracy) = (tip.splitlines() for tip in window.point_at("loss", 0.5))
    assert step == same
    counted = int(step.removeprefix("step ").replace(",", "")) / 10
    assert 80 < counted < 120
    assert float(loss) == pytest.approx(1 / counted, abs=1e-4)
    assert float(accuracy) == pytest.approx(1 - 1 / counted, abs=1e-4)
    window.click("//button[text()='time']", By.XPATH)
    window.until_text("best 0.005000 at 0s", ".curve")
    window.click("//button[text()='smooth']", By.XPATH)
    until(lambda: window.find("button[aria-pressed=true]")[1].text == "smooth", "it is pressed")
    cluster.client.delete("chainerjob", "counted")


def test_a_part_that_is_looked_at_stays_while_the_job_trains(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    def last() -> int:
        step, _ = window.point_at("loss", 1)[0].splitlines()
        return int(step.removeprefix("step ").replace(",", ""))

    cluster.client.create(job("zoomed", TRAINING))
    window.show(address_of("zoomed"))
    until(lambda: int(window.value("epoch") or 0) > 40, "forty epochs")
    over = window.curve("loss").find_element(By.CSS_SELECTOR, ".u-over")
    quarter = over.size["width"] // 4
    drag = ActionChains(window.driver).move_to_element_with_offset(over, -quarter, 0)
    drag.click_and_hold().move_by_offset(quarter, 0).release().perform()
    part = last()
    then = int(window.value("epoch"))
    assert part < then - 10
    until(lambda: int(window.value("epoch")) > then + 20, "it goes on")
    assert last() == part
    # All diagrams show the same part, and all of it again after a double click.
    step = window.point_at("accuracy", 1)[1].splitlines()[0]
    assert step == f"step {part}"
    over = window.curve("loss").find_element(By.CSS_SELECTOR, ".u-over")
    ActionChains(window.driver).double_click(over).perform()
    until(lambda: last() > then, "all of it")
    cluster.client.delete("chainerjob", "zoomed")


def test_what_is_chosen_of_the_list_is_in_the_address(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    cluster.client.create(job("a-done", "print('x')"))
    cluster.client.create(job("b-wrong", "raise SystemExit(3)"))
    window.until_text("Succeeded", "tr[data-key$='/a-done']")
    window.until_text("Failed", "tr[data-key$='/b-wrong']")
    chip = "[data-phase=Failed]"
    until(lambda: window.find(chip), "a button for jobs that have failed")
    window.click(chip)
    until(lambda: "a-done" not in window.text("tbody"), "the others are hidden")
    assert window.driver.current_url.endswith("#/?phase=Failed")
    window.click("b-wrong", By.LINK_TEXT)
    window.until_text("All jobs")
    window.driver.back()
    pressed = f"{chip}[aria-pressed=true]"
    until(lambda: window.find(pressed) and "b-wrong" in window.text("tbody"), "the list")
    assert "a-done" not in window.text("tbody")
    window.driver.back()
    until(lambda: "a-done" in window.text("tbody"), "all jobs")
    window.click("//th/button[text()='Job']", By.XPATH)
    names = window.texts("tbody tr:not([hidden]) td.name")
    assert names == sorted(names)
    assert window.find("th[aria-sort=ascending]")[0].text.startswith("Job")
    for name in ("a-done", "b-wrong"):
        cluster.client.delete("chainerjob", name)


def test_the_log_can_be_searched(window: Window, cluster: traincrew.LocalCluster) -> None:
    program = "for n in range(3000): print('line', n, 'needle' if n == 1234 else 'hay')"
    cluster.client.create(job("haystack", program))
    window.show(address_of("haystack"))
    window.until_text("3,000 lines", ".tools")
    # Only what can be seen is drawn.
    assert len(window.find(".log .line")) < 100
    window.until_text("line 2999 hay", ".log")
    search = window.driver.find_element(By.CSS_SELECTOR, ".tools input[type=search]")
    search.send_keys("needle")
    window.until_text("1 lines", ".tools")
    window.until_text("line 1234", ".log")
    assert window.text(".log mark") == "needle"
    cluster.client.delete("chainerjob", "haystack")


def test_an_empty_list_offers_a_command_that_works_here(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}})
    page = PageProcess(cluster.environment, "-n", "fresh")
    try:
        fresh = Window(window.driver, page)
        fresh.open()
        fresh.until_text("No jobs yet")
        fresh.picture("page-empty", tmp_path)
        command = window.driver.execute_script(
            "return document.querySelector('.empty code').textContent"
        )
        path = f"{TRAINCREW.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["/bin/sh", "-c", command], env={**cluster.environment, "PATH": path}, check=True
        )
        fresh.until_text("Running", "tr[data-key$='/hello']")
        cluster.client.delete("chainerjob", "hello", "fresh")
        fresh.until_text("Deleted", "tr[data-key$='/hello']")
        fresh.until_text("0 jobs, 1 deleted")
    finally:
        window.driver.get("about:blank")  # before the server ends
        assert page.end() == 0


def test_a_scaled_job_is_marked(window: Window, cluster: traincrew.LocalCluster) -> None:
    cluster.client.create(job("crew", TRAINING, workers=1))
    window.show(address_of("crew"))
    window.until_text("Running", "h1")
    until(lambda: len(window.find(".few-pod")) == 2, "two pods")
    workers = {"ws0": {"replicas": 3}}
    cluster.client.patch("chainerjob", "crew", {"spec": {"workerSets": workers}})
    until(lambda: len(window.find(".few-pod")) == 4, "four pods")
    window.until_text("ws0 2", ".timeline")
    cluster.client.delete("chainerjob", "crew")


def test_a_job_that_waits_says_why(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    document = job("typo", "print('x')")
    document["spec"]["master"]["template"]["spec"]["containers"][0]["image"] = "nowhere/none:1"
    cluster.client.create(document)
    window.show(address_of("typo"))
    window.until_text("nowhere/none", ".panel")
    window.until_text("What to do:", ".panel")
    window.picture("page-why", tmp_path)
    cluster.client.delete("chainerjob", "typo")


def test_hostile_text_is_only_text(window: Window, cluster: traincrew.LocalCluster) -> None:
    program = f"""
import sys
print({HOSTILE!r}); print('\\x1b[2J\\x1b]0;title\\x07\\u202e hidden'); print('loss=nan acc=inf')
print('{{"' + {HOSTILE.replace('"', "'")!r} + '": 1}}')
print(' '.join(f'm{{n}}={{n}}' for n in range(10000)))
open('/dev/termination-log', 'w').write({HOSTILE!r})
sys.exit(1)
"""
    document = job("hostile", program)
    container = document["spec"]["master"]["template"]["spec"]["containers"][0]
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    cluster.client.create(document)
    window.show(address_of("hostile"))
    window.until_text("Failed", "h1")
    window.until_text("<script>document.title=2</script>", ".log")
    assert window.driver.title == "hostile · traincrew"
    assert window.find("main img, main script") == []
    assert "\u202e" not in window.text()
    cluster.client.delete("chainerjob", "hostile")


def test_the_keyboard_is_enough(window: Window, cluster: traincrew.LocalCluster) -> None:
    cluster.client.create(job("keys", "print('x')"))
    window.until_text("Succeeded", "tr[data-key$='/keys']")
    body = window.driver.find_element(By.TAG_NAME, "body")
    theme = "return document.documentElement.dataset.theme"
    before = window.driver.execute_script(theme)
    body.send_keys("t")
    assert window.driver.execute_script(theme) != before
    body.send_keys("/")
    focused = window.driver.switch_to.active_element
    assert focused.get_attribute("type") == "search"
    focused.send_keys("keys", Keys.ESCAPE)
    link = window.driver.find_element(By.LINK_TEXT, "keys")
    link.send_keys(Keys.ENTER)
    window.until_text("All jobs")
    window.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    until(lambda: window.text("h1") == "Jobs", "the list")


def test_it_fits_into_every_width(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    cluster.client.create(job("fits", TRAINING, workers=2))
    for width in (360, 800, 3840):
        window.resize(width, 1000)
        for place in ("", address_of("fits")):
            window.show(place)
            window.until_text("fits" if place else "Jobs", "h1")
            wide = window.driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, (width, place)
    window.resize(360, 1400)
    window.show(address_of("fits"))
    window.until_text("loss", ".curve h3")
    window.picture("page-narrow", tmp_path)
    window.show("")  # a page that asks why a job waits, just as it goes, is answered 404
    window.until_text("Jobs", "h1")
    cluster.client.delete("chainerjob", "fits")


def test_new_tabs_reload_and_bookmarks_need_no_address(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    driver = window.driver
    cluster.client.create(job("doors", "import time; time.sleep(600)"))
    first = driver.current_window_handle

    def opened() -> bool:
        link = driver.find_element(By.LINK_TEXT, "doors")
        ActionChains(driver).key_down(Keys.CONTROL).click(link).key_up(Keys.CONTROL).perform()
        return True

    until(opened, "the job is there")
    until(lambda: len(driver.window_handles) == 2, "a new tab")
    (other,) = set(driver.window_handles) - {first}
    driver.switch_to.window(other)
    window.until_text("doors", "h1")
    driver.refresh()
    window.until_text("doors", "h1")
    bookmark = driver.current_url
    driver.close()
    driver.switch_to.window(first)
    driver.switch_to.new_window("tab")
    driver.get(bookmark)
    window.until_text("doors", "h1")
    # The address that this browser has opened once is an entry of its history, too.
    driver.get("about:blank")
    driver.get(window.page.addresses[-2])
    window.until_text("Jobs", "h1")
    assert all("403" in each for each in window.complaints())
    driver.close()
    driver.switch_to.window(first)
    cluster.client.delete("chainerjob", "doors")


def test_an_address_that_was_used_says_so(window: Window) -> None:
    used = window.page.addresses[-2]
    window.driver.execute_script("localStorage.clear()")
    window.driver.get("about:blank")
    window.driver.get(used)
    window.until_text("this address was used already")
    assert any("403" in each for each in window.complaints())


def test_the_page_comes_back_after_a_restart_of_the_server(
    window: Window, cluster: traincrew.LocalCluster
) -> None:
    """A connection that breaks is reported, and so is a session of an earlier server."""
    other = PageProcess(cluster.environment)
    second = Window(window.driver, other)
    second.open()
    other.end()
    second.until_text("`traincrew ui` does not answer. Trying again…", "#connection")
    window.driver.get("about:blank")  # a page that stays tries again, and complains again
    assert window.complaints()


def test_warnings_are_listed_and_other_events_summed_up(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    cluster.client.create(job("calm", "import time; time.sleep(600)", workers=3))
    window.show(address_of("calm"))
    window.until_text("Running", "h1")
    window.part("Events")
    # Without warnings they are in sight; closed, one line says what happened.
    window.until_text("4 pods started", ".other-events summary")
    window.until_text("Started", ".other-events td")
    window.click(".other-events summary")
    until(lambda: not window.find(".other-events td")[0].is_displayed(), "they are closed")
    window.part("Overview")
    document = job("loud", "print('x')")
    document["spec"]["master"]["template"]["spec"]["containers"][0]["image"] = "nowhere/none:1"
    cluster.client.create(document)
    window.show(address_of("loud"))
    window.part("Events")
    window.until_text("nowhere/none", ".events > .scroll .why")
    window.until_text("pod scheduled", ".other-events summary")
    assert not window.find(".other-events")[0].get_attribute("open")
    window.picture("page-events", tmp_path)
    for name in ("calm", "loud"):
        cluster.client.delete("chainerjob", name)
