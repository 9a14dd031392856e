"""`traincrew.run`, as a program or a notebook uses it."""

import asyncio
import logging
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

import traincrew
from chainerjobs import chainer_job


def job(name: str, program: str) -> dict[str, Any]:
    return chainer_job(name, ["python", "-c", program], image="python:3.11")


TRAINING = "for epoch in (1, 2): print('epoch', epoch, 'loss', 1 / epoch)"


def run(manifest: Any, **options: Any) -> traincrew.Outcome:
    return traincrew.run(manifest, sandbox="bare", **options)


def test_a_job_that_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(job("digits", TRAINING))

    assert outcome.succeeded
    assert outcome.exit_code == 0
    (found,) = outcome.jobs
    assert (found.kind, found.namespace, found.name) == ("ChainerJob", "default", "digits")
    assert (found.succeeded, found.phase, found.reason) == (True, "Succeeded", "")
    assert found.status["phase"] == "Succeeded"
    assert found.status["completionTime"]
    (pod,) = outcome.pods
    assert (pod.node, pod.exit_code, pod.restarts) == ("local", 0, 0)
    assert pod.logs == {"chainer": ["epoch 1 loss 1.0", "epoch 2 loss 0.5"]}
    assert outcome.logs == f"{pod.name} | epoch 1 loss 1.0\n{pod.name} | epoch 2 loss 0.5\n"
    assert [value for _, value in outcome.metrics["loss"]] == [1.0, 0.5]
    assert "epoch 2 loss 0.5" in capsys.readouterr().out


def test_a_job_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(job("digits", "print('no'); raise SystemExit(3)"), show=False)

    assert not outcome.succeeded
    assert outcome.exit_code == 3
    (found,) = outcome.jobs
    assert (found.succeeded, found.phase) == (False, "Failed")
    assert "exited with code 3" in found.reason
    assert outcome.pods[0].exit_code == 3
    assert capsys.readouterr().out == ""


def test_what_a_manifest_can_be(tmp_path: Path) -> None:
    document = job("digits", "import os; print(os.environ['GREETING'])")
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    for manifest in (path, str(path), path.read_text(), [document]):
        outcome = run(manifest, env={"GREETING": "hello"}, show=False)
        assert outcome.pods[0].logs == {"chainer": ["hello"]}


def test_the_time_is_limited() -> None:
    outcome = run(job("digits", "import time; time.sleep(100)"), timeout=3, show=False)

    assert outcome.exit_code == 124
    assert outcome.jobs[0].status == {}


def test_it_runs_beside_a_loop_and_changes_nothing_of_the_program() -> None:
    root, before = logging.getLogger(), signal.getsignal(signal.SIGINT)
    handlers, threads = root.handlers[:], set(threading.enumerate())

    async def cell() -> traincrew.Outcome:
        return run(job("digits", "print('x')"), show=False)

    assert asyncio.run(cell()).succeeded
    assert root.handlers == handlers
    assert signal.getsignal(signal.SIGINT) is before
    assert {each.name for each in set(threading.enumerate()) - threads} <= {"console"}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("nowhere.yaml", "cannot read nowhere.yaml: no such file or directory"),
        ("kind: Pod\nmetadata: {name: x}\n", "manifest:1: apiVersion is missing or not a string"),
        ([], "manifest: contains no Kubernetes objects"),
        ({**job("x", ""), "spec": {"mastr": {}}}, 'unknown field "spec.mastr"'),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused(manifest: Any, said: str) -> None:
    with pytest.raises(traincrew.BadInput) as refused:
        run(manifest, show=False)
    assert said in str(refused.value)


@pytest.mark.parametrize("manifest", [3, b"kind: ChainerJob", None])
def test_what_is_no_manifest_is_refused(manifest: Any) -> None:
    given = type(manifest).__name__
    with pytest.raises(traincrew.BadInput, match=f"several of them, not {given}$"):
        run(manifest)


def test_images_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(traincrew.BadInput, match=r"images: .*none\.yaml is no file"):
        run(job("x", ""), images=[tmp_path / "none.yaml"])
