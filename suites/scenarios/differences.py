"""Where the embedded cluster may tell another story than a real one, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .compare import Finding


class Difference(NamedTuple):
    """A difference that is meant.

    Attributes:
        name: A short name, unique.
        why: For readers of docs/design/differences.md.
        section: Pattern of the titles of sections it is found in.
        embedded: Pattern of lines only the embedded cluster has; None if there are none.
        real: Pattern of lines only the real cluster has; None if there are none.
        scenarios: Pattern of the names of scenarios.
    """

    name: str
    why: str
    section: str
    embedded: str | None = None
    real: str | None = None
    scenarios: str = ".*"

    def covers(self, scenario: str, finding: Finding) -> bool:
        """Whether a line is one of this difference's. Patterns have to match as a whole."""
        pattern = self.embedded if finding.side == "embedded" else self.real
        return (
            pattern is not None
            and re.fullmatch(self.scenarios, scenario) is not None
            and re.fullmatch(self.section, finding.section) is not None
            and re.fullmatch(pattern, finding.line) is not None
        )


DIFFERENCES: tuple[Difference, ...] = ()
