"""Python programs start with their interpreter, whatever the names of its parent directories."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from traincrew.local.images.launchers import launcher, repair_scripts

NAMES = {
    "plain": "plain",
    "space": "my projects",
    "single quote": "it's mine",
    "double quote": 'a "b" c',
    "both quotes": "a'b\"c",
    "three quotes": "a'''b",
    "beyond ASCII": "Übung/学習",
    "not UTF-8": os.fsdecode(b"caf\xe9"),
    "shell": "$HOME `id` \\n;&|*",
    "newline": "a\nb",
    "200 characters": "d" * 100 + "/" + "e" * 100,
    "everything": 'it\'s "my" $1 \\ é/' + "x" * 150,
}

PROGRAM = '''\
#!/usr/bin/env python
"""The documentation."""

from __future__ import annotations

import sys

import beside

print(ascii([__name__, __doc__, sys.argv, __file__, beside.__file__]))


class Late:
    value: Undefined


if "fail" in sys.argv:
    raise SystemExit(str(sys._getframe().f_lineno))
'''
ISOLATED = '''\
"""Documentation."""
from __future__ import annotations
import sys

print(ascii([__doc__, sys.argv[1:], sys.flags.isolated, sys.flags.no_site]))
'''
# As pip and uv write it for an entry point.
GENERATED = "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n{source}"


@pytest.fixture(params=list(NAMES.values()), ids=list(NAMES))
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A directory of an awkward name."""
    path: Path = tmp_path / request.param
    path.mkdir(parents=True)
    return path


def interpreter(directory: Path) -> Path:
    """An interpreter in `directory`: a shell script, because a link would lead out of it."""
    python = directory / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def run(*words: object, code: int = 0) -> str:
    result = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


def test_a_program_runs_as_if_started_by_python(directory: Path) -> None:
    program = write(directory / "program", launcher(interpreter(directory), PROGRAM.encode()))
    beside = directory / "beside.py"
    beside.write_text("")
    expected = ["__main__", "The documentation.", [str(program), "a b", "c"], str(program)]
    expected.append(str(beside))
    assert run(program, "a b", "c") == ascii(expected) + "\n"


def test_line_numbers_are_those_of_the_file(directory: Path) -> None:
    program = write(directory / "program", launcher(interpreter(directory), PROGRAM.encode()))
    (directory / "beside.py").write_text("")
    line = int(run(program, "fail", code=1))
    assert program.read_bytes().splitlines()[line - 1].strip().startswith(b"raise SystemExit")


def test_options_reach_the_interpreter(directory: Path) -> None:
    program = write(
        directory / "program", launcher(interpreter(directory), ISOLATED.encode(), "-IS")
    )
    assert run(program, "x y") == "['Documentation.', ['x y'], 1, 1]\n"


def test_scripts_of_an_environment_are_repaired(directory: Path) -> None:
    (directory / "bin").mkdir()
    python = interpreter(directory / "bin")
    (directory / "bin" / "beside.py").write_text("")
    text = GENERATED.format(python=os.fsdecode(os.fsencode(python)), source=PROGRAM)
    script = write(directory / "bin" / "tool", os.fsencode(text))
    simple = GENERATED.format(python=python, source="import sys\nprint(sys.argv[1:])\n")
    entry = write(directory / "bin" / "entry", os.fsencode(simple))
    short = write(directory / "bin" / "short", b"#!" + os.fsencode(python) + b"\nprint('short')\n")
    binary = write(directory / "bin" / "binary", b"\x7fELF...")
    shell = write(directory / "bin" / "shell", b"#!/bin/sh\necho shell\n")
    (directory / "bin" / "alias").symlink_to("shell")

    repair_scripts(directory)
    assert "The documentation." in run(script)
    assert run(entry, "a b") == "['a b']\n"
    assert run(short) == "short\n"
    assert run(shell) == "shell\n"
    assert binary.read_bytes() == b"\x7fELF..."
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert repair_scripts(directory) == []


def test_a_hard_linked_script_is_replaced_not_modified(tmp_path: Path) -> None:
    directory = tmp_path / "a b"
    (directory / "bin").mkdir(parents=True)
    python = interpreter(directory / "bin")
    text = GENERATED.format(python=python, source=PROGRAM)
    script = write(directory / "bin" / "tool", text.encode())
    (tmp_path / "cached").hardlink_to(script)
    assert repair_scripts(directory) == [script]
    assert (tmp_path / "cached").read_text() == text


def test_source_encodings_are_kept(tmp_path: Path) -> None:
    directory = tmp_path / "it's"
    directory.mkdir()
    source = "# -*- coding: latin-1 -*-\nprint(ascii('é'))\n".encode("latin-1")
    program = write(directory / "program", launcher(interpreter(directory), source))
    assert run(program) == "'\\xe9'\n"
