"""A real Prometheus scrapes a real operator: alerts and dashboard show what happens."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import traincrew
from hack import prometheus
from traincrew.operator.manifests import monitoring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
TRAINCREW = Path(sys.executable).with_name("traincrew")
SECONDS = 60.0
RULES = ROOT / "config" / "prometheus" / "alerts" / "traincrew.yaml"
# Has a result only while something is wrong, or needs minutes of history.
EMPTY_IF_HEALTHY = {"Failed lists and watches"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.1)
    raise AssertionError(f"not within {SECONDS:.0f} s: {what}")


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=5) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def programs() -> Path:
    if lacking := prometheus.missing():
        if os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER"):
            pytest.fail(f"missing: {lacking}", pytrace=False)
        pytest.skip(f"Prometheus cannot run here; missing: {lacking}")
    return prometheus.directory()


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """A plain cluster with the definitions; the operator is a process of its own."""
    with traincrew.LocalCluster(training=False, sandbox="bare") as running:
        printed = subprocess.run(
            [TRAINCREW, "manifests", "--crds-only"], capture_output=True, text=True, check=True
        )
        for document in yaml.load_all(printed.stdout, yaml.CSafeLoader):
            running.client.create(document)
        yield running


class Operator:
    """`traincrew operator`, with the same address whenever it is started."""

    def __init__(self, cluster: traincrew.LocalCluster) -> None:
        self._cluster = cluster
        self.address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                TRAINCREW,
                "operator",
                f"--metrics-address={self.address}",
                "--lease-namespace=default",
            ],
            env=self._cluster.environment,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def operator(cluster: traincrew.LocalCluster) -> Iterator[Operator]:
    running = Operator(cluster)
    running.start()
    yield running
    running.stop()


class Prometheus:
    """A Prometheus that scrapes the operator every second."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expression: str) -> list[dict[str, Any]]:
        # As Grafana replaces them, with all namespaces chosen.
        expression = expression.replace("$__rate_interval", "30s").replace("$namespace", ".*")
        text = urllib.parse.urlencode({"query": expression})
        result: list[dict[str, Any]] = get(f"{self.address}/api/v1/query?{text}")["data"]["result"]
        return result

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def rules(self) -> dict[str, dict[str, Any]]:
        (group,) = get(f"{self.address}/api/v1/rules")["data"]["groups"]
        return {rule["name"]: rule for rule in group["rules"]}


@pytest.fixture(scope="module")
def scraping(
    programs: Path, operator: Operator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    place = tmp_path_factory.mktemp("prometheus")
    targets = {"job_name": "traincrew", "static_configs": [{"targets": [operator.address]}]}
    (place / "prometheus.yaml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [{**targets, "honor_labels": True}],
            }
        )
    )
    listen = f"127.0.0.1:{free_port()}"
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "prometheus", f"--config.file={place / 'prometheus.yaml'}",
             f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={listen}"],
            stdout=log,
            stderr=log,
        )  # fmt: skip
        try:
            yield Prometheus(f"http://{listen}")
        finally:
            process.terminate()
            process.wait()


def train(cluster: traincrew.LocalCluster, name: str, command: str) -> None:
    container = {"name": "chainer", "image": "python:3.11", "command": ["sh", "-c", command]}
    cluster.client.create(
        {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "ChainerJob",
            "metadata": {"name": name},
            "spec": {"master": {"template": {"spec": {"containers": [container]}}}},
        }
    )


def test_the_rules_are_valid(programs: Path) -> None:
    said = subprocess.run(
        [programs / "promtool", "check", "rules", RULES],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    assert f"SUCCESS: {len(monitoring.ALERTS)} rules found" in said.stdout


def test_the_dashboard_shows_a_run(cluster: traincrew.LocalCluster, scraping: Prometheus) -> None:
    train(cluster, "short", "exit 0")
    train(cluster, "long", "sleep 600")

    def phases() -> dict[str, float]:
        found = scraping.query("sum by (phase) (traincrew_jobs)")
        return {each["metric"]["phase"]: float(each["value"][1]) for each in found}

    until(lambda: phases() == {"Succeeded": 1, "Running": 1}, "one job of two has succeeded")
    for panel in monitoring.PANELS:
        for query, _ in panel.queries:
            if panel.title in EMPTY_IF_HEALTHY:
                scraping.query(query)  # an expression that is wrong gets an error
            else:
                until(functools.partial(scraping.query, query), f"{panel.title}: {query}")
    assert scraping.value(monitoring.PANELS[0].queries[0][0]) == 1
    assert scraping.value("sum(leader_election_master_status)") == 1


def test_a_healthy_operator_causes_no_alert(scraping: Prometheus) -> None:
    def evaluated() -> dict[str, dict[str, Any]] | None:
        found = scraping.rules()
        return found if {each["health"] for each in found.values()} == {"ok"} else None

    rules = until(evaluated, "all rules were evaluated")

    assert set(rules) == {alert.name for alert in monitoring.ALERTS}
    assert {name for name, rule in rules.items() if rule["state"] != "inactive"} == set()


def test_an_operator_that_is_gone_is_reported(scraping: Prometheus, operator: Operator) -> None:
    operator.stop()
    try:
        until(
            lambda: scraping.rules()["TraincrewAbsent"]["state"] == "pending",
            "the alert begins to count its minutes",
        )
    finally:
        operator.start()
    until(
        lambda: scraping.rules()["TraincrewAbsent"]["state"] == "inactive", "the alert is withdrawn"
    )
