"""Lines on terminals are broken between words."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from traincrew.cli.display.folding import folded

PROGRAM = str(Path(sys.executable).with_name("traincrew"))


def test_lines_are_broken_between_words() -> None:
    text = "one two-three four"
    assert folded(text, None) == text
    assert folded(text * 3, 30) == "one two-three fourone\n  two-three fourone two-three\n  four"
    assert folded("  a " + "b" * 30 + " c", 25, 3) == "  a\n   " + "    " + "b" * 30 + "\n       c"


def on_terminal(columns: int, *arguments: str) -> str:
    """What a command writes to a terminal for standard error; its output is read by a shell."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        subprocess.run([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=theirs, check=False)
    finally:
        os.close(theirs)
    found = b""
    try:
        while chunk := os.read(ours, 65536):
            found += chunk
    except OSError:  # how a terminal says that nobody writes any more
        pass
    finally:
        os.close(ours)
    return found.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "job.yaml"),
        ("run", "-v", "nowhere-at-all:/somewhere", "job.yaml"),
        ("run", "--scale", "many workers at some time", "job.yaml"),
        ("restart", "--name", "UPPER-CASE-IS-NOT-ALLOWED"),
        ("no-such-command",),
    ],
)
def test_messages_fit_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: x}\n"
    )
    monkeypatch.chdir(tmp_path)
    wide, narrow = on_terminal(1000, *arguments), on_terminal(60, *arguments)
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert narrow.split() == wide.split()
    paths = [word for word in wide.split() if len(word) > 50]
    for line in narrow.splitlines():
        assert len(line) < 60 or any(path in line for path in paths), line
