"""One request never holds up the whole server: the loop goes on, and memory stays where it was.

The time is processor time of the thread of the loop, so that a busy machine does not matter. It is
compared with that of a fixed computation, so that a slow one does not matter either.
"""

import asyncio
import ctypes
import gc
import http.client
import math
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from local.apiserver.attack_bodies import LIMIT, open_definition
from local.apiserver.attacks import ATTACKS, Attack
from local.apiserver.rule_attacks import RULE_ATTACKS
from local.apiserver.support import (
    AUTHORIZED,
    DEFINITIONS,
    MAPS,
    WIDGETS,
    Api,
    api,
    config_map,
    running_server,
    widget,
)
from traincrew.local.apiserver.cel import schemas

__all__ = ["api"]

UNITS = 30.0
"""Time of a request in that of `_unit`: 0.25 s on a machine where that takes 8 ms."""
BYTES = 64 * 1024 * 1024


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def _settle() -> int:
    """Give memory back, and start to measure its peak; return the resident memory."""
    gc.collect()
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _send(port: int, attack: Attack, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = AUTHORIZED | {"Content-Type": attack.kind}
        connection.request(attack.method, attack.path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _unit() -> float:
    """Return the processor time of a fixed computation, in seconds."""
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        sum(number * number for number in range(200_000))
        spent.append(time.thread_time() - begin)
    return sorted(spent)[1]


async def _cost(attack: Attack) -> tuple[float, int]:
    """The longest time that the loop was held (units), and the memory that was added (bytes)."""
    async with running_server() as api:
        for path, document in attack.stored:
            (await api.post(path, document())).ok(201)
        body = attack.body()
        assert len(body) <= LIMIT
        unit = _unit()
        before = _settle()
        sending = asyncio.ensure_future(asyncio.to_thread(_send, api.server.port, attack, body))
        longest, last = 0.0, time.thread_time()
        while not sending.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
        code, answer = await sending
        grown = _memory("VmHWM") - before
    assert code in attack.codes, answer[:1000]
    return longest / unit, grown


EVERY = ATTACKS | RULE_ATTACKS


@pytest.fixture(scope="module")
def frozen() -> None:
    """What other tests have left in this process is not the server's: it is not traversed."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("name", EVERY)
async def test_one_request_holds_nobody_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client, "_MAXHEADERS", 1_000)
    attack = EVERY[name]
    if attack.unlimited:
        monkeypatch.setattr(schemas, "EXPRESSION_COST_LIMIT", math.inf)
        monkeypatch.setattr(schemas, "DEFINITION_COST_LIMIT", math.inf)
    # What else runs on the same core slows even processor time down: the least of three counts.
    costs = []
    for _ in range(3):
        costs.append(await _cost(attack))
        if costs[-1][0] < UNITS and costs[-1][1] < BYTES:
            return
    pytest.fail(", ".join(f"{units:.1f} units and {grown >> 20} MiB" for units, grown in costs))


@pytest.mark.parametrize("value", ["x" * 2_000_000, [1] * 45_000], ids=["bytes", "values"])
async def test_patches_do_not_add_up_to_a_huge_object(api: Api, value: Any) -> None:
    (await api.post(DEFINITIONS, open_definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    patches = [{"spec": {f"x{index}": value}} for index in range(8)]
    answers = [await api.patch(f"{WIDGETS}/a", patch) for patch in patches]
    assert [answer.code for answer in answers[:3]] == [200] * 3
    answers[-1].refused(413, "RequestEntityTooLarge")
    stored = (await api.get(f"{WIDGETS}/a")).ok()["spec"]
    assert len(stored) == 1 + [answer.code for answer in answers].count(200)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"x0": None}})).ok()
    (await api.patch(f"{WIDGETS}/a", patches[-1])).ok()


async def test_warnings_fit_into_the_headers_that_clients_read(api: Api) -> None:
    keys = {f"{index}\r\n" + "x" * 5_000: 0 for index in range(200)}
    answer = await api.post(MAPS, config_map("a") | keys)
    answer.ok(201)
    assert 10 < len(answer.warnings) < 20
    assert all(len(warning) < 300 for warning in answer.warnings)
    assert answer.warnings[0].startswith('299 - "unknown field \\"0  xxx')


async def test_a_response_names_the_first_thousand_errors(api: Api) -> None:
    labels = {f"-{index}": "x" for index in range(5_000)}
    status = (await api.post(MAPS, config_map("a", labels=labels))).refused(422, "Invalid")
    causes = status["details"]["causes"]
    assert len(causes) == 1_001
    assert causes[0]["field"] == "metadata.labels"
    assert causes[-1]["message"] == "Too many errors: further ones are not shown"


async def test_commas_and_brackets_in_texts_are_no_values(api: Api) -> None:
    data = {"csv": ",[{" * 200_000, "quoted": '\\",' * 50_000}
    (await api.post(MAPS, config_map("a", data))).ok(201)
    assert (await api.get(f"{MAPS}/a")).ok()["data"] == data
