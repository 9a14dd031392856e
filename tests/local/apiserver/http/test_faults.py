"""Fault injection, which other tests use to make requests of their clients fail."""

import asyncio
import time

import aiohttp
import pytest

from local.apiserver.support import MAPS, Api, config_map
from traincrew.local.apiserver.http.faults import AuditRecord, Fault, refuse


async def test_requests_are_audited(api: Api) -> None:
    (await api.post(MAPS, config_map("a"), headers={"User-Agent": "me/1"}, dryRun="All")).ok(201)
    (await api.get(f"{MAPS}/a", headers={"User-Agent": "me/1"})).refused(404)
    written, read = api.records
    assert b'"name":"a"' in written.answer
    admin = "traincrew:admin"
    assert written == AuditRecord("POST", f"{MAPS}?dryRun=All", "me/1", 201, admin, written.answer)
    assert read == AuditRecord("GET", f"{MAPS}/a", "me/1", 404, admin)


@pytest.mark.parametrize("code", [400, 409, 410, 429, 500, 503])
async def test_injected_errors_prevent_the_write(api: Api, code: int) -> None:
    seen: list[tuple[str, str, str]] = []

    def hook(method: str, path: str, agent: str) -> Fault | None:
        seen.append((method, path, agent))
        return refuse(code, retry_after=7) if method == "POST" else None

    api.server.faults = hook
    answer = await api.post(MAPS, config_map("a"), headers={"User-Agent": "me/1"})
    answer.refused(code, message="injected fault")
    assert answer.headers["Retry-After"] == "7"
    assert seen == [("POST", MAPS, "me/1")]
    (await api.get(f"{MAPS}/a")).refused(404)
    assert api.records[0].code == code


@pytest.mark.parametrize(("cut", "stored"), [("before", False), ("after", True)])
async def test_connections_cut_before_or_after_the_write(api: Api, cut: str, stored: bool) -> None:
    api.server.faults = lambda method, *_: Fault(cut=cut) if method == "POST" else None  # type: ignore[arg-type]
    with pytest.raises(aiohttp.ClientError):
        await api.post(MAPS, config_map("a"))
    assert api.records[0].code == 0
    assert (await api.get(f"{MAPS}/a")).code == (200 if stored else 404)


async def test_injected_delays(api: Api) -> None:
    api.server.faults = lambda *_: Fault(delay=0.1)
    started = time.monotonic()
    assert (await api.get("/readyz")).body == b"ok"
    assert time.monotonic() - started >= 0.1


async def test_watches_cut_after_some_bytes(api: Api) -> None:
    api.server.faults = lambda _, path, __: Fault(cut_after_bytes=1500) if "watch" in path else None
    seen = 0

    async def follow() -> None:
        nonlocal seen
        for number in range(20):
            (await api.post(MAPS, config_map(f"map-{number}"))).ok(201)
            await watching.next()
            seen += 1

    async with api.watch(MAPS) as watching:
        with pytest.raises((aiohttp.ClientError, ConnectionError, AssertionError)):
            await follow()
    assert 1 <= seen < 10


async def test_a_hook_can_count_and_select_requests(api: Api) -> None:
    writes = 0

    def crash_at_second_write(method: str, path: str, agent: str) -> Fault | None:
        nonlocal writes
        if method in {"POST", "PUT", "PATCH", "DELETE"}:
            writes += 1
            if writes == 2:
                return Fault(cut="after")
        return None

    api.server.faults = crash_at_second_write
    (await api.post(MAPS, config_map("a"))).ok(201)
    with pytest.raises(aiohttp.ClientError):
        await api.post(MAPS, config_map("b"))
    (await api.post(MAPS, config_map("c"))).ok(201)
    items = (await api.get(MAPS)).ok()["items"]
    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]


async def test_parallel_writers_conflict_exactly_once_per_loser(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    bodies = [dict(created, data={"writer": str(number)}) for number in range(10)]
    answers = await asyncio.gather(*(api.put(f"{MAPS}/a", body) for body in bodies))
    assert sorted(answer.code for answer in answers) == [200] + [409] * 9
