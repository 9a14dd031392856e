"""Measurements, shown whether or not the test passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def teller(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Writes lines to the terminal, below the name of the test."""
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")

    def tell(line: str) -> None:
        if reporter is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\n  {request.node.name}: {line}")

    return tell
