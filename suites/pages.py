"""`traincrew ui` and a browser that shows it, for the suites of either cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TRAINCREW = Path(sys.executable).with_name("traincrew")
SECONDS = 60.0
TRAINING_SECONDS = 300.0
"""Workers start Python and PyTorch, and meet again when one joins, on machines that are shared."""
PICTURES = "TRAINCREW_PICTURES"
"""A directory for the screenshots of the guide; without it they are only taken."""
_TEXTS = """
const found = [...document.querySelectorAll(arguments[0])];
return found.map((each) => (each.innerText ?? "").trim());
"""
_MARKS = """
const [canvas] = arguments, {width, height} = canvas;
const copy = Object.assign(document.createElement("canvas"), {width, height});
const context = copy.getContext("2d", {willReadFrequently: true});
context.drawImage(canvas, 0, 0);
const pixels = context.getImageData(0, 0, width, height).data;
const style = getComputedStyle(document.documentElement).getPropertyValue("color-scheme");
const wanted = style === "dark" ? [227, 179, 65] : [138, 90, 0];
let marks = 0, before = false;
for (let x = 0; x < width; x++) {
  let found = 0;
  for (let y = 0; y < height; y++) {
    const at = 4 * (y * width + x);
    const like = wanted.every((value, i) => Math.abs(value - pixels[at + i]) < 40);
    if (like && pixels[at + 3] > 100) found++;
  }
  if (found > height / 5 && !before) marks++;
  before = found > height / 5;
}
return marks;
"""
"""Counts the vertical lines in the colour of marks; their dashes are half of their length."""


def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait until a condition is true; return its value."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except WebDriverException:
            pass  # the page was drawn again meanwhile
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


class PageProcess:
    """`traincrew ui`, whose addresses can be opened once each.

    Args:
        environment: Variables, which may choose the cluster.
        words: More of its command line.
    """

    def __init__(self, environment: Mapping[str, str], *words: str) -> None:
        self.addresses: list[str] = []
        self._process = subprocess.Popen(
            [TRAINCREW, "ui", *words],
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip().startswith("http://"):
                self.addresses.append(line.strip())

    @property
    def pid(self) -> int:
        return self._process.pid

    def address(self) -> str:
        """Return an address that nobody has opened yet."""
        found: str = until(lambda: self.addresses and self.addresses[-1], "an address is printed")
        return found

    def end(self) -> int:
        self._process.terminate()
        code = self._process.wait(SECONDS)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


class Window:
    """A window of the browser."""

    def __init__(self, driver: webdriver.Chrome, page: PageProcess) -> None:
        self.driver = driver
        self.page = page
        self.base = page.address().partition("#")[0]
        driver.get("about:blank")
        self.complaints()  # those about another page

    def open(self) -> None:
        """Open the page with a new session, at the list."""
        known = len(self.page.addresses)
        self.driver.get("about:blank")
        self.driver.get(self.page.address())
        until(lambda: self.find("h1"), "the page is drawn")
        until(lambda: len(self.page.addresses) > known, "the next address is printed")

    def show(self, job: str) -> None:
        """Show a job: KIND.GROUP/NAMESPACE/NAME; the list if it is empty."""
        address = f"#/job/{job}" if job else "#/"
        self.driver.execute_script("location.hash = arguments[0]", address)

    def find(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return "\n".join(self.texts(selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements, at one moment: the page is drawn again at any time."""
        found: list[str] = self.driver.execute_script(_TEXTS, selector)
        return found

    def until_text(self, wanted: str, selector: str = "main") -> None:
        until(lambda: wanted in self.text(selector), f"{wanted!r} in {selector}")

    def click(self, place: str, by: str = By.CSS_SELECTOR) -> None:
        """Click an element as soon as it is there; it may be drawn again between the two."""

        def clicked() -> bool:
            self.driver.find_element(by, place).click()
            return True

        until(clicked, f"a click on {place}")

    def part(self, name: str) -> None:
        """Choose a part of a job, such as `Pods`."""
        self.click(f"#part-{name.lower()}-tab")

    def value(self, name: str) -> str:
        """Return a value in the header of a job, such as that of `epoch`; empty without it."""
        for each in self.texts(".head .progress span"):
            found, _, value = each.rpartition(" ")
            if found == name:
                return value
        return ""

    def curve(self, metric: str) -> Any:
        """Return the section with the curve of a metric."""
        return next((each for each in self.find(".curve")
                     if each.find_element(By.TAG_NAME, "h3").text == metric), None)  # fmt: skip

    def marks(self, metric: str) -> int:
        """Count the vertical marks that are drawn in the curve of a metric."""
        canvas = self.curve(metric).find_element(By.TAG_NAME, "canvas")
        return int(self.driver.execute_script(_MARKS, canvas))

    def tips(self) -> list[str]:
        """Return what each curve shows of the place that is pointed at."""
        found: list[str] = self.driver.execute_script(_TEXTS, ".tip:not([hidden])")
        return found

    def point_at(self, metric: str, fraction: float) -> list[str]:
        """Point at a curve, this far from its left to its right end; return what all show."""
        title = self.curve(metric).find_element(By.TAG_NAME, "h3")
        ActionChains(self.driver).move_to_element(title).perform()
        until(lambda: not self.tips(), "no values where nothing is pointed at")

        def pointed() -> list[str]:
            # Measured each time: the page may just give a curve another width.
            over = self.curve(metric).find_element(By.CSS_SELECTOR, ".u-over")
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
            offset = int((fraction - 0.5) * (over.size["width"] - 4))
            action = ActionChains(self.driver).move_to_element_with_offset(over, offset, 0)
            action.pause(0.1).perform()
            return self.tips()

        found: list[str] = until(pointed, f"values of {metric}")
        return found

    def value_at(self, metric: str, fraction: float) -> float:
        """Point at a curve; return its value there."""
        metrics = [each.text for each in self.find(".curve h3")]
        tip = self.point_at(metric, fraction)[metrics.index(metric)]
        return float(tip.splitlines()[1].split()[-1])

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Give the window a size in CSS pixels, of each of which the screen has `scale`."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": height,
                "deviceScaleFactor": scale,
                "mobile": width < 700 and scale == 1,
            },
        )

    def picture(self, name: str, directory: Path) -> Path:
        """Take a screenshot."""
        place = Path(os.environ.get(PICTURES) or directory)
        path = place / f"{name}.png"
        assert self.driver.save_screenshot(str(path))
        return path

    def complaints(self) -> list[str]:
        """Return what the browser has reported since the last call: errors, refused scripts."""
        entries: list[Any] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries]


def chromium() -> webdriver.Chrome:
    """Start a headless Chromium of the system."""
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--force-color-profile=srgb"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """A headless Chromium of the system."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if lacking:
        text = f"the page cannot be tried here; missing: {', '.join(lacking)} (Debian's packages)"
        if os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    driver = chromium()
    yield driver
    driver.quit()


def scaled_while_it_trains(
    window: Window, scale: Callable[[], object], picture: str, directory: Path
) -> None:
    """See how the job of examples/elastic goes on when it becomes three workers.

    Args:
        window: Shows the job.
        scale: Scales it to three workers.
        picture: Name of the screenshot.
        directory: Where that is, unless it is for the guide.
    """
    accuracy = "validation accuracy"

    def epoch() -> int:
        return int(window.value("epoch") or 0)

    def running() -> int:
        return sum("running" in text for text in window.texts(".few-pod"))

    until(lambda: window.curve(accuracy), "a curve", TRAINING_SECONDS)
    until(lambda: epoch() >= 3, "three epochs", TRAINING_SECONDS)
    until(lambda: running() == 2, "two workers")
    assert "Worker 2" not in window.text(".timeline")
    assert window.marks(accuracy) == 0
    scale()
    until(lambda: running() == 3, "three workers", TRAINING_SECONDS)
    window.until_text("Worker 2", ".timeline")
    until(lambda: window.marks(accuracy) == 1, "a mark where the job was scaled")
    until(lambda: "3 process(es), from epoch" in window.text(".log"), "3 train", TRAINING_SECONDS)
    before = epoch()
    until(lambda: epoch() >= before + 8, "the curve goes on", TRAINING_SECONDS)
    # What the program reports: an epoch is 1 of 40.
    window.until_text("% done", ".head .progress")
    window.until_text("about ", ".head .progress")
    assert window.marks(accuracy) == 1
    assert window.value_at(accuracy, 0) < 0.9 < window.value_at(accuracy, 1)
    window.driver.execute_script("window.scrollTo(0, 0)")
    window.picture(picture, directory)
