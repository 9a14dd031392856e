"""Clients of Kubeflow's protocol report to us: the callback of transformers, and the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from suites.elastic.jobs import User

pytestmark = pytest.mark.timeout(1500)
IMAGE = "suite/transformers"
Document = dict[str, Any]


def job(name: str, replicas: int, *arguments: str) -> Document:
    launcher = ["--nproc_per_node=1", "--rdzv_conf=last_call_timeout=2", "/reporting.py"]
    container = {"name": "elasticjob-worker", "image": IMAGE, "args": [*launcher, *arguments]}
    worker = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"Worker": worker}},
    }


def until_progress(
    user: User, name: str, what: str, found: Callable[[Document], object]
) -> Document:
    seen: Document = {}

    def there() -> bool:
        seen.clear()
        seen.update(user.get("elasticjob", name).get("status", {}).get("progress", {}))
        return bool(found(seen))

    user.until(f"{name}: {what}", there, 400, every=0.5)
    return dict(seen)


def metrics(progress: Document) -> dict[str, str]:
    return {metric["name"]: metric["value"] for metric in progress.get("metrics", [])}


def test_the_callback_of_transformers_reports_unmodified(user: User) -> None:
    user.create(job("bert", 2))

    first = until_progress(user, "bert", "reports", lambda seen: metrics(seen).get("total_steps"))
    between = until_progress(
        user, "bert", "reports loss and time left", lambda seen: metrics(seen).get("loss")
    )
    last = until_progress(user, "bert", "is done", lambda seen: seen.get("percentage") == 100)

    assert first["percentage"] < 100
    assert 0 < between["percentage"] <= 100
    assert float(metrics(between)["loss"]) > 0
    assert last["estimatedRemainingSeconds"] == 0
    assert float(metrics(last)["train_loss"]) < 1
    assert "100" in user.kubectl("get", "elasticjob", "bert", "-o", "wide", "--no-headers").split()
    logs = user.kubectl("logs", "bert-worker-0")
    assert "KubeflowCallback" in logs.partition("callbacks:")[2]
    user.until(
        "bert succeeds", lambda: user.get("elasticjob", "bert")["status"]["phase"] == "Succeeded"
    )
    assert user.get("elasticjob", "bert")["status"]["progress"]["percentage"] == 100


def test_the_sdk_of_kubeflow_reports_unmodified(user: User) -> None:
    user.create(job("sdk", 1, "sdk"))

    found = until_progress(user, "sdk", "reports", lambda seen: seen.get("percentage") == 42)

    assert found["estimatedRemainingSeconds"] == 7
    assert metrics(found) == {"loss": "0.25", "epoch": "3"}
    assert "sent: True" in user.kubectl("logs", "sdk-worker-0")
