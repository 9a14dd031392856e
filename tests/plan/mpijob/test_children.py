"""The children of each shape of MPIJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.mpijob.world import example
from traincrew.api.kinds.mpijob import types as api
from traincrew.plan.mpijob import children

GOLDENS = Path(__file__).parent / "goldens"


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    spec, owner = api.decode(job["spec"]), owner_of(job)
    return [
        children.service(owner, spec),
        children.config(owner, spec, [f"pi-worker-{index}" for index in range(spec.workers)]),
        children.secret(owner),
        *(children.worker(owner, spec, index) for index in range(spec.workers)),
        children.launcher(owner, spec),
    ]


@pytest.mark.parametrize("name", ["pi", "mpich", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)

    assert_golden(GOLDENS / f"{name}.yaml", documents(job))

    assert msgspec.json.encode(job) == before


def test_open_mpi_reads_host_names_of_any_length() -> None:
    job = example("pi")
    job["metadata"]["name"] = "approximation-of-the-number-pi-by-random-points"
    owner = owner_of(job)

    found = children.variables(owner, api.decode(job["spec"]))

    assert found["OMPI_MCA_regx"] == "naive"
    assert "OMPI_MCA_regx" not in children.variables(
        owner_of(example("pi")), api.decode(job["spec"])
    )
