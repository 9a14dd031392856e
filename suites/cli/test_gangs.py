"""Two jobs that fit only one after the other: the pods of each are placed together."""

from __future__ import annotations

import json
import os
from itertools import product
from typing import TYPE_CHECKING, Any

from cli.programs import IMAGE, nothing_is_left, run

if TYPE_CHECKING:
    from pathlib import Path

WORKERS = 3
SHARE = 0.9
"""Of the processors that the workers of one job request together."""


def template(container: str, job: str, shared: Path) -> dict[str, Any]:
    """A pod that writes down when it begins and ends."""
    script = (
        f"date +%s%N >{shared}/{job}-$HOSTNAME; sleep 0.3; date +%s%N >>{shared}/{job}-$HOSTNAME"
    )
    millicores = int(1000 * (os.cpu_count() or 1) * SHARE / WORKERS)
    main = {
        "name": container,
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": f"{millicores}m"}},
        "volumeMounts": [{"name": "shared", "mountPath": str(shared)}],
    }
    volume = {"name": "shared", "hostPath": {"path": str(shared)}}
    return {"spec": {"containers": [main], "volumes": [volume]}}


def elastic(job: str, shared: Path) -> dict[str, Any]:
    worker = {
        "replicas": WORKERS,
        "restartPolicy": "Never",
        "template": template("elasticjob-worker", job, shared),
    }
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": job},
        "spec": {
            "minReplicas": WORKERS,
            "maxReplicas": WORKERS,
            "schedulingPolicy": {"minAvailable": WORKERS},
            "replicaSpecs": {"Worker": worker},
        },
    }


def test_jobs_that_fit_one_at_a_time_run_one_at_a_time(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    manifest = tmp_path / "jobs.yaml"
    manifest.write_text("\n---\n".join(json.dumps(elastic(job, shared)) for job in ("one", "two")))

    result = run(environment, "-f", manifest)

    assert result.returncode == 0, result.stdout + result.stderr
    times = {
        job: [tuple(map(int, each.read_text().split())) for each in shared.glob(f"{job}-*")]
        for job in ("one", "two")
    }
    assert [len(each) for each in times.values()] == [WORKERS, WORKERS]
    for (begin, end), (other_begin, other_end) in product(*times.values()):
        assert end < other_begin or other_end < begin, times
    assert nothing_is_left(environment)
