"""First lines that start a Python program with a given interpreter at any path.

The kernel reads a ``#!`` line up to 127 bytes and splits it at white space, so an interpreter with
a space in its path, or with a long path, cannot be named there. Such a program starts as a shell
script that passes itself to the interpreter. Two forms of it are in use:

* That of pip and uv: the shell's line is inside a Python string. The file stays a valid Python
  module, but the string replaces its docstring, and nothing may precede ``from __future__``; a path
  with a quote, a backslash or a dollar sign cannot be written in it.
* Ours for those cases: the interpreter gets a short program by ``-c`` that skips the shell's line
  and runs the rest, with the line numbers it has in the file.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from traincrew.local.directories import write_new

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["launcher", "repair_scripts"]

# BINPRM_BUF_SIZE of kernels before 5.1, less the final byte.
_MAX_LINE_BYTES = 127
_PLAIN = re.compile(rb"[!-~]+")
# No character is special to a shell inside double quotes, or to Python inside '''.
_QUOTABLE = re.compile(r"[^\"'\\$`\x00-\x1f\x7f\ud800-\udfff]+")
# The beginning of scripts that pip and uv generate, after the "#!" line.
_GENERATED = re.compile(rb"#!/bin/sh\n'''exec' .*?\n' '''\n", re.DOTALL)
_MAX_SCRIPT_BYTES = 1 << 20

# Runs with the script as argument 1. `python SCRIPT` puts the script's directory first on the
# search path, and `-c` the working directory; isolated mode has neither.
_RUN = (
    "import importlib.util as u,os,sys;"
    "del sys.argv[0];"
    "__file__=sys.argv[0];"
    "s=u.decode_source(open(__file__,'rb').read().split(b'\\n',{lines})[{lines}]);"
    "sys.flags.safe_path or sys.path.__setitem__(0,os.path.dirname(os.path.realpath(__file__)));"
    "exec(compile('\\n'*{lines}+s,__file__,'exec'))"
)


def launcher(interpreter: Path, source: bytes, options: str = "") -> bytes:
    """Return the Python program `source` as a file that runs with `interpreter`.

    A first line of its own (``#!``) is kept, as a comment.

    Args:
        interpreter: An absolute path of any characters and any length.
        source: A Python program.
        options: For the interpreter, in one word, such as ``-IS``.
    """
    name = os.fsencode(interpreter)
    line = b"#!" + name + (b" " + options.encode() if options else b"")
    if len(line) < _MAX_LINE_BYTES and _PLAIN.fullmatch(name):
        return line + b"\n" + source
    text = str(interpreter)
    words = f" {options}" if options else ""
    if _QUOTABLE.fullmatch(text) and b"__future__" not in source and b"__doc__" not in source:
        return f"""#!/bin/sh\n'''exec' "{text}"{words} "$0" "$@"\n' '''\n""".encode() + source
    quoted = os.fsencode(shlex.quote(text))
    lines = 2 + quoted.count(b"\n")
    program = shlex.quote(_RUN.format(lines=lines))
    start = b"#!/bin/sh\nexec " + quoted + f'{words} -c {program} "$0" "$@"\n'.encode()
    return start + source


def repair_scripts(prefix: Path) -> list[Path]:
    """Rewrite scripts of an environment that do not start at its path; return their paths.

    pip and uv quote the interpreter's path for some directories only, and their form for
    directories with spaces is not valid before ``from __future__``.
    """
    programs = prefix / "bin"
    interpreter = programs / "python"
    own = os.fsencode(programs) + b"/python"
    repaired = []
    for path in sorted(programs.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size > _MAX_SCRIPT_BYTES:
            continue
        content = path.read_bytes()
        if match := _GENERATED.match(content):
            source = content[match.end() :]
        elif content.startswith(b"#!" + own):
            source = content[2 + len(own) :].partition(b"\n")[2]
        else:
            continue
        wanted = launcher(interpreter, source)
        if wanted != content:
            # A new file: this one may be hard-linked to a package cache.
            mode = path.stat().st_mode
            write_new(path, wanted)
            path.chmod(mode)
            repaired.append(path)
    return repaired
