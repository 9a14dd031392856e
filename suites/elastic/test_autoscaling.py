"""A HorizontalPodAutoscaler scales a job that trains; what its pods use, the test says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from suites.elastic.jobs import Job, User

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(1500)
METRICS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, stands in for a metrics server"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "kind": "PodMetrics"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""Takes the place of what the node measures."""


def use(job: Job, milli: int) -> None:
    """Set the CPU usage of every worker, as a metrics server would report it."""
    usage = {"cpu": f"{milli}m", "memory": "64Mi"}
    for pod in job.pods():
        metadata = pod["metadata"]
        measured = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {key: metadata[key] for key in ("name", "labels")},
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "window": "1s",
            "containers": [{"name": "elasticjob-worker", "usage": usage}],
        }
        job.user.apply(measured)


def test_an_autoscaler_scales_a_job_that_trains(user: User, tmp_path: Path) -> None:
    user.create(METRICS)
    resources = {"requests": {"cpu": "100m"}}
    job = Job(user, "follows", tmp_path / "c", replicas=1, resources=resources)
    job.until_training(1)
    user.kubectl("autoscale", "elasticjob", job.name, "--min=1", "--max=2", "--cpu-percent=50")
    at_once = '{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}'
    user.kubectl("patch", "hpa", job.name, "--type=merge", "-p", at_once)

    def asked(replicas: int, milli: int) -> bool:
        use(job, milli)
        worker = user.get("elasticjob", job.name)["spec"]["replicaSpecs"]["Worker"]
        return bool(worker["replicas"] == replicas)

    user.until("2 workers are asked for", lambda: asked(2, 90))
    epoch = job.until_training(2, after=0)
    user.until("1 worker is asked for", lambda: asked(1, 5))
    job.until_training(1, after=epoch)
    scaled = user.kubectl("get", "events", "--field-selector=reason=SuccessfulRescale")
    assert "New size: 2; reason: cpu resource utilization" in scaled
    assert "New size: 1; reason: All metrics below target" in scaled
    job.end()
