"""The suites of training-operator pass as the table says: more may pass, none may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.cluster import gosuites
from suites.envtest import results, running

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "training-operator"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", gosuites.GO_SUITES[PROJECT].packages)
def test_no_spec_is_lost(package: str, assets: Path, tmp_path: Path) -> None:
    specs = running.run(PROJECT, package, assets, tmp_path)

    results.check(PROJECT, package, specs)
