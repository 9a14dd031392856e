"""`traincrew run` on a terminal: what stays at the bottom of it, at two widths."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import traincrew.progress
from cli.programs import IMAGE, PROGRAM
from cli.screen import Screen

PROGRAM_TEXT = """
import os, sys, time
sys.path.insert(0, "/shared")
import progress
print("a line that is longer than the terminal is wide, so that the terminal wraps it", flush=True)
metrics = {"loss": 0.4123456, "train_samples_per_second": 812.25}
progress.report(43, remaining_seconds=600, metrics=metrics)
while not os.path.exists("/shared/go-on"):
    time.sleep(0.05)
"""

JOB = """
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata: {{name: digits}}
spec:
  master:
    template: &template
      spec:
        containers:
        - name: chainer
          image: {image}
          command: [python3, /shared/train.py]
  workerSets:
    ws0:
      replicas: 2
      template:
        spec:
          containers: [{{name: chainer, image: {image}, command: [sleep, "600"]}}]
"""


class Terminal:
    """A program on a terminal of a width."""

    def __init__(self, columns: int, *command: str, environment: dict[str, str]) -> None:
        self.screen = Screen(columns)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)

    def read_until(self, *texts: str) -> list[str]:
        """Read until the lines on the screen have all of these texts."""
        deadline = time.monotonic() + 60
        while not all(text in "\n".join(self.screen.lines()) for text in texts):
            assert time.monotonic() < deadline, self.screen.lines()
            assert self._read(), self.screen.lines()
        return self.screen.lines()

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            text = os.read(self._ours, 65536)
        except OSError:  # the program has ended
            return False
        self.screen.feed(text.decode())
        return bool(text)

    def end(self) -> list[str]:
        """Read to the end; return the lines."""
        while self._read():
            pass
        return self.screen.lines()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    directory = tmp_path / "shared"
    directory.mkdir()
    (directory / "train.py").write_text(PROGRAM_TEXT)
    (directory / "progress.py").write_text(Path(traincrew.progress.__file__).read_text())
    (tmp_path / "job.yaml").write_text(JOB.format(image=IMAGE))
    return directory


@pytest.fixture
def terminals(environment: dict[str, str]) -> Iterator[list[Terminal]]:
    environment.update(TERM="xterm", NO_COLOR="1")
    environment.pop("COLUMNS", None)
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            80,
            (
                "master 1/1  ws0 2/2",
                f"{'█' * 8}{'░' * 11}   43%  LEFT  loss 0.4123  812.2 samples/s",
            ),
        ),
        (40, ("3/3 running", f"{'█' * 3}{'░' * 6}   43%  LEFT")),
    ],
)
def test_the_block_has_roles_and_what_the_program_reports(
    columns: int,
    shown: tuple[str, str],
    shared: Path,
    environment: dict[str, str],
    terminals: list[Terminal],
) -> None:
    head, row = shown
    command = (PROGRAM, "run", str(shared.parent / "job.yaml"), "-v", f"{shared}:/shared")
    terminal = Terminal(columns, *command, environment=environment)
    terminals.append(terminal)
    lines = terminal.read_until("43%", head)
    first, second = lines[-2:]
    assert first.split()[:3] == ["digits", "▶", "Running"]
    assert first.endswith(head)
    left = next(word for word in second.split("  ") if word.endswith(" left"))
    assert second == row.replace("LEFT", left)
    assert all(len(line) <= columns - 4 for line in lines[-2:])
    # The log is above the block, and complete.
    log = "".join(line.ljust(columns) for line in lines)
    assert "longer than the terminal is wide, so that the terminal wraps it" in log

    (shared / "go-on").touch()
    end = terminal.end()
    assert terminal.process.wait(30) == 0
    assert "ChainerJob digits: Succeeded after" in "\n".join(end)
    if columns == 80:
        said = "Next: keep a cluster for kubectl: traincrew up"
        assert any(line.startswith(said) for line in end)
    assert not [line for line in end if "█" in line or line.startswith("digits  ")]


def test_in_a_file_reports_are_lines(
    shared: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (shared / "go-on").touch()
    command = [PROGRAM, "run", str(tmp_path / "job.yaml"), "-v", f"{shared}:/shared"]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "digits: 43%  10:00 left  loss 0.4123  812.2 samples/s\n" in result.stdout
    assert "\x1b" not in result.stdout
    assert "█" not in result.stdout
