"""What axe-core finds in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.pages import Window

_FIND = """
const [colours, done] = arguments;
// What passes is not described: nobody reads it.
axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], resultTypes: ["violations"],
  rules: {"color-contrast": {enabled: colours}}}).then(
  ({violations}) => done(violations.flatMap(({id, impact, nodes}) =>
    nodes.map((node) => `${impact} ${id}: ${node.target} ${node.failureSummary}`))),
  (error) => done([String(error)]));
"""


def violations(window: Window, program: str, *, colours: bool = True) -> list[str]:
    """Return what users of a keyboard or a screen reader, or with poor sight, could not use.

    Args:
        window: Shows it.
        program: The text of axe-core.
        colours: Whether the contrast of each text is judged; that takes longest of all.
    """
    if not window.driver.execute_script("return 'axe' in window"):
        window.driver.execute_script(program)
    found: list[str] = window.driver.execute_async_script(_FIND, colours)
    return found[:20]
