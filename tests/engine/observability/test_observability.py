"""Metrics, logs and health endpoints, as seen by their users."""

import asyncio
import json
import logging
import subprocess
import sys

import aiohttp
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bombs import bomb, frugal, send
from traincrew.engine.controller import Controller, Request
from traincrew.engine.observability import (
    HealthServer,
    Metrics,
    configure_logging,
    get_logger,
    logs,
)
from traincrew.engine.observability.logs import ReconcileContext, current_reconcile
from traincrew.engine.testing import SimulatedClock, simulate

NAMES = [
    "controller_runtime_reconcile_total",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_terminal_reconcile_errors_total",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "workqueue_depth",
    "workqueue_adds_total",
    "workqueue_queue_duration_seconds",
    "workqueue_work_duration_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "rest_client_requests_total",
    "leader_election_master_status",
]


def samples(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Return what Prometheus would store: sample name -> label values -> value."""
    text = generate_latest(metrics.registry()).decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_names_and_values_are_those_of_controller_runtime() -> None:
    async def main() -> dict[str, dict[tuple[str, ...], float]]:
        metrics = Metrics()

        async def reconcile(request: Request) -> None:
            await asyncio.sleep(0.2)
            if request.name == "bad":
                raise ValueError("bad")

        controller = Controller("jobs", reconcile, clock=SimulatedClock(), metrics=metrics)
        task = asyncio.create_task(controller.run())
        controller.enqueue(Request("a", "good"))
        controller.enqueue(Request("a", "bad"))
        await asyncio.sleep(0.25)
        metrics.rest_requests.inc(("200", "host", "GET"))
        metrics.leader.compute(("lock",), lambda: 1.0)
        text = generate_latest(metrics.registry()).decode()
        for name in NAMES:
            assert f"\n# TYPE {name} " in text, name
        found = samples(metrics)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    found = simulate(main())
    assert found["controller_runtime_reconcile_total"]["jobs", "success"] == 1
    assert found["controller_runtime_reconcile_total"]["jobs", "error"] >= 1
    assert found["controller_runtime_max_concurrent_reconciles"] == {("jobs",): 4}
    buckets = found["controller_runtime_reconcile_time_seconds_bucket"]
    assert buckets["jobs", "0.1"] == 0
    assert buckets["jobs", "0.25"] == buckets["jobs", "+Inf"] == 2
    total = found["controller_runtime_reconcile_time_seconds_sum"][("jobs",)]
    assert total == pytest.approx(0.4, abs=0.01)
    assert found["workqueue_adds_total"] == {("jobs",): 3}
    assert found["rest_client_requests_total"] == {("200", "host", "GET"): 1}
    assert found["leader_election_master_status"] == {("lock",): 1}


def test_every_manager_has_metrics_of_its_own() -> None:
    one, two = Metrics(), Metrics()
    one.queue_adds.inc(("q",))

    assert samples(one)["workqueue_adds_total"] == {("q",): 1}
    assert "workqueue_adds_total" not in samples(two)


async def test_health_ready_and_metrics() -> None:
    ready = False
    metrics = Metrics()
    metrics.queue_adds.inc(("q",))
    server = HealthServer(metrics, ready={"caches": lambda: ready}, host="127.0.0.1")
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.port
    task = asyncio.create_task(server.run())
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            try:
                port = server.port
            except (RuntimeError, IndexError):
                await asyncio.sleep(0.01)
            else:
                break

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, await response.text()

        assert await get("/healthz") == (200, "ok")
        assert await get("/readyz") == (503, "[-]caches\nfailed")
        ready = True
        assert await get("/readyz") == (200, "[+]caches\nok")
        status, text = await get("/metrics")
        assert status == 200
        assert 'workqueue_adds_total{name="q"} 1.0' in text

        taken = HealthServer(metrics, host="127.0.0.1", port=port)
        with pytest.raises(OSError, match="address already in use"):
            await taken.start()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_bodies_are_neither_decompressed_nor_read(encoding: str, method: str) -> None:
    server = HealthServer(Metrics(), host="127.0.0.1")
    await server.start()
    body = bomb("deflate" if encoding == "deflate" else "gzip")
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{server.port}/healthz"
            with frugal():
                sent = [
                    send(server.port, "/metrics", body, encoding, method=method) for _ in range(8)
                ]
                answers, probe = await asyncio.gather(asyncio.gather(*sent), session.get(url))
            assert [code for code, _ in answers] == [413] * 8
            assert await probe.text() == "ok"
    finally:
        await server.stop()


@pytest.fixture
def logging_reset() -> object:
    """Undo what a test configures."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    settings = logs._State.settings
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logs._State.settings = settings


@pytest.mark.usefixtures("logging_reset")
def test_json_logs_name_the_reconcile(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", "info")
    token = current_reconcile.set(ReconcileContext("jobs", "team", "j", 0xABC))
    get_logger(extra=1).info("hello", pods=3)
    logging.getLogger("aiohttp.server").warning("from elsewhere")
    current_reconcile.reset(token)
    get_logger().debug("not shown")
    get_logger().error("failed", exc_info=ValueError("broken"))

    captured = capfd.readouterr()
    assert captured.out == ""
    first, second, third = map(json.loads, captured.err.splitlines())
    assert first == {
        "event": "hello",
        "level": "info",
        "extra": 1,
        "pods": 3,
        "controller": "jobs",
        "namespace": "team",
        "name": "j",
        "reconcileID": "0000000000000abc",
        "timestamp": first["timestamp"],
    }
    assert second["event"] == "from elsewhere"
    assert second["reconcileID"] == "0000000000000abc"
    assert "ValueError: broken" in third["exception"]
    assert "reconcileID" not in third


@pytest.mark.usefixtures("logging_reset")
def test_text_logs_are_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging("text", "warning")
    get_logger().info("not shown")
    get_logger().warning("watch out", pods=3)

    text = capfd.readouterr().err
    assert "watch out" in text
    assert "pods=3" in text
    assert "not shown" not in text
    assert "\x1b" not in text, "no colours where there is no terminal"


@pytest.mark.usefixtures("logging_reset")
@pytest.mark.parametrize("attack", ["\x1b]0;owned\x07", "\x9b2J", "\u202e", "\0", "\r", "\ud800"])
def test_text_logs_do_not_control_the_terminal(
    capfd: pytest.CaptureFixture[str], attack: str
) -> None:
    configure_logging("text", "warning")
    error = ValueError(f"raised {attack}")
    values = {"reason": f"said {attack}", "word": attack, "several": [attack]}
    get_logger().error(f"happened {attack}", exc_info=error, **values)
    logging.getLogger("library").error("reported %s", attack)
    # Values with spaces are quoted, which doubles backslashes.
    printed = capfd.readouterr().err.replace("\\\\", "\\")
    for word in ("happened", "said", "raised", "reported"):
        assert f"{word} {attack.encode('unicode_escape').decode()}" in printed
    assert all(each.isprintable() or each == "\n" for each in printed)


def test_unknown_log_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="log level 'loud': choose one of"):
        configure_logging(level="loud")
    with pytest.raises(ValueError, match="log format 'xml': choose text or json"):
        configure_logging("xml")  # type: ignore[arg-type]


def test_modules_that_a_one_shot_run_does_not_need_are_not_imported() -> None:
    program = """
import sys
import traincrew.engine.client, traincrew.engine.config, traincrew.engine.controller
import traincrew.engine.events, traincrew.engine.election, traincrew.engine.observability
heavy = {"prometheus_client", "structlog", "aiohttp", "yaml", "traincrew.engine.testing"}
print(",".join(sorted(heavy & set(sys.modules))))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
