"""The script of many diagrams in a real browser: how long the page does not answer at an update.

100 metrics are given to the page's own code, of as many points as its server keeps and of 10,000,
and one more point of each five times a second. What is measured is the longest time between two
messages that the page sends itself: a task, with all that the browser does after it. Reference, in
the same run: the same without updates.
"""

from __future__ import annotations

import shutil
from typing import Any

import traincrew

METRICS, UPDATES = 100, 30
POINTS = (2_000, 10_000)
GOAL_MILLISECONDS = 5.0

_MEASURE = """
const [METRICS, POINTS, UPDATES, done] = arguments;
const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));
const metrics = Array.from({length: METRICS}, (_, index) => index + 1);
const pointsAt = (step) => [[1e9 + step, 0, step],
  ...metrics.map((metric) => [1e9 + step, metric, Math.sin(step * metric / 900) + Math.random()])];

async function measure() {
  const {Curves} = await import("/static/curves.js");
  const curves = new Curves();
  document.getElementById("content").replaceChildren(curves.place);
  const names = [["step", "a"], ...metrics.map((metric) => [`metric ${metric}`, "a"])];
  const points = Array.from({length: POINTS}, (_, step) => pointsAt(step)).flat();
  curves.add({again: true, names, points, turnedAway: false});
  let gaps = [], last = performance.now();
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    channel.port2.postMessage(0);
  };
  channel.port2.postMessage(0);
  await pause(2000);
  const longest = async (work) => {
    const found = [];
    for (let update = 0; update < UPDATES; update += 1) {
      gaps = [];
      work(update);
      await pause(200);
      found.push(Math.max(...gaps));
    }
    return found.sort((a, b) => a - b);
  };
  const quiet = await longest(() => {});
  const busy = await longest((update) =>
    curves.add({again: false, names: [], points: pointsAt(POINTS + update), turnedAway: false}));
  return {quiet, busy, drawn: document.querySelectorAll(".curve canvas").length};
}

measure().then(done, (error) => done({error: String(error.stack)}));
"""


def _report(points: int, found: dict[str, Any]) -> None:
    if "error" in found:
        raise RuntimeError(found["error"])
    quiet, busy = found["quiet"], found["busy"]
    middle = UPDATES // 2
    print(
        f"{METRICS} metrics of {points:,} points, {found['drawn']} diagrams: within an update the"
        f" page does not answer for {busy[middle]:.0f} ms (median; at most {busy[-1]:.0f} ms), and"
        f" for {quiet[middle]:.0f} ms without one (at most {quiet[-1]:.0f} ms):"
        f" {busy[middle] - quiet[middle]:.0f} ms more (goal {GOAL_MILLISECONDS:.0f} ms)"
    )


def main() -> None:
    """Measure and print."""
    if shutil.which("chromedriver") is None:
        print("needs chromium and chromedriver (Debian's packages)")
        return
    from suites.page.many_pods import install
    from suites.pages import PageProcess, Window, chromium

    driver = chromium()
    driver.set_script_timeout(120)
    with traincrew.LocalCluster(training=False, sandbox="bare") as cluster:
        install(cluster)
        page = PageProcess(cluster.environment)
        try:
            window = Window(driver, page)
            window.resize(1280, 800)
            for points in POINTS:
                window.open()
                arguments = (METRICS, points, UPDATES)
                _report(points, driver.execute_async_script(_MEASURE, *arguments))
        finally:
            driver.quit()
            page.end()
