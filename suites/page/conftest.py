"""A browser with the page of a real embedded cluster."""

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
from selenium.webdriver.common.by import By

import traincrew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRAINCREW = Path(sys.executable).with_name("traincrew")
SECONDS = 60.0
PICTURES = "TRAINCREW_PICTURES"
"""A directory for the screenshots of the guide; without it they are only taken."""


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
    """`traincrew ui`, whose addresses can be opened once each."""

    def __init__(self, cluster: traincrew.LocalCluster, *words: str) -> None:
        self.addresses: list[str] = []
        self._process = subprocess.Popen(
            [TRAINCREW, "ui", *words],
            env={**cluster.environment, "PYTHONUNBUFFERED": "1"},
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
        return "\n".join(each.text for each in self.find(selector))

    def until_text(self, wanted: str, selector: str = "main") -> None:
        until(lambda: wanted in self.text(selector), f"{wanted!r} in {selector}")

    def resize(self, width: int, height: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
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


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """A headless Chromium of the system."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if lacking:
        text = f"the page cannot be tried here; missing: {', '.join(lacking)} (Debian's packages)"
        if os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--force-color-profile=srgb"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """An embedded cluster with the operator."""
    with traincrew.LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def page(cluster: traincrew.LocalCluster) -> Iterator[PageProcess]:
    """The page of the cluster."""
    process = PageProcess(cluster)
    yield process
    assert process.end() == 0


@pytest.fixture
def window(browser: webdriver.Chrome, page: PageProcess) -> Iterator[Window]:
    """A window with the list of jobs; the browser must not have complained at the end."""
    opened = Window(browser, page)
    opened.resize(1280, 900)
    opened.open()
    yield opened
    assert opened.complaints() == []
