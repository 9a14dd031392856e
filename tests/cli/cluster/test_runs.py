"""The clusters of runs are found while they live, and leave nothing."""

import asyncio

import msgspec
import pytest

from traincrew.cli.cluster import runs
from traincrew.cli.cluster.files import home

JOB = runs.RunJob("ChainerJob", "default", "digits")


def test_a_run_is_found_until_it_withdraws() -> None:
    run = runs.announce("/tmp/kubeconfig", (JOB,))
    assert run is not None
    assert runs.runs() == [run]
    assert run.lives()
    assert run.file.stat().st_mode & 0o077 == 0

    run.withdraw()
    assert not run.lives()
    assert runs.runs() == []
    assert not home().exists()
    run.withdraw()


def test_what_a_killed_run_has_left_is_removed() -> None:
    run = runs.announce("/tmp/kubeconfig", (JOB,))
    assert run is not None
    left = msgspec.structs.replace(run, token="of an earlier process")
    run.file.write_bytes(msgspec.json.encode(left))
    assert not left.lives()
    assert runs.runs() == []
    assert not run.file.exists()


def test_other_files_are_no_runs() -> None:
    run = runs.announce("/tmp/kubeconfig", (JOB,))
    assert run is not None
    (run.file.parent / "7.json").write_text("{")
    (run.file.parent / "8.json").write_bytes(run.file.read_bytes())
    assert runs.runs() == [run]


def test_a_directory_that_others_can_write_is_not_used() -> None:
    home().mkdir(parents=True)
    home().chmod(0o777)
    assert runs.announce("/tmp/kubeconfig", ()) is None
    assert runs.runs() == []


def test_a_run_without_a_place_for_it_is_not_announced() -> None:
    home().parent.mkdir(parents=True, exist_ok=True)
    home().write_text("")
    assert runs.announce("/tmp/kubeconfig", ()) is None
    assert runs.runs() == []


async def test_a_run_waits_at_its_end_for_those_who_watch() -> None:
    run = runs.announce("/tmp/kubeconfig", (JOB,))
    assert run is not None
    with run.watched():
        ending = asyncio.create_task(run.end())
        while run.lives():
            await asyncio.sleep(0.01)
        assert not ending.done()
    await ending


async def test_a_run_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LAST_SECONDS", 0.05)
    run = runs.announce("/tmp/kubeconfig", (JOB,))
    assert run is not None
    with run.watched():
        await run.end()
    assert not run.lives()
