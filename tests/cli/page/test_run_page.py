"""`traincrew run --ui`: the page of a run, as long as the run lasts."""

import re
import subprocess
from pathlib import Path

import aiohttp
import yaml

from cli.anycluster import script
from cli.programs import PROGRAM

JOB = "ChainerJob.kubeflow.org/default/digits"


def address_in(output: object) -> re.Match[str]:
    """Read lines until one has an address."""
    for line in output:  # type: ignore[attr-defined]
        if found := re.search(r"page: (http://[\d.:]+)/#token=([\w-]+)&job=(\S+)", line):
            return found
    raise AssertionError("the run has ended without an address")


async def test_a_run_has_a_page(tmp_path: Path) -> None:
    end = tmp_path / "end"
    document = script("digits", f"while [ ! -e {end} ]; do sleep 0.1; done")
    document["spec"]["master"]["template"]["spec"]["containers"][0]["image"] = "python:3.11"
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    with subprocess.Popen(  # noqa: ASYNC220  # nothing else runs in this loop
        [PROGRAM, "run", "job.yaml", "--ui", "--sandbox", "bare"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            base, token, job = address_in(process.stdout).groups()
            assert job == JOB
            async with aiohttp.ClientSession() as http:
                async with http.post(f"{base}/session", json={"token": token}) as answer:
                    assert answer.status == 200
                    content = await answer.json()
                assert content["cluster"] == "the cluster of this run"
                headers = {"Authorization": f"Bearer {content['session']}"}
                async with http.get(f"{base}/jobs", headers=headers) as stream:
                    assert await stream.content.readline() == b"event: rows\n"
                    assert JOB.encode() in await stream.content.readline()
            end.touch()
            output = process.stdout.read()
            assert "page for one more window: http://" in output
            assert "ChainerJob digits: Succeeded" in output
        finally:
            process.terminate()
    assert process.returncode == 0
