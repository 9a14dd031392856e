"""Write docs/reference/<folder>.md of each kind, and the page of kube-openmpi's values."""

from __future__ import annotations

from pathlib import Path

from traincrew.api.kinds import DEFINITIONS, FOLDERS
from traincrew.api.kinds.mpicluster import valuespage
from traincrew.api.reference import page

DIRECTORY = Path(__file__).parents[1] / "docs" / "reference"

# Folders have different names, also without regard to case.
for folder, kind in zip(FOLDERS, DEFINITIONS, strict=True):
    path = DIRECTORY / f"{folder}.md"
    path.write_text(page(kind))
    print(path)

path = DIRECTORY / valuespage.FILE
path.write_text(valuespage.page())
print(path)
