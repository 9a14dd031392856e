"""A run says why its job does not start, and what to do."""

import asyncio
import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import traincrew
from cli.builders import condition
from cli.builders import job as observed
from traincrew.cli.jobview.why import Explanation
from traincrew.cli.watching import waiting
from traincrew.cli.watching.interrupt import Interrupt
from traincrew.cli.watching.live import Live

if TYPE_CHECKING:
    from traincrew.engine.client import Client


def job(name: str = "digits", command: str = "true", **pod: Any) -> dict[str, Any]:
    resources = pod.pop("resources", {})
    container = {
        "name": "chainer",
        "image": "python:3.11",
        "command": ["sh", "-c", command],
        "resources": resources,
    }
    template = {"spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": name},
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


def test_a_claim_that_waits_for_a_volume_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    monkeypatch.setattr(waiting, "AFTER_SECONDS", 0.5)
    traincrew.run([claim, job(volumes=volumes)], sandbox="bare", timeout=6)
    lines = capsys.readouterr().out.splitlines()
    (index,) = (number for number, line in enumerate(lines) if "What to do:" in line)
    assert "What to do: add a PersistentVolume that fits to the manifest" in lines[index]
    assert "a PersistentVolumeClaim of it has no volume" in lines[index - 1]


def test_a_job_that_runs_is_not_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "AFTER_SECONDS", 0.1)
    assert traincrew.run(job(), sandbox="bare", timeout=60).succeeded
    assert "What to do:" not in capsys.readouterr().out


def test_a_job_that_waits_is_explained_while_another_one_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "AFTER_SECONDS", 1.0)
    jobs = [job("runs", "sleep 600"), job("waits", nodeSelector={"gpu": "a100"})]
    traincrew.run(jobs, sandbox="bare", timeout=5)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("runs: Running")]
    (index,) = (number for number, line in enumerate(lines) if "What to do:" in line)
    assert "of ChainerJob waits cannot be placed" in lines[index - 1]


class Jobs:
    """Jobs that are shown, on a cluster that explains them as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.causes = dict.fromkeys(names, "starting")
        self.asked: list[str] = []
        self._stream = io.StringIO()
        self.live = Live(Interrupt(), stream=self._stream)
        for name in names:
            self.live.follow("ChainerJob", "default", name)
        monkeypatch.setattr(waiting, "AFTER_SECONDS", 0)
        monkeypatch.setattr(waiting, "gather", self._gather)
        monkeypatch.setattr(waiting, "explain", self._explain)
        jobs = [(record.name, record) for record in self.live.view.jobs]
        self.explaining = asyncio.create_task(
            waiting.explain_waiting(cast("Client", None), self.live, jobs)
        )

    async def _gather(self, _client: object, word: str, _namespace: str) -> SimpleNamespace:
        return SimpleNamespace(facts=word)

    def _explain(self, name: str) -> Explanation:
        self.asked.append(name)
        return Explanation(
            cause=self.causes[name], text=f"{name} has a problem.", fix=f"help {name}"
        )

    def phase(self, name: str, phase: str) -> None:
        changed = observed(phase, name=name, conditions=[condition(phase)])
        self.live.show(self.live.view.job(changed, self.live.now()))

    async def until_asked(self, *names: str) -> None:
        """Wait until these jobs, and no others, are asked about again and again."""
        self.asked.clear()
        newest = 3 * len(names)
        async with asyncio.timeout(30):
            while len(self.asked) < newest or set(self.asked[-newest:]) != set(names):
                await asyncio.sleep(0)

    def said(self) -> list[str]:
        self.live.console.close()
        return [line for line in self._stream.getvalue().splitlines() if "Running" not in line]


async def test_each_job_is_explained_until_it_runs_or_has_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = Jobs(monkeypatch, "one", "two", "three")
    await jobs.until_asked("one", "two", "three")
    jobs.phase("one", "Running")
    await jobs.until_asked("two", "three")
    # A job that runs again is restarted, which the view shows as it is.
    jobs.phase("one", "Restarting")
    jobs.causes["two"] = "unplaced"
    await jobs.until_asked("three")
    jobs.causes["three"] = "quota"
    async with asyncio.timeout(30):
        await jobs.explaining
    texts = [line.partition("s  ")[2] for line in jobs.said()]
    assert texts == [
        "one: Restarting",
        "two has a problem.",
        "What to do: help two.",
        "three has a problem.",
        "What to do: help three.",
    ]


async def test_jobs_that_have_ended_are_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch, "one", "two")
    await jobs.until_asked("one", "two")
    jobs.phase("one", "Running")
    jobs.phase("two", "Failed")
    async with asyncio.timeout(30):
        await jobs.explaining
    assert [line.partition("s  ")[2] for line in jobs.said()] == ["two: Failed"]
