"""Builds of environments that several pulls wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from traincrew.local.images.builder import build
from traincrew.local.images.errors import BuildError

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images.catalog import Definition
    from traincrew.local.images.trees import Seals

__all__ = ["SharedBuild"]

Progress = Callable[[str], None]


class SharedBuild:
    """One build and the pulls that wait for it."""

    def __init__(self, recipe: Path, definition: Definition, seals: Seals) -> None:
        self.listeners: list[Progress] = []
        self.task = asyncio.create_task(
            build(recipe, definition, self._report, seals),
            name=f"build environment {definition.name}",
        )

    def _report(self, line: str) -> None:
        for listener in self.listeners:
            listener(line)

    async def join(self, progress: Progress) -> Path:
        """Wait for the build; its lines go to `progress` from now on."""
        self.listeners.append(progress)
        try:
            return await asyncio.shield(self.task)
        finally:
            self.listeners.remove(progress)
            if not self.listeners and not self.task.done():
                self.task.cancel()
                with contextlib.suppress(asyncio.CancelledError, BuildError):
                    await self.task
