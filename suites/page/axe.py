"""What axe-core finds in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.pages import Window

_FIND = """
const done = arguments[arguments.length - 1];
axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(
  ({violations}) => done(violations.flatMap(({id, impact, nodes}) =>
    nodes.map((node) => `${impact} ${id}: ${node.target} ${node.failureSummary}`))),
  (error) => done([String(error)]));
"""


def violations(window: Window, program: str) -> list[str]:
    """Return what users of a keyboard or a screen reader, or with poor sight, could not use.

    Args:
        window: Shows it.
        program: The text of axe-core.
    """
    if not window.driver.execute_script("return 'axe' in window"):
        window.driver.execute_script(program)
    found: list[str] = window.driver.execute_async_script(_FIND)
    return found[:20]
