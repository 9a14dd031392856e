"""controller-runtime's suites pass as the table says: more may pass, none may be lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hack.cluster import binaries, preflight
from suites.conftest import REQUIRE
from suites.envtest import controller_runtime


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, as a user makes it."""
    if text := preflight.missing_go():
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    directory = tmp_path_factory.mktemp("assets") / "bin"
    said = subprocess.run(
        [Path(sys.executable).with_name("traincrew"), "envtest", directory],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"export KUBEBUILDER_ASSETS={directory}\n"
    return directory


def test_the_table_is_of_the_release_that_is_built() -> None:
    text = (binaries.MODULES / "controller-runtime" / "go.mod").read_text()
    found = re.search(r"sigs\.k8s\.io/controller-runtime v([0-9.]+)", text)
    assert found is not None
    assert found[1] == controller_runtime.release()
    assert controller_runtime.table().keys() == set(binaries.CONTROLLER_RUNTIME_SUITES)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", binaries.CONTROLLER_RUNTIME_SUITES)
def test_no_spec_is_lost(package: str, assets: Path, tmp_path: Path) -> None:
    expected = controller_runtime.table()[package]

    specs = controller_runtime.run(package, assets, tmp_path / "report.json")

    passed = [each for each in specs if each.passed]
    print(f"{package}: {len(passed)} of {len(specs)} pass")  # noqa: T201
    if newly := sorted(each.name for each in passed if each.name in expected.names):
        told = "take these out of results.toml, and raise its floor:"
        print(told, *newly, sep="\n  ")  # noqa: T201
    lost = [each for each in specs if not each.passed and each.name not in expected.names]
    assert not lost, "\n\n".join(f"{each.name}\n{each.message}" for each in lost)
    assert len(passed) >= expected.floor
