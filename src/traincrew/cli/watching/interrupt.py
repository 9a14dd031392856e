"""Ends a run early: by a signal, or because its output is no longer read."""

from __future__ import annotations

import asyncio
import contextlib
import signal

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGPIPE: "nobody reads the output"}


class Interrupt:
    """The first signal that ends a run; later ones have no effect."""

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self._happened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self) -> None:
        """Handle signals from now on, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._happen, number)

    def reader_left(self) -> None:
        """End the run because its output is no longer read (``| head``), as by SIGPIPE.

        May be called from any thread.
        """
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run has ended
                self._loop.call_soon_threadsafe(self._happen, signal.SIGPIPE)

    async def wait(self) -> None:
        """Wait for the interrupt."""
        await self._happened.wait()

    def forget(self) -> None:
        """Make `wait` wait for another interrupt; name and exit code stay those of the first."""
        self._happened.clear()

    @property
    def happened(self) -> bool:
        """Whether there was an interrupt."""
        return self._signal is not None

    @property
    def is_from_keyboard(self) -> bool:
        """Whether somebody at a terminal pressed Ctrl-C."""
        return self._signal is signal.SIGINT

    @property
    def name(self) -> str:
        """The name of the interrupt for messages."""
        assert self._signal is not None
        return _NAMES.get(self._signal, self._signal.name)

    @property
    def exit_code(self) -> int:
        """The exit code, as shells report it."""
        assert self._signal is not None
        return 128 + self._signal

    def _happen(self, number: signal.Signals) -> None:
        if self._signal is None:
            self._signal = number
        self._happened.set()
