"""The suites of Kueue pass as the table says: more may pass, none may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.cluster import gosuites
from suites.envtest import results, running

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "kueue"
# The others take minutes each.
PACKAGES = [
    each
    for each in gosuites.GO_SUITES[PROJECT].packages
    if each.endswith(("/job", "/statefulset", "/conversion", "/podsready", "/webhook/core"))
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", PACKAGES)
def test_no_spec_is_lost(package: str, assets: Path, tmp_path: Path) -> None:
    specs = running.run(PROJECT, package, assets, tmp_path)

    results.check(PROJECT, package, specs)
