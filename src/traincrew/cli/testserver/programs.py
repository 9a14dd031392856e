"""What the two programs of envtest share: how they start, what they print, how they end."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

from .flags import FlagError, Flags, parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Program", "main", "until_asked_to_end", "warn"]


class Program(NamedTuple):
    """A program.

    Attributes:
        name: Its name.
        purpose: One line.
        flags: Flags with a value, and what they do; None for those that change nothing a test
            can see.
        switches: Flags that are on or off, likewise.
        run: Runs until a signal ends it.
    """

    name: str
    purpose: str
    flags: dict[str, str | None]
    switches: dict[str, str | None]
    run: Callable[[Flags], Awaitable[None]]


def warn(name: str, text: str) -> None:
    """Write a line to standard error, without characters that control a terminal."""
    shown = "".join(each if each.isprintable() else "?" for each in text)
    print(f"{name}: {shown}", file=sys.stderr, flush=True)


def usage(program: Program) -> str:
    """Return the help. envtest looks there for the flags that it may pass."""
    lines = [f"{program.purpose}\n\nUsage:\n  {program.name} [flags]\n\nFlags:"]
    known = program.flags | program.switches
    lines += (
        f"      --{name:<34} {known[name] or 'accepted; changes nothing'}" for name in sorted(known)
    )
    return "\n".join(lines)


def main(program: Program) -> int:
    """Run a program; return its exit code."""
    words = sys.argv[1:]
    if any(each in {"-h", "--help", "-help"} for each in words):
        print(usage(program))
        return 0
    try:
        flags = parse(words, program.flags, program.switches)
    except FlagError as error:
        warn(program.name, f"error: {error}; --help lists the flags")
        return 1
    for each in flags.unknown:
        warn(program.name, f"{each} is not known here, and has no effect")
    try:
        asyncio.run(_run(program, flags))
    except (FlagError, OSError) as error:
        warn(program.name, f"error: {error}")
        return 1
    return 0


async def _run(program: Program, flags: Flags) -> None:
    await program.run(flags)


async def until_asked_to_end() -> None:
    """Wait for SIGTERM or SIGINT."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()
