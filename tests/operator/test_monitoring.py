"""Alerts and dashboard refer to metrics that exist, with labels that they have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import generate_latest

from traincrew.api.meta import CustomObject, ObjectMeta
from traincrew.engine.cache import Store
from traincrew.engine.observability.metrics import Metrics
from traincrew.operator.jobcounts import (
    LABELS,
    NAME,
    NOT_PROGRESSING,
    REASON_LABELS,
    JobCounts,
)
from traincrew.operator.manifests import monitoring
from traincrew.operator.manifests.values import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERIES = [
    *((alert.name, alert.expression) for alert in monitoring.ALERTS),
    *((panel.title, query) for panel in monitoring.PANELS for query, _ in panel.queries),
]
# Of the process, from prometheus-client; `instance` is added when metrics are scraped.
OTHERS = {"process_resident_memory_bytes": (), "process_cpu_seconds_total": ()}
WORDS = {"absent", "and", "on", "by", "sum", "max", "rate", "increase", "group", "vector", "or",
         "histogram_quantile", "instance", "le"}  # fmt: skip


def known() -> dict[str, tuple[str, ...]]:
    ours = {NAME: LABELS, NOT_PROGRESSING: REASON_LABELS}
    return {**Metrics().names(), **ours, **OTHERS}


def words(query: str) -> Iterator[str]:
    """Yield the names of metrics and labels in an expression."""
    query = re.sub(r'"[^"]*"|\$__\w+|\[\d+\w\]', "", query)
    yield from re.findall(r"[a-z_]{2,}", query)


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_metrics_and_labels_exist(title: str, query: str) -> None:
    metrics = known()
    used = [word.removesuffix("_bucket") for word in words(query)]
    names = {word for word in used if word in metrics}
    labels = {label for name in names for label in metrics[name]}

    assert names, "no metric"
    assert set(used) - names - labels - WORDS == set()


def test_every_alert_says_what_and_what_to_do() -> None:
    names = [alert.name for alert in monitoring.ALERTS]

    assert len(set(names)) == len(names)
    for alert in monitoring.ALERTS:
        assert re.fullmatch("Traincrew[A-Z][A-Za-z]+", alert.name)
        assert alert.summary.endswith(".")
        assert alert.fix.endswith(".")


def test_panels_fill_whole_rows_and_do_not_overlap() -> None:
    covered: set[tuple[int, int]] = set()
    panels = monitoring.dashboard()["panels"]
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells
        covered |= cells

    assert len(covered) == 24 * (max(y for _, y in covered) + 1)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_alerts_are_off_until_they_are_asked_for() -> None:
    from traincrew.operator.manifests import documents

    def rules(values: dict[str, object]) -> list[dict[str, object]]:
        found = [each for contents in documents(parse(values)).values() for each in contents]
        return [each for each in found if each["kind"] == "PrometheusRule"]

    assert rules({}) == []
    (rule,) = rules({"metrics": {"prometheusRule": {"enabled": True, "labels": {"a": "b"}}}})
    assert rule["spec"] == monitoring.rule_groups()


def job(namespace: str, name: str, phase: str | None) -> CustomObject:
    status = {} if phase is None else {"phase": phase}
    return CustomObject(metadata=ObjectMeta(namespace=namespace, name=name), status=status)


def test_jobs_that_do_not_progress_are_counted_by_reason() -> None:
    store = Store[Any]()
    for name, status in (("a", "False"), ("b", "False"), ("c", "True"), ("d", "")):
        found = job("lab", name, "Running")
        conditions = [{"type": "Progressing", "status": status, "reason": "NotAdvancing"}]
        found.status["conditions"] = conditions if status else None
        store.put(found)
    counts, metrics = JobCounts(), Metrics()
    counts.add("MxJob", store)
    metrics.add(counts)

    lines = generate_latest(metrics.registry()).decode().splitlines()
    assert [line for line in lines if line.startswith("traincrew_jobs_not_progressing{")] == [
        'traincrew_jobs_not_progressing{kind="MxJob",namespace="lab",reason="NotAdvancing"} 2.0',
    ]


def test_jobs_are_counted_by_kind_namespace_and_phase() -> None:
    first, second, other = (Store[Any]() for _ in range(3))
    for name, phase in (("a", "Running"), ("b", "Running"), ("c", "Failed"), ("d", None)):
        first.put(job("lab", name, phase))
    second.put(job("lab", "e", "Running"))
    other.put(job("team", "f", "Running"))
    counts = JobCounts()
    counts.add("MxJob", first)
    counts.add("MxJob", second)
    counts.add("ElasticJob", other)
    metrics = Metrics()
    metrics.add(counts)

    lines = generate_latest(metrics.registry()).decode().splitlines()
    assert [line for line in lines if line.startswith("traincrew_jobs{")] == [
        'traincrew_jobs{kind="ElasticJob",namespace="team",phase="Running"} 1.0',
        'traincrew_jobs{kind="MxJob",namespace="lab",phase="Failed"} 1.0',
        'traincrew_jobs{kind="MxJob",namespace="lab",phase="Pending"} 1.0',
        'traincrew_jobs{kind="MxJob",namespace="lab",phase="Running"} 3.0',
    ]
