"""Write docs/reference/<kind>.md, and the page of kube-openmpi's values, from the types."""

from __future__ import annotations

from pathlib import Path

from traincrew.api.kinds import DEFINITIONS
from traincrew.api.kinds.mpicluster import valuespage
from traincrew.api.reference import page

DIRECTORY = Path(__file__).parents[1] / "docs" / "reference"

for kind in DEFINITIONS:
    path = DIRECTORY / f"{kind.kind.lower()}.md"
    path.write_text(page(kind))
    print(path)

path = DIRECTORY / valuespage.FILE
path.write_text(valuespage.page())
print(path)
