"""Write docs/reference/<kind>.md from the types."""

from __future__ import annotations

from pathlib import Path

from traincrew.api.kinds import DEFINITIONS
from traincrew.api.reference import page

DIRECTORY = Path(__file__).parents[1] / "docs" / "reference"

for kind in DEFINITIONS:
    path = DIRECTORY / f"{kind.kind.lower()}.md"
    path.write_text(page(kind))
    print(path)
