"""Asking programs: their answers, their limits, and what is left of them."""

import os
import signal
from pathlib import Path

import pytest

from cli.programs import until
from traincrew.engine.programs import MAX_INPUT, Answer, OutputTooLongError, ask_program


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def is_alive(file: Path) -> bool:
    """Return whether the process whose ID is in a file runs."""
    try:
        state = Path("/proc", file.read_text().strip(), "stat").read_text().rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


def opened_files() -> set[str]:
    return {descriptor.name for descriptor in Path("/proc/self/fd").iterdir()}


async def test_what_it_prints_and_its_exit_code_are_returned() -> None:
    script = "read word; echo $word $ONE; echo lost >&2; exit 3"
    found = await ask_program(
        shell(script), seconds=20, max_output=100, data=b"word\n", environment={"ONE": "1"}
    )
    assert found == Answer(b"word 1\n", 3)
    assert await ask_program(shell("kill -9 $$"), seconds=20, max_output=9) == (b"", -9)
    assert await ask_program(shell("cat"), seconds=20, max_output=9) == (b"", 0)


async def test_it_reads_as_much_as_a_pipe_takes() -> None:
    data = b"x" * MAX_INPUT
    found = await ask_program(("cat",), seconds=20, max_output=MAX_INPUT, data=data)
    assert found.output == data
    with pytest.raises(ValueError, match="4096 bytes, not 4097"):
        await ask_program(("cat",), seconds=20, max_output=9, data=data + b"x")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("while :; do echo word; done", OutputTooLongError),
        ("sleep 60 & echo $! > other; sleep 60", TimeoutError),
        ("sleep 60 & echo $! > other; exit 0", TimeoutError),
    ],
)
async def test_what_exceeds_a_limit_is_killed(
    script: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it started; and if only that holds its output, it is not waited for."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        await ask_program(shell(f"echo $$ > own; {script}"), seconds=0.5, max_output=1000)
    until(lambda: not is_alive(tmp_path / "own"), 20)
    if script.endswith("sleep 60"):
        until(lambda: not is_alive(tmp_path / "other"), 20)
    elif error is TimeoutError:
        os.kill(int((tmp_path / "other").read_text()), signal.SIGKILL)


async def test_a_service_that_it_started_lives_on(tmp_path: Path) -> None:
    script = f"sleep 60 >/dev/null & echo $! > {tmp_path}/service; echo done"
    assert await ask_program(shell(script), seconds=20, max_output=9) == (b"done\n", 0)
    assert is_alive(tmp_path / "service")
    os.kill(int((tmp_path / "service").read_text()), signal.SIGKILL)


async def test_a_missing_program_leaves_no_file_open() -> None:
    before = opened_files()
    with pytest.raises(FileNotFoundError):
        await ask_program(("/missing",), seconds=1, max_output=1, data=b"x")
    assert opened_files() == before
