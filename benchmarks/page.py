"""The page with 1,000 jobs in a real browser: first paint, updates, memory of its server.

Reference of the updates, in the same run: a bare watch of the same changes. The page is opened
several times, of a server of its own each time: what else the machine does differs.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from typing import Any

import traincrew
from benchmarks._usage import peak_mebibytes
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import Resource

JOBS = 1000
CHANGES = 40
ROUNDS = 5
GOAL_PAINT, GOAL_UPDATE, GOAL_MEBIBYTES = 0.5, 0.15, 100
CHAINER_JOBS = Resource("kubeflow.org", "v1alpha1", "chainerjobs", "ChainerJob")

# Notes when the frame with the first rows is done, and when all rows are there; seconds since 1970.
_PAINTED = (
    """
window.painted = {};
const now = () => (performance.timeOrigin + performance.now()) / 1000;
new MutationObserver(() => {
  const rows = document.querySelectorAll("tr[data-key]").length;
  if (rows && !("asked" in painted)) {
    painted.asked = now();
    requestAnimationFrame(() => setTimeout(() => { painted.first = now(); }));
  }
  if (rows === JOBS && !("all" in painted)) painted.all = now();
}).observe(document, {subtree: true, childList: true});
"""
).replace("JOBS", str(JOBS))
# Notes when each row got its text, in seconds since 1970.
_OBSERVE = """
window.seen = {};
const note = () => {
  const now = (performance.timeOrigin + performance.now()) / 1000;
  for (const row of document.querySelectorAll("tr[data-key]")) {
    const key = row.dataset.key + " " + row.querySelector(".why").textContent;
    if (!(key in window.seen)) window.seen[key] = now;
  }
};
const content = document.getElementById("content");
new MutationObserver(note).observe(content, {subtree: true, childList: true});
note();
"""


def _job(number: int) -> dict[str, Any]:
    container = {"name": "chainer", "image": "busybox", "command": ["true"]}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": CHAINER_JOBS.api_version,
        "kind": CHAINER_JOBS.kind,
        "metadata": {"name": f"job-{number:04}"},
        "spec": {
            "master": {"template": template},
            "workerSets": {"ws": {"replicas": 3, "template": template}},
        },
    }


def _status(message: str) -> dict[str, Any]:
    counts = {"Master": {"ready": 1}, "Worker": {"ready": 2}}
    return {"status": {"phase": "Created", "message": message, "replicaStatuses": counts}}


async def _patch(client: Client, number: int, message: str) -> None:
    await client.patch(
        CHAINER_JOBS, f"job-{number:04}", "default", patch=_status(message), subresource="status"
    )


async def _prepare(kubeconfig: str) -> None:
    async with Client(load_config(kubeconfig)) as client:
        for first in range(0, JOBS, 50):
            numbers = range(first, first + 50)
            await asyncio.gather(
                *(client.create(CHAINER_JOBS, _job(number), "default") for number in numbers)
            )
            await asyncio.gather(*(_patch(client, number, "begins") for number in numbers))


async def _change(kubeconfig: str) -> tuple[dict[str, float], dict[str, float]]:
    """Change jobs; return when each change was sent, and when a bare watch reported it."""
    from traincrew.cli.display.objects import Job
    from traincrew.engine.cache import Informer

    sent: dict[str, float] = {}
    watched: dict[str, float] = {}
    async with Client(load_config(kubeconfig)) as client:
        informer: Informer[Any] = Informer(client, CHAINER_JOBS, Job)

        def note(_old: Any, new: Any) -> None:
            watched.setdefault(new.status.message, time.time())

        informer.add_handler(note)
        watching = asyncio.create_task(informer.run())
        await informer.wait_synced()
        for turn in range(CHANGES):
            message = f"change {turn}"
            sent[message] = time.time()
            await _patch(client, turn * 17 % JOBS, message)
            await asyncio.sleep(0.15)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return sent, watched


def _open(driver: Any, page: Any) -> tuple[float, float]:
    """Open the page; return after how many seconds the first screen was painted, and all rows."""
    from suites.pages import until

    address = page.address()
    driver.get("about:blank")
    began = time.time()
    driver.get(address)
    done = "return window.painted?.first && window.painted?.all && painted"
    painted = until(lambda: driver.execute_script(done), "all rows")
    return painted["first"] - began, painted["all"] - began


def main() -> None:
    """Measure and print."""
    if shutil.which("chromedriver") is None:
        print("needs chromium and chromedriver (Debian's packages)")
        return
    from suites.page.many_pods import install
    from suites.pages import PageProcess, chromium, until

    driver = chromium()
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _PAINTED})
    paints = []
    with traincrew.LocalCluster(training=False, sandbox="bare") as cluster:
        install(cluster)
        asyncio.run(_prepare(str(cluster.kubeconfig)))
        for _ in range(ROUNDS - 1):
            page = PageProcess(cluster.environment)
            try:
                paints.append(_open(driver, page))
            finally:
                page.end()
        page = PageProcess(cluster.environment)
        try:
            paints.append(_open(driver, page))
            driver.execute_script(_OBSERVE)
            sent, in_watch = asyncio.run(_change(str(cluster.kubeconfig)))
            last = f"document.querySelector('main').textContent.includes('change {CHANGES - 1}')"
            until(lambda: driver.execute_script(f"return {last}"), "the last change")
            seen = {
                key.partition(" ")[2]: at
                for key, at in driver.execute_script("return window.seen").items()
            }
            memory = peak_mebibytes(page.pid)
        finally:
            page.end()
            driver.quit()
    updates = [seen[message] - at for message, at in sent.items()]
    references = [in_watch[message] - at for message, at in sent.items()]
    median, reference = statistics.median(updates), statistics.median(references)
    first, every = (sorted(found) for found in zip(*paints, strict=True))
    print(
        f"{JOBS} jobs, opened {ROUNDS} times: the first screen is painted"
        f" {statistics.median(first):.2f} s after the address was opened (median; at most"
        f" {first[-1]:.2f} s; goal {GOAL_PAINT} s), all rows are there after"
        f" {statistics.median(every):.2f} s (at most {every[-1]:.2f} s)\n"
        f"a change is on the page after {median * 1000:.0f} ms (median; at most"
        f" {max(updates) * 1000:.0f} ms; goal {GOAL_UPDATE * 1000:.0f} ms), in a bare watch after"
        f" {reference * 1000:.0f} ms: {(median - reference) * 1000:.0f} ms more,"
        f" ratio {median / reference:.1f}\n"
        f"server: {memory:.0f} MiB at most (goal {GOAL_MEBIBYTES} MiB)"
    )
