"""An ElasticJob whose program fails reports the reason in status, events and output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from suites.elastic.conftest import CATALOG
from suites.elastic.jobs import IMAGE

if TYPE_CHECKING:
    from suites.elastic.jobs import User

SCRIPT = Path(__file__).with_name("fail.py")
WORDS = {
    "raise": "ValueError: my dataset is broken (rank 1, exit code 1)",
    "record": "ValueError: my dataset is broken (rank 1, exit code 1)",
    "exit": "rank 1 failed with exit code 3",
}
pytestmark = pytest.mark.timeout(600)


def job(name: str, how: str) -> dict[str, Any]:
    """One pod with three processes."""
    container = {
        "name": "elasticjob-worker",
        "image": IMAGE,
        "args": ["--nproc_per_node=3", "--max_restarts=0", "/script/fail.py", how],
        "volumeMounts": [{"name": "script", "mountPath": "/script"}],
    }
    volume = {"name": "script", "hostPath": {"path": str(SCRIPT.parent)}}
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"minReplicas": 1, "maxReplicas": 1, "replicaSpecs": {"Worker": worker}},
    }


@pytest.mark.parametrize("how", WORDS)
def test_status_and_event_name_the_failed_process_and_the_reason(user: User, how: str) -> None:
    name = f"fails-{how}"
    user.create(job(name, how))
    user.kubectl("wait", f"elasticjob/{name}", "--for=condition=Failed", "--timeout=120s")
    message = user.get("elasticjob", name)["status"]["message"]
    assert message.endswith(f"container elasticjob-worker exited with code 1: {WORDS[how]}")
    described = " ".join(user.kubectl("describe", "elasticjob", name).split())
    assert WORDS[how] in described.partition("Events:")[2]


def test_a_run_shows_it_once(user: User, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(json.dumps(job("fails", "record")))
    said = user.traincrew("run", f"--images={CATALOG}", "-f", str(manifest), code=1)
    account = said[said.rindex("ElasticJob fails: Failed") :].partition("Last lines of its log:")[0]
    assert " ".join(account.split()).count("my dataset is broken") == 1, said
