"""Errors of watches, for the user: each outage is reported once, and so is a missing right."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.cli.display.text import plain
from traincrew.cli.watching.rights import missing_right, refused
from traincrew.engine.errors import ApiError, ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.cli.errors import CommandFailed
    from traincrew.engine.resources import Resource

__all__ = ["WatchErrors"]


class WatchErrors:
    """Reports the state of all watches of a command.

    Args:
        problem: Shows a line about something that does not work.
        recovery: Shows a line about something that works again.
        note: Called as well with each right that is missing.
    """

    def __init__(
        self,
        problem: Callable[[str], None],
        recovery: Callable[[str], None],
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._problem = problem
        self._recovery = recovery
        self._note = note
        self._unreachable = False
        self._missing_rights: set[str] = set()
        self._failed = asyncio.Event()
        self._failure: CommandFailed | None = None

    def fail(self, failure: CommandFailed) -> None:
        """End the command: it cannot do without what it may not do."""
        self._failure = failure
        self._failed.set()

    async def unless_failed(self, work: Awaitable[object]) -> None:
        """Wait for the work of a command, as long as it has the rights that it needs.

        Raises:
            CommandFailed: A right is missing.
        """
        task = asyncio.ensure_future(work)
        failed = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait((task, failed), return_when=asyncio.FIRST_COMPLETED)
            if self._failure is not None:
                raise self._failure
            await task
        finally:
            failed.cancel()
            task.cancel()

    def report(
        self,
        error: Exception | None,
        resource: Resource,
        namespace: str | None,
        *,
        required: bool = True,
    ) -> None:
        """Report that a watch fails or works again.

        Args:
            error: Why it fails; None if it works again.
            resource: What is watched.
            namespace: The namespace; None for all of them.
            required: Whether the command fails without the right to watch it.
        """
        if error is None:
            if self._unreachable:
                self._unreachable = False
                self._recovery("the cluster answers again")
        elif isinstance(error, ForbiddenError):
            if required:
                self.fail(refused(error, "watch", resource, namespace))
            else:
                self.report_missing_right(missing_right("watch", resource, namespace, error=error))
        elif isinstance(error, ApiError) and not self._unreachable:
            self._unreachable = True
            self._problem(f"the cluster does not answer; trying again: {plain(error.message)}")

    def report_missing_right(self, text: str) -> None:
        """Show a line about a right that the command can do without, once."""
        if text not in self._missing_rights:
            self._missing_rights.add(text)
            self._problem(text)
            if self._note is not None:
                self._note(text)
