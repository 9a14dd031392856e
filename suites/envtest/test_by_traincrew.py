"""Suites of other operators judge traincrew's, and pass as the table says: none may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.cluster import gosuites
from suites.envtest import results, running

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = [
    (project, package)
    for project, suites in gosuites.GO_SUITES.items()
    if suites.project
    for package in suites.packages
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("project", "package"), PACKAGES)
def test_no_spec_is_lost(project: str, package: str, assets: Path, tmp_path: Path) -> None:
    specs = running.run(project, package, assets, tmp_path)

    results.check(project, package, specs)
