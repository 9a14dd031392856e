"""The log of a server that runs for months stays small."""

import subprocess
import sys
from pathlib import Path

from traincrew.cli.cluster.files import ClusterFiles

PROGRAM = """
import asyncio, os, subprocess, sys
from traincrew.cli.cluster import daemonlog
from traincrew.cli.cluster.files import ClusterFiles

daemonlog.BYTES_KEPT, daemonlog.EVERY_SECONDS = 100_000, 0.01

async def main():
    log = ClusterFiles("default").log
    bounding = asyncio.create_task(daemonlog.keep_small(log))
    for number in range(2000):
        print(f"line {number} " + "x" * 1000, file=sys.stderr if number % 2 else sys.stdout)
        sys.stdout.flush()
        if number % 20 == 0:
            await asyncio.sleep(0.02)
    # Programs that inherit it write to the file in use, too.
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    bounding.cancel()

asyncio.run(main())
"""


def test_the_log_is_rotated_while_it_is_written() -> None:
    files = ClusterFiles("default")
    files.make()
    with files.log.open("ab") as log:
        subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=log, stderr=log, check=True, timeout=60
        )
    before = files.log.with_suffix(".log.1")
    assert sorted(each.name for each in files.directory.iterdir()) == [
        "daemon.log",
        "daemon.log.1",
    ]
    assert max(before.stat().st_size, files.log.stat().st_size) < 200_000
    assert files.log.stat().st_mode & 0o777 == 0o600
    lines = (before.read_text() + files.log.read_text()).splitlines()
    assert lines[-1] == "from a child"
    numbers = [int(line.split()[1]) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 2000))


FOREGROUND = """
import asyncio
from traincrew.cli.cluster import daemonlog
from traincrew.cli.cluster.files import ClusterFiles

daemonlog.BYTES_KEPT = 10
print("x" * 100, flush=True)
daemonlog.rotate(ClusterFiles("default").log)
print("y", flush=True)
"""


def test_the_output_of_a_server_in_the_foreground_is_the_users(tmp_path: Path) -> None:
    files = ClusterFiles("default")
    files.make()
    files.log.write_text("of an earlier server\n")
    with (tmp_path / "mine.txt").open("ab") as mine:
        subprocess.run([sys.executable, "-c", FOREGROUND], stdout=mine, stderr=mine, check=True)
    assert (tmp_path / "mine.txt").read_text() == "x" * 100 + "\ny\n"
    assert files.log.read_text() == "of an earlier server\n"
