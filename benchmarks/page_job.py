"""One job on the page in a real browser: with 1,000 workers, and with logs that flood.

References, in the same run: the page of a job with four pods, and a bare watch of the same changes;
a bare reader of the same logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import traincrew
from benchmarks._usage import cpu_seconds, peak_mebibytes
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY = 4, 1000
CHANGES = 30
PAUSE_SECONDS = 0.4
LINES_A_MINUTE = (100_000, 1_000_000)
PODS_THAT_PRINT = 4
FLOOD_SECONDS = 20.0

# The longest time between two frames, tasks of more than 50 ms, and when an exit code was shown.
_OBSERVE = """
window.frames_ = {longest: 0, tasks: 0};
window.seen = {};
let last = performance.now();
const frame = (now) => {
  frames_.longest = Math.max(frames_.longest, now - last); last = now; requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
new PerformanceObserver((list) => { frames_.tasks += list.getEntries().length; })
  .observe({type: "longtask"});
new MutationObserver(() => {
  const now = (performance.timeOrigin + performance.now()) / 1000;
  for (const each of document.querySelectorAll(".pod-row")) {
    const found = /exit code (\\d+)/.exec(each.textContent);
    if (found && !(found[1] in seen)) seen[found[1]] = now;
  }
}).observe(document.getElementById("content"), {subtree: true, childList: true});
"""
_PROGRAM = """
import time
begin, n = time.monotonic(), 0
while time.monotonic() < begin + {seconds}:
    due = int((time.monotonic() - begin) * {rate})
    print("\\n".join(f"step {{k}} loss={{1 / (k + 1):.5f}} rank {rank}" for k in range(n, due)))
    n = max(n, due)
    time.sleep(0.02)
print("printed", n, flush=True)
"""
# A reader that only counts; it prints its lines and its CPU seconds.
_READER = """
import asyncio, json, sys, time
from traincrew.engine.client import Client
from traincrew.engine.config import load_config

async def read(client, pod):
    lines = 0
    async for chunk in client.logs(pod, "default", follow=True, timestamps=True):
        lines += chunk.count(b"\\n")
    return lines

async def main():
    async with Client(load_config(sys.argv[1])) as client:
        began = time.process_time()
        counts = await asyncio.gather(*(read(client, pod) for pod in sys.argv[2:]))
        print(json.dumps([sum(counts), time.process_time() - began]))

asyncio.run(main())
"""


class Page:
    """A page of its own process in the browser, at one job."""

    def __init__(self, cluster: traincrew.LocalCluster, driver: Any, job: str) -> None:
        from suites.page.many_pods import address_of
        from suites.pages import PageProcess

        self.process = PageProcess(cluster.environment)
        self.driver = driver
        address = self.process.address()
        driver.get("about:blank")
        self.opened = time.time()
        driver.get(f"{address}&job={address_of(job)}")

    def run(self, script: str) -> Any:
        """Run a script in the browser."""
        return self.driver.execute_script(script)

    def until(self, condition: str) -> float:
        """Wait until an expression is true; return the seconds since the page was opened."""
        from suites.pages import until

        until(lambda: self.run(f"return {condition}"), condition)
        return time.time() - self.opened

    def observe(self) -> None:
        """Begin to note frames, long tasks and changes."""
        self.run(_OBSERVE)

    @property
    def longest_frame(self) -> float:
        """The longest time between two frames, in milliseconds."""
        return float(self.run("return frames_.longest"))

    @property
    def long_tasks(self) -> int:
        """How many tasks took more than 50 ms."""
        return int(self.run("return frames_.tasks"))

    @property
    def heap(self) -> float:
        """Memory of the page's objects, in MiB."""
        return float(self.run("return performance.memory.usedJSHeapSize")) / 2**20

    @property
    def cpu(self) -> float:
        """CPU seconds of the server."""
        return cpu_seconds(self.process.pid)

    @property
    def memory(self) -> float:
        """Peak memory of the server, in MiB."""
        return peak_mebibytes(self.process.pid)


class Measured(NamedTuple):
    """The page of one job."""

    paint: float
    updates: list[float]
    watched: list[float]
    longest_frame: float
    long_tasks: int
    memory: float
    heap: float


async def _change(kubeconfig: str, job: str) -> tuple[dict[str, float], dict[str, float]]:
    """Change a pod; return when each change was sent, and when a bare watch reported it."""
    from suites.page.many_pods import failed, pod_name, set_status

    from traincrew.cli.display.objects import Pod
    from traincrew.engine.cache import Informer

    sent: dict[str, float] = {}
    watched: dict[str, float] = {}
    async with Client(load_config(kubeconfig)) as client:
        informer: Informer[Any] = Informer(client, PODS, Pod, label_selector=f"job-name={job}")

        def note(_old: Any, new: Any) -> None:
            if new is not None and new.metadata.name == pod_name(job, 2):
                for status in new.status.container_statuses:
                    if status.state.terminated is not None:
                        watched.setdefault(str(status.state.terminated.exit_code), time.time())

        informer.add_handler(note)
        watching = asyncio.create_task(informer.run())
        await informer.wait_synced()
        for code in range(1, CHANGES + 1):
            sent[str(code)] = time.time()
            await set_status(client, job, 2, failed(code))
            await asyncio.sleep(PAUSE_SECONDS)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return sent, watched


def _measure(cluster: traincrew.LocalCluster, driver: Any, pods: int) -> Measured:
    from suites.page.many_pods import create, running

    job = f"with-{pods}"
    create(cluster, job, [running() for _ in range(pods)])
    page = Page(cluster, driver, job)
    try:
        every = f"document.querySelector('.pod-tools').textContent.includes('{pods:,} pods')"
        paint = page.until(
            "document.querySelector('.pod-tools') && "
            f"document.querySelectorAll('.square, .few-pod').length === {pods} && "
            f"document.querySelector('.life') && {every}"
        )
        page.run("document.querySelector('#part-pods-tab').click()")
        page.observe()
        sent, watched = asyncio.run(_change(str(cluster.kubeconfig), job))
        page.until(f"'{CHANGES}' in seen")
        seen = page.run("return seen")
        return Measured(
            paint,
            [seen[code] - at for code, at in sent.items() if code in seen],
            [watched[code] - at for code, at in sent.items()],
            page.longest_frame,
            page.long_tasks,
            page.memory,
            page.heap,
        )
    finally:
        page.process.end()


def _burst(cluster: traincrew.LocalCluster, driver: Any) -> None:
    """Let 1,000 pods appear and start while the page of their job is open."""
    from suites.page.many_pods import create, create_pods, running

    create(cluster, "burst", [], workers=MANY)
    page = Page(cluster, driver, "burst")

    async def work() -> None:
        async with Client(load_config(str(cluster.kubeconfig))) as client:
            await create_pods(client, "burst", [running() for _ in range(MANY)])

    try:
        page.until("document.querySelector('h1').textContent.includes('Running')")
        page.observe()
        before, began = page.cpu, time.time()
        asyncio.run(work())
        page.until(f"document.querySelector('.states').textContent.includes('{MANY:,} running')")
        took = time.time() - began
        print(
            f"{MANY} pods start within {took:.1f} s while the page is open: server"
            f" {page.cpu - before:.1f} CPU s; longest frame gap {page.longest_frame:.0f} ms,"
            f" {page.long_tasks} tasks over 50 ms"
        )
    finally:
        page.process.end()


def _many(cluster: traincrew.LocalCluster, driver: Any) -> None:
    few, many = (_measure(cluster, driver, pods) for pods in (FEW, MANY))

    def row(title: str, unit: str, value: Callable[[Measured], float]) -> None:
        reference, measured = value(few), value(many)
        ratio = f"{measured / reference:.1f}" if reference else "-"
        print(f"{title}: {measured:.0f} {unit}; {FEW} pods {reference:.0f} {unit}; ratio {ratio}")

    print(f"a job of {MANY} workers, beside one of {FEW} pods on the same page:")
    row("  first paint", "ms", lambda each: each.paint * 1000)
    row("  update after a pod changed, median", "ms", lambda m: statistics.median(m.updates) * 1000)
    row("  update, longest", "ms", lambda each: max(each.updates) * 1000)
    row("  the same in a bare watch, median", "ms", lambda m: statistics.median(m.watched) * 1000)
    row("  longest gap between two frames", "ms", lambda each: each.longest_frame)
    row("  tasks over 50 ms", "", lambda each: each.long_tasks)
    row("  server, at most", "MiB", lambda each: each.memory)
    row("  objects of the page in the browser", "MiB", lambda each: each.heap)


def _flood(cluster: traincrew.LocalCluster, driver: Any, rate: int) -> None:
    from suites.page.many_pods import create, pod_name, printing

    job = f"flood-{rate}"
    create(cluster, job, [], workers=PODS_THAT_PRINT)
    page = Page(cluster, driver, job)
    names = [pod_name(job, rank) for rank in range(PODS_THAT_PRINT)]
    try:
        page.until("document.querySelector('.log')")
        for rank in range(PODS_THAT_PRINT):
            program = _PROGRAM.format(
                seconds=FLOOD_SECONDS, rate=rate / 60 / PODS_THAT_PRINT, rank=rank
            )
            cluster.client.create(printing(job, rank, program))
        page.until("document.querySelectorAll('.log .line').length > 0")
        page.observe()
        before, began = page.cpu, time.time()
        reader = subprocess.run(
            [sys.executable, "-c", _READER, str(cluster.kubeconfig), *names],
            capture_output=True,
            text=True,
            check=True,
        )
        took = time.time() - began
        used = page.cpu - before
        lines, bare = json.loads(reader.stdout)
        time.sleep(1.5)  # the count on the page is changed once a second
        text = page.run("return document.querySelector('.log').parentNode"
                        ".querySelector('[role=status]').textContent")  # fmt: skip
        print(
            f"{rate:,} lines a minute from {PODS_THAT_PRINT} pods, {lines:,} in {took:.0f} s:\n"
            f"  the page says: {text}\n"
            f"  longest gap between two frames {page.longest_frame:.0f} ms,"
            f" {page.long_tasks} tasks over 50 ms; objects {page.heap:.0f} MiB\n"
            f"  server: {used / took:.0%} of a CPU, a reader that only counts {bare / took:.0%}:"
            f" ratio {used / bare:.1f}; {page.memory:.0f} MiB at most"
        )
    finally:
        page.process.end()


def main() -> None:
    """Measure and print."""
    if shutil.which("chromedriver") is None:
        print("needs chromium and chromedriver (Debian's packages)")
        return
    from suites.page.many_pods import install
    from suites.pages import chromium

    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(traincrew.LocalCluster(training=False, sandbox="bare"))
        install(cluster)
        driver = chromium()
        stack.callback(driver.quit)
        _many(cluster, driver)
        _burst(cluster, driver)
        for rate in LINES_A_MINUTE:
            _flood(cluster, driver, rate)
