"""The embedded API server answers as a kube-apiserver did; what is asked is in `recorded`."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from local.apiserver import recordings
from local.apiserver.recordings import Document, Reply, Send, ask
from local.apiserver.support import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CASES = {
    f"{file.stem}, {case['name']}": case
    for file in recordings.files()
    for case in recordings.read(file)["cases"]
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def send() -> AsyncIterator[Send]:
    """Sends requests to one embedded API server, with the addresses of the recorded one."""
    async with running_server(service_network=IPv4Network("10.0.0.0/16")) as api:

        async def sent(method: str, path: str, body: Document | None, accept: str) -> Reply:
            answer = await api.request(method, path, body, headers={"Accept": accept})
            warnings = recordings.texts_of(answer.warnings)
            return Reply(answer.code, json.loads(answer.body), warnings)

        await recordings.prepare(sent)
        yield sent


@pytest.mark.parametrize("name", CASES)
@pytest.mark.asyncio(loop_scope="module")
async def test_an_answer_is_as_recorded(send: Send, name: str) -> None:
    case: dict[str, Any] = CASES[name]
    found = await ask(send, case)
    if "difference" in case:
        assert found != case["answer"], "there is no difference any more: remove that line"
    else:
        assert found == case["answer"]
