"""Ctrl-C while the program starts or ends: it ends silently, as programs that are not Python do.

Python raises KeyboardInterrupt wherever it is. While modules are imported nobody can catch that, so
it would print a traceback that means nothing to users. There is nothing to clean up at that time.
"""

from __future__ import annotations

import signal

__all__ = ["end_silently", "raise_interrupts"]


def end_silently() -> None:
    """Let Ctrl-C end this process at once; shells report exit code 130.

    A caller that has made this process ignore Ctrl-C is respected.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, unless this process ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
