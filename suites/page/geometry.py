"""Whether what the page shows fits: nothing overlaps, is cut, or scrolls sideways."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.pages import Window

_FIND = Path(__file__).with_suffix(".js").read_text()


def misplaced(window: Window) -> list[str]:
    """Return what overlaps, is cut, or scrolls sideways; nothing is the only good answer."""
    found: list[str] = window.driver.execute_async_script(_FIND)
    return found
