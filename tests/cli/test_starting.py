"""Ctrl-C at a terminal while the program starts or ends."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.programs import PROGRAM, until

REACHED = "reached\n"
# Imported by Python itself before anything of ours.
CUSTOMIZED = f"""
import atexit, os, signal, sys

def reached():
    with open(os.environ["REACHED"], "w") as file:
        file.write("{REACHED.strip()}")
    while True:
        signal.pause()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["MOMENT"]:
            reached()

if os.environ["MOMENT"] == "the end":
    atexit.register(reached)
else:
    sys.meta_path.insert(0, Finder())
"""


# Nothing answers there.
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
# The first process of a session that opens a terminal gets the signals of its keys.
TAKE_TERMINAL = ': <>"$(tty)"; exec "$0" "$@"'


class Program:
    """The program on a terminal; it waits at a moment for what is typed."""

    def __init__(self, directory: Path, moment: str, *command: str) -> None:
        directory.joinpath("sitecustomize.py").write_text(CUSTOMIZED)
        directory.joinpath("kubeconfig").write_text(KUBECONFIG)
        self._reached = directory / "reached"
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            ["sh", "-c", TAKE_TERMINAL, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={
                **os.environ,
                "PYTHONPATH": str(directory),
                "MOMENT": moment,
                "REACHED": str(self._reached),
                "TERM": "xterm",
                "KUBECONFIG": str(directory / "kubeconfig"),
            },
            start_new_session=True,
        )
        os.close(theirs)

    def interrupt(self) -> str:
        """Press Ctrl-C at that moment; return what is on the terminal at the end."""
        until(lambda: self.process.poll() is not None or self._is_there())
        assert self.process.returncode is None, self._read()
        os.write(self._ours, b"\x03")
        output = self._read()
        self.process.wait(60)
        return output.replace("\r\n", "\n").replace("^C", "")

    def _is_there(self) -> bool:
        return self._reached.exists() and self._reached.read_text() == REACHED.strip()

    def _read(self) -> str:
        parts = []
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(self._ours, 65536):
                parts.append(part)
        return b"".join(parts).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def opened() -> Iterator[list[Program]]:
    programs: list[Program] = []
    yield programs
    for program in programs:
        program.close()


@pytest.mark.parametrize("started", [(PROGRAM,), (sys.executable, "-m", "traincrew.cli")])
@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("traincrew.cli.main", ("--help",)),
        ("click", ("list",)),
        ("traincrew.cli.errors", ("why", "job")),
        ("traincrew.cli.commands.run", ("run", "-f", "job.yaml")),
        ("traincrew.cli.commands.up", ("up",)),
        ("the end", ("--help",)),
    ],
)
def test_an_interrupt_at_the_start_or_end_is_silent(
    started: tuple[str, ...],
    moment: str,
    arguments: tuple[str, ...],
    opened: list[Program],
    tmp_path: Path,
) -> None:
    opened.append(program := Program(tmp_path, moment, *started, *arguments))
    output = program.interrupt()
    assert program.process.returncode == -signal.SIGINT  # which shells report as 130
    assert output == "" or moment == "the end"
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("asyncio", ("list",)),
        ("traincrew.cli.manifest.documents", ("run", "-f", "job.yaml")),
    ],
)
def test_a_command_that_has_begun_says_that_it_was_interrupted(
    moment: str, arguments: tuple[str, ...], opened: list[Program], tmp_path: Path
) -> None:
    opened.append(program := Program(tmp_path, moment, PROGRAM, *arguments))
    output = program.interrupt()
    assert output == "\ntraincrew: interrupted\n"
    assert program.process.returncode == 130


def test_shells_report_130(opened: list[Program], tmp_path: Path) -> None:
    script = 'trap : INT; "$0" list; echo "code $?"'
    opened.append(program := Program(tmp_path, "click", "sh", "-c", script, PROGRAM))
    assert "code 130" in program.interrupt()


def test_a_caller_that_ignores_interrupts_is_respected(tmp_path: Path) -> None:
    tmp_path.joinpath("sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    result = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$0" version', PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("traincrew ")
