"""The children of each shape of PyTorchJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.pytorchjob.world import example
from traincrew.api.kinds.pytorchjob import types as api
from traincrew.plan.pytorchjob import children
from traincrew.plan.shared.replicas.places import places as places_of

if TYPE_CHECKING:
    from traincrew.plan.shared.replicas.places import Place

GOLDENS = Path(__file__).parent / "goldens"


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    spec, owner = api.decode(job["spec"]), owner_of(job)
    places = list(places_of(children.replicas(spec)))
    made = [children.service(owner, spec, place) for place in places]
    made += [children.pod(owner, spec, place) for place in places]
    autoscaler = children.autoscaler(owner, spec)
    return made if autoscaler is None else [*made, autoscaler]


def variables(place: Place, job: dict[str, Any]) -> dict[str, str]:
    return children.variables("digits", api.decode(job["spec"]), place)


@pytest.mark.parametrize("name", ["master", "elastic", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)

    assert_golden(GOLDENS / f"{name}.yaml", documents(job))

    assert msgspec.json.encode(job) == before


def test_processes_of_the_elastic_policy_replace_those_of_the_spec() -> None:
    policy = {"nProcPerNode": 4}
    found = variables(children.FIRST_WORKER, example("elastic", elasticPolicy=policy))

    assert found["PET_NPROC_PER_NODE"] == "4"
    assert found["PET_NNODES"] == "2:2"  # as many as there are workers


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [({"minReplicas": 1}, "1:1"), ({"maxReplicas": 3}, "3:3"), ({}, "2:2")],
)
def test_a_limit_that_is_missing_is_the_other_one(policy: dict[str, int], nodes: str) -> None:
    found = variables(children.FIRST_WORKER, example("elastic", elasticPolicy=policy))

    assert found["PET_NNODES"] == nodes


def test_the_world_counts_processes_only_if_their_number_is_known() -> None:
    automatic = variables(children.MASTER_PLACE, example("master"))
    two = variables(children.MASTER_PLACE, example("master", nprocPerNode="2"))

    assert (automatic["WORLD_SIZE"], automatic["PET_NPROC_PER_NODE"]) == ("3", "auto")
    assert (two["WORLD_SIZE"], two["PET_NPROC_PER_NODE"]) == ("6", "2")


def test_another_rendezvous_is_named_as_written() -> None:
    policy = {"rdzvBackend": "etcd", "rdzvHost": "etcd-service", "rdzvPort": 2379}
    found = variables(children.FIRST_WORKER, example("elastic", elasticPolicy=policy))

    assert found["PET_RDZV_ENDPOINT"] == "etcd-service:2379"
    assert found["PET_RDZV_BACKEND"] == "etcd"
