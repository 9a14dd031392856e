"""Running uv, which creates environments, installs packages and downloads interpreters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from traincrew.local.images.errors import BuildError
from traincrew.local.images.installation.pip_settings import pip_settings, uv_variables
from traincrew.local.images.installation.process import run
from traincrew.local.images.installation.uv_output import Screen

__all__ = ["Measurement", "Notice", "Uv", "find_uv"]

# An index that does not answer fails after about (retries + 1) * seconds.
_HTTP_SECONDS = 20
_HTTP_RETRIES = 2
_TICK_SECONDS = 1.5
_LAST_LINES = 400
# Variables that would make uv, or the interpreter, use another environment.
_UNWANTED_VARIABLES = frozenset(
    {
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "UV_NO_PROGRESS",
        "UV_PREFIX",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_QUIET",
        "UV_SYSTEM_PYTHON",
        "UV_TARGET",
        "VIRTUAL_ENV",
        "__PYVENV_LAUNCHER__",
    }
)


class Measurement(str):
    """A line of progress that the next one replaces."""

    __slots__ = ()


class Notice(str):
    """A line of progress that users should see later, too: something was wrong."""

    __slots__ = ()
    reason = "ImageDamaged"
    """Of the event about it."""


Progress = Callable[[str], None]


def find_uv() -> str:
    """Return the path of the bundled uv, else of the one on ``PATH``.

    Raises:
        BuildError: There is none.
    """
    try:
        import uv

        return os.fsdecode(uv.find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        if program := shutil.which("uv"):
            return program
        raise BuildError(
            'the program "uv", which traincrew builds environments with, is missing from its '
            'installation: "pip install --force-reinstall uv"',
            permanent=True,
        ) from error


class Uv:
    """Runs uv with the settings of one build.

    Args:
        cache: traincrew's cache; uv's is in it.
        temporary: Directory for temporary files of the programs that build packages.
        log: Receives all output.
        progress: Receives a summary for users, at least every two seconds.
        keep_open: File descriptors uv inherits.
    """

    def __init__(
        self,
        cache: Path,
        temporary: Path,
        log: Path,
        progress: Progress,
        keep_open: Sequence[int] = (),
    ) -> None:
        self.lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._log = log
        self._progress = progress
        self._keep_open = tuple(keep_open)
        self._environment = _environment(cache, temporary)

    async def run(self, what: str, *arguments: str, **variables: str) -> int:
        """Run ``uv ARGUMENTS`` and return its exit code; `lines` has its output.

        Args:
            what: What it does, for progress.
            arguments: Of uv.
            variables: More environment variables.
        """
        self.lines.clear()
        command = [find_uv(), *arguments]
        with self._log.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"$ uv {' '.join(arguments)}\n")

            def on_line(line: str) -> None:
                log.write(line + "\n")
                if line.strip():
                    self.lines.append(line)
                if line.strip().startswith("Built "):
                    self._progress(line.strip().lower().replace("==", " "))

            screen = Screen(on_line)
            self._progress(what)
            ticking = asyncio.create_task(self._tick(what, screen))
            try:
                return await run(
                    command,
                    environment={**self._environment, **variables},
                    on_text=screen.feed,
                    keep_open=self._keep_open,
                )
            finally:
                ticking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ticking
                screen.close()

    async def _tick(self, what: str, screen: Screen) -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            detail = screen.progress()
            # Whatever has no rate looks like a hang if its line stays the same.
            if "/s: " not in detail:
                detail = f"{detail or what} ({time.monotonic() - started:.0f} s)"
            self._progress(Measurement(detail))


def _environment(cache: Path, temporary: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _UNWANTED_VARIABLES}
    variables = {
        "UV_HTTP_TIMEOUT": str(_HTTP_SECONDS),
        "UV_HTTP_RETRIES": pip_settings(os.environ).get("retries", str(_HTTP_RETRIES)),
        **_configuration(),
        **uv_variables(os.environ),
        **own,
    }
    return variables | {
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "TERM": "xterm",
        "TMPDIR": str(temporary),
        "UV_CACHE_DIR": str(cache / "downloads"),
        # No file of an environment is one of uv's cache as well, whatever happens to either.
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_INSTALL_DIR": str(cache / "python"),
    }


def _configuration() -> dict[str, str]:
    """Return the variable that names the configuration of this user or machine, or none.

    uv would also read ``pyproject.toml`` of the working directory, whose settings belong to another
    project.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for path in (home / "uv/uv.toml", Path("/etc/uv/uv.toml")):
        if path.is_file():
            return {"UV_CONFIG_FILE": str(path)}
    return {} if "UV_CONFIG_FILE" in os.environ else {"UV_NO_CONFIG": "1"}
