"""Why a program failed is shown, although its launcher's epilogue is all that the kubelet kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.elasticjob.world import elastic
from plan.shared.test_pods import NO_WORDS, PROGRAM
from traincrew.engine.client import Client
from traincrew.engine.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness import Cluster

NAME = "flowers"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eof mine\x9b31m\x00"
"""Sets the title of a terminal, clears it, turns text around, and colours it."""


async def fail(cluster: Cluster, pod: dict[str, Any], message: str = NO_WORDS) -> None:
    """A pod ends with 1, and by default with torchrun's epilogue as its termination message."""
    ended = {"exitCode": 1, "reason": "Error", "message": message}
    container = {"name": "elasticjob-worker", "ready": False, "restartCount": 0}
    status = {**container, "image": "x", "imageID": "", "state": {"terminated": ended}}
    name = pod["metadata"]["name"]
    await cluster.set_pod(name, {"phase": "Failed", "containerStatuses": [status]})


@pytest.mark.parametrize("readable", [True, False])
async def test_the_exception_of_the_program_is_in_condition_and_event(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    read: list[str] = []

    async def logs(_client: Client, name: str, *_args: Any, **_kw: Any) -> AsyncIterator[bytes]:
        read.append(name)
        if not readable:
            raise ForbiddenError("not allowed")
        for line in (PROGRAM + NO_WORDS).splitlines(keepends=True):
            yield line.encode()

    monkeypatch.setattr(Client, "logs", logs)
    await cluster.start_operator()
    await cluster.create(elastic(2, minReplicas=2))
    pods = await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    await fail(cluster, pods[1])
    job = await cluster.until_phase(NAME, "Failed")

    words = "ValueError: my dataset is broken (rank 1, exit code 1)"
    words = words if readable else "rank 1 failed with exit code 1"
    assert words in job["status"]["message"]
    assert "error_file" not in str(job["status"])
    assert read == [f"{NAME}-worker-1"]

    async def told() -> bool:
        return any(words in message for _, _, message in await cluster.events_of(NAME))

    await cluster.until(told)


@pytest.mark.parametrize("logged", [True, False])
async def test_what_a_program_wrote_does_not_control_a_terminal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, logged: bool
) -> None:
    said = f"ValueError: my dataset is {HOSTILE}broken\n"

    async def logs(_client: Client, _name: str, *_args: Any, **_kw: Any) -> AsyncIterator[bytes]:
        for line in f"[rank1]: {said}{NO_WORDS}".splitlines(keepends=True):
            yield line.encode()

    monkeypatch.setattr(Client, "logs", logs)
    await cluster.start_operator()
    await cluster.create(elastic(2, minReplicas=2))
    pods = await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", workersReady="2/2")
    await fail(cluster, pods[1], NO_WORDS if logged else said)
    job = await cluster.until_phase(NAME, "Failed")

    words = "ValueError: my dataset is of minebroken"

    async def told() -> bool:
        return any(words in message for _, _, message in await cluster.events_of(NAME))

    await cluster.until(told)
    told_all = [message for _, _, message in await cluster.events_of(NAME)]
    texts = [*told_all, *find_texts(job["status"])]
    assert [text for text in texts if not text.replace("\n", "").isprintable()] == []
    assert any(words in text for text in texts)


def find_texts(document: Any) -> list[str]:
    """Return all strings of a document."""
    if isinstance(document, dict):
        return [text for value in document.values() for text in find_texts(value)]
    if isinstance(document, list):
        return [text for value in document for text in find_texts(value)]
    return [document] if isinstance(document, str) else []
