"""A run says why its job does not start, and what to do."""

from typing import Any

import pytest

import traincrew
from traincrew.cli.watching import waiting


def job(**pod: Any) -> dict[str, Any]:
    resources = pod.pop("resources", {})
    container = {
        "name": "chainer",
        "image": "python:3.11",
        "command": ["true"],
        "resources": resources,
    }
    template = {"spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": "digits"},
        "spec": {"master": {"template": template}},
    }


@pytest.mark.parametrize(
    ("pod", "cause", "fix"),
    [
        (
            {"resources": {"limits": {"nvidia.com/gpu": 1}}},
            "no node that fits has enough free nvidia.com/gpu",
            "What to do: ask for fewer GPUs, or run it with --gpus N",
        ),
        (
            {"nodeSelector": {"gpu": "a100"}},
            "cannot be placed",
            "What to do: remove nodeSelector and node affinity",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
            "data",
            "What to do: add the PersistentVolumeClaim to the manifest.",
        ),
    ],
)
def test_a_job_that_waits_is_explained_once(
    pod: dict[str, Any],
    cause: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(waiting, "AFTER_SECONDS", 0.5)
    traincrew.run(job(**pod), sandbox="bare", gpus=0, timeout=3)
    lines = capsys.readouterr().out.splitlines()
    (index,) = (number for number, line in enumerate(lines) if "What to do:" in line)
    assert fix in lines[index]
    assert cause in lines[index - 1]


def test_a_job_that_runs_is_not_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "AFTER_SECONDS", 0.1)
    assert traincrew.run(job(), sandbox="bare", timeout=60).succeeded
    assert "What to do:" not in capsys.readouterr().out
