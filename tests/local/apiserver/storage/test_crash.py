"""A server that is killed during writes loses nothing that it has acknowledged."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from local.apiserver.support import AUTHORIZED, MAPS, SECRET, Api, config_map, running_server
from traincrew.local.apiserver.storage import StorageError
from traincrew.local.apiserver.storage.sqlite import SqliteFile

SERVER = f"""
import asyncio, sys
from pathlib import Path
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

async def serve():
    server = ApiServer(Storage(Path(sys.argv[1])), secret={SECRET!r})
    await server.start()
    print(server.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


async def write_until_dead(url: str, writer: int, acknowledged: dict[str, str]) -> None:
    """Create, change and delete objects; record the last response for each."""
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        number = 0
        while True:
            name = f"map-{writer}-{number}"
            number += 1
            try:
                async with session.post(url + MAPS, json=config_map(name)) as answer:
                    assert answer.status == 201
                acknowledged[name] = "value"
                patch = {"data": {"key": "changed"}}
                headers = {"Content-Type": "application/merge-patch+json"}
                path = f"{url}{MAPS}/{name}"
                async with session.patch(path, json=patch, headers=headers) as answer:
                    assert answer.status == 200
                acknowledged[name] = "changed"
                if number % 3 == 0:
                    acknowledged[name] = "maybe"
                    async with session.delete(path) as answer:
                        assert answer.status == 200
                    acknowledged[name] = ""
            except (aiohttp.ClientError, ConnectionError):
                return


def check(api: Api, acknowledged: dict[str, str]) -> None:
    stored = {
        entry.key[1]: entry.obj["data"]["key"]
        for entry in api.storage.scan("configmaps", "default")
    }
    for name, state in acknowledged.items():
        if state == "":
            assert name not in stored
        elif state == "value":  # the change may or may not have been made
            assert stored[name] in {"value", "changed"}
        elif state == "changed":
            assert stored[name] == "changed"
    # At most the one pending request of each writer is stored without a response.
    assert len(set(stored) - set(acknowledged)) <= 4


async def test_kill_9_during_writes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    process = subprocess.Popen(  # noqa: ASYNC220 - its output is read once, at the start
        [sys.executable, "-c", SERVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    acknowledged: dict[str, str] = {}
    writers = [
        asyncio.create_task(write_until_dead(url, number, acknowledged)) for number in range(4)
    ]
    async with asyncio.timeout(30):
        while len(acknowledged) < 150:
            await asyncio.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.gather(*writers)
    process.wait()
    process.stdout.close()
    async with running_server(path) as api:
        check(api, acknowledged)
        revision = api.storage.revision
        created = (await api.post(MAPS, config_map("after"))).ok(201)
        assert int(created["metadata"]["resourceVersion"]) == revision + 1


async def test_a_full_disk_is_reported_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageError("state.db: cannot be written: database or disk is full")

    async with running_server(tmp_path / "state.db") as api:
        (await api.post(MAPS, config_map("a"))).ok(201)
        with monkeypatch.context() as patch:
            patch.setattr(SqliteFile, "write", full)
            status = (await api.post(MAPS, config_map("b"))).refused(500, "InternalError")
            assert "database or disk is full" in status["message"]
            (await api.delete(f"{MAPS}/a")).refused(500, "InternalError")
        listed = (await api.get(MAPS)).ok()["items"]
        assert [item["metadata"]["name"] for item in listed] == ["a"]
        (await api.post(MAPS, config_map("b"))).ok(201)
