"""The signal that asks a container to end. Pure."""

from __future__ import annotations

import signal

__all__ = ["signal_number"]

_SIGNALS = {each.name: int(each) for each in signal.Signals}


def signal_number(name: str) -> int:
    """Return the number of a signal as images and `lifecycle.stopSignal` name it.

    Args:
        name: `SIGTERM`, `TERM`, `15` or `SIGRTMIN+3`; SIGTERM for anything else.
    """
    text = name.strip().upper()
    if text.isascii() and text.isdecimal() and len(text) <= len(str(signal.NSIG)):
        number = int(text)
        return number if 0 < number < signal.NSIG else int(signal.SIGTERM)
    text = text if text.startswith("SIG") else f"SIG{text}"
    base, plus, offset = text.partition("+")
    found = _SIGNALS.get(base)
    if found is None:
        return int(signal.SIGTERM)
    if not plus:
        return found
    is_offset = offset.isascii() and offset.isdecimal() and len(offset) <= len(str(signal.NSIG))
    number = found + int(offset) if base == "SIGRTMIN" and is_offset else 0
    return number if found < number < signal.NSIG else int(signal.SIGTERM)
