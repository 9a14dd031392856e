"""The page of a run, with `traincrew run --ui` or with `traincrew ui` beside it."""

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from cli.anycluster import own_home, script
from cli.programs import PROGRAM

__all__ = ["own_home"]

JOB = "ChainerJob.kubeflow.org/default/digits"


@pytest.fixture
def end(own_home: Path) -> Path:
    """A file that ends the job when it is created; the job is in job.yaml beside it."""
    end = own_home / "end"
    program = f"echo begun; while [ ! -e {end} ]; do sleep 0.1; done; echo ended"
    document = script("digits", program)
    document["spec"]["master"]["template"]["spec"]["containers"][0]["image"] = "python:3.11"
    (own_home / "job.yaml").write_text(yaml.safe_dump(document))
    return end


@contextmanager
def started(directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [PROGRAM, *words],
        cwd=directory,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def found_in(output: Iterable[str] | None, pattern: str) -> re.Match[str]:
    """Read lines until one matches."""
    assert output is not None
    for line in output:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no line has {pattern}")


ADDRESS = r"(http://[\d.:]+)/#token=([\w-]+)&job=(\S+)"


@asynccontextmanager
async def session(base: str, token: str) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A session of the page, and its name of the cluster."""
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{base}/session", json={"token": token}) as answer:
            assert answer.status == 200
            content = await answer.json()
        http.headers["Authorization"] = f"Bearer {content['session']}"
        yield http, content["cluster"]


async def until_event(stream: aiohttp.ClientResponse, wanted: str) -> Any:
    """Read messages until there is this event; return its content."""
    async for line in stream.content:
        if line == f"event: {wanted}\n".encode():
            return json.loads((await stream.content.readline()).removeprefix(b"data: "))
    raise AssertionError(f"the stream has ended without {wanted}")


async def test_a_run_has_a_page(own_home: Path, end: Path) -> None:
    with started(own_home, "run", "job.yaml", "--ui", "--sandbox", "bare") as process:
        assert process.stdout is not None
        base, token, job = found_in(process.stdout, f"page: {ADDRESS}").groups()
        assert job == JOB
        async with session(base, token) as (http, cluster):
            assert cluster == "the cluster of this run"
            async with http.get(f"{base}/jobs") as stream:
                assert JOB in (await until_event(stream, "rows"))["changed"]
        end.touch()
        output = process.stdout.read()
        assert "page for one more window: http://" in output
        assert "ChainerJob digits: Succeeded" in output
    assert process.returncode == 0


async def test_ui_finds_a_run_and_keeps_what_it_has_seen(own_home: Path, end: Path) -> None:
    with started(own_home, "run", "job.yaml", "--sandbox", "bare") as run:
        hint = found_in(run.stdout, r"to see it in a browser: (.+)")[1]
        assert hint.split()[-1] == "ui"
        assert run.stdout is not None
        found_in(run.stdout, r"\| begun")
        with started(own_home, "ui") as ui:
            base, token, job = found_in(ui.stdout, ADDRESS).groups()
            assert job == JOB
            end.touch()
            assert "ChainerJob digits: Succeeded" in run.stdout.read()
            assert run.wait(60) == 0
            found_in(ui.stdout, r"The run has ended, and its cluster with it\.")
            # Nobody has looked at the job while it ran.
            async with session(base, token) as (http, cluster):
                assert cluster == "the cluster of `traincrew run`: ChainerJob digits"
                async with http.get(f"{base}/jobs/{job}") as stream:
                    ended = await until_event(stream, "ended")
                    assert ended["text"].startswith("The run has ended")
                    head = await until_event(stream, "job")
                    assert head["job"]["phase"] == "Succeeded"
                    assert head["problems"] == []
                    lines = (await until_event(stream, "log"))["lines"]
                    assert [text for _, _, text in lines] == ["begun", "ended"]
                unseen = job.replace("digits", "other")
                async with http.get(f"{base}/jobs/{unseen}") as answer:
                    assert answer.status == 404
                    assert (await answer.json())["error"] == ended["text"]
    assert not (own_home / "home").exists()
