"""Open files: the hard limit for the cluster, the original soft limit for all it starts."""

import subprocess
import sys

import pytest

SHOW = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
PROGRAM = f"""
import asyncio, resource, sys, tempfile
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from traincrew.engine.limits import raise_file_limit
from traincrew.local.node.runtime.processes import ContainerProcess
from traincrew.local.node.runtime.forkserver import ForkServer

async def main():
    raise_file_limit()
    raise_file_limit()
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    with tempfile.TemporaryDirectory() as name:
        server = ForkServer(Path(name), together=True)
        server.start()
        directory = Path(name, "container")
        directory.mkdir()
        command = [sys.executable, "-c", {SHOW!r}]
        await server.run(ContainerProcess(
            directory=str(directory), command=command, environment={{}}, namespaces=False))
        while not (directory / "exit.json").exists():
            await asyncio.sleep(0.01)
        server.close()
        print((directory / "log").read_text())

asyncio.run(main())
"""


@pytest.mark.parametrize("hard", [256, 1000])
def test_the_cluster_gets_the_hard_limit_and_containers_the_soft_one(hard: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(hard)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    cluster, *log = run.stdout.splitlines()
    assert cluster == f"{hard} {hard}"
    assert f"256 {hard}" in "".join(log)
