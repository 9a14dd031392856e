"""The recorded answers are those of the kube-apiserver that is built here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hack.cluster import binaries

from local.apiserver import recordings

from .compare import differences
from .recording import answers, sender
from .servers import serve_pair

if TYPE_CHECKING:
    from pathlib import Path


async def test_recorded_answers_are_those_of_the_real_server(kubeconfig: Path) -> None:
    found = []
    async with serve_pair(kubeconfig) as pair:
        send = sender(pair.real)
        await recordings.prepare(send)
        for file in recordings.files():
            recording = recordings.read(file)
            assert recording["kubernetes"] == binaries.version("kubernetes")
            async for case, answer in answers(send, recording):
                lines = differences(answer, case["answer"])
                found += [f"{file.stem}, {case['name']}: {line}" for line in lines]
    advice = "`python -m suites.differential.recording` writes them again:\n"
    assert not found, advice + "\n".join(found)
