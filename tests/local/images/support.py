"""Stand-ins for Python 3.99 and uv, so that environments are built without network and seconds."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from traincrew.local.images import ImagePullError, ImageStore

Catalog = Callable[[str], Path]

PYTHON = """\
#!/bin/sh
# Answers as Python 3.99 when it is asked what it is.
echo '{"executable": "'"$0"'", "prefix": "/", "version": "3.99.1", "wheels": ["/pip.whl"]}'
"""
UV = """\
#!/bin/sh
# Understands what the builder says to uv: "venv ... PATH", "pip install ...", "python install ...".
case "$*" in
  venv*)
    for path; do :; done
    echo venv >> "$STAND_IN/log"
    mkdir -p "$path/bin" && cp "$STAND_IN/python3.99" "$path/bin/python" ;;
  *"-- /pip.whl") ;;
  "pip install"*)
    echo pip >> "$STAND_IN/log"
    echo "$@" >> "$STAND_IN/arguments"
    . "$STAND_IN/pip" ;;
  *)
    echo "$@" >> "$STAND_IN/arguments"
    . "$STAND_IN/other" ;;
esac
"""


class StandIn:
    """The calls of the stand-in for uv, and its behaviour."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uv = directory / "uv"
        for path, script in ((directory / "python3.99", PYTHON), (self.uv, UV)):
            path.write_text(script, encoding="utf-8")
            path.chmod(0o755)
        self.pip("true")

    def pip(self, script: str) -> None:
        """Set the script of ``uv pip install``."""
        (self.directory / "pip").write_text(script, encoding="utf-8")

    def other(self, script: str) -> None:
        """Set the script of all other commands."""
        (self.directory / "other").write_text(script, encoding="utf-8")

    def log(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "log").read_text(encoding="utf-8").split()
        return []

    def arguments(self) -> list[str]:
        return (self.directory / "arguments").read_text(encoding="utf-8").splitlines()


def stand_in_for_uv(directory: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Install the stand-ins for uv and Python 3.99 in a new directory on PATH."""
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(directory))
    stand_in = StandIn(directory)
    monkeypatch.setattr("traincrew.local.images.installation.uv.find_uv", lambda: str(stand_in.uv))
    return stand_in


BUILT = """
environments:
- {name: built, images: [me/built], python: "3.99", requirements: [one==1, two==2]}
- {name: same, images: [me/same], python: "3.99", requirements: [one==1, two==2], env: {A: b}}
- {name: other, images: [me/other], python: "3.99", requirements: [one==1]}
"""


def nothing(line: str) -> None:
    """Ignore progress."""


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited for: {what}"
        await asyncio.sleep(0.01)


async def refused(store: ImageStore, image: str) -> ImagePullError:
    with pytest.raises(ImagePullError) as caught:
        await store.pull(image, nothing)
    assert "\n" not in caught.value.message
    return caught.value
