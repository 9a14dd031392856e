"""Children of an MXJob of training-operator, as documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.mxjobv1.world import example
from traincrew.api.kinds.mxjobv1 import types as api
from traincrew.plan.mxjobv1 import KIND, children
from traincrew.plan.shared.kind import PodPlace
from traincrew.plan.shared.replicas.places import Place
from traincrew.plan.shared.replicas.places import places as places_of

if TYPE_CHECKING:
    from traincrew.api.kinds.mxjobv1.types import MXJobSpec

GOLDENS = Path(__file__).parent / "goldens"


def decoded(name: str) -> MXJobSpec:
    return api.decode(example(name)["spec"])


@pytest.mark.parametrize("name", ["train", "tune"])
def test_children_match_the_golden_files(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)
    spec, owner = decoded(name), owner_of(job)
    places = list(places_of(children.replicas(spec)))
    made: list[dict[str, Any]] = [children.service(owner, spec, place) for place in places]
    made += [children.pod(owner, spec, place) for place in places]

    assert_golden(GOLDENS / f"{name}.yaml", made)

    assert msgspec.json.encode(job) == before


def test_every_pod_knows_the_scheduler_and_its_own_role() -> None:
    found = children.variables("digits", decoded("train"), Place("Worker", 1))

    assert found["DMLC_PS_ROOT_URI"] == "digits-scheduler-0"
    assert found["DMLC_PS_ROOT_PORT"] == "9991"
    assert (found["DMLC_NUM_SERVER"], found["DMLC_NUM_WORKER"]) == ("1", "2")
    assert (found["DMLC_ROLE"], found["DMLC_WORKER_ID"]) == ("worker", "1")


def test_without_a_scheduler_there_is_no_address() -> None:
    found = children.variables("tuning", decoded("tune"), Place("Tuner", 0))

    assert (found["DMLC_PS_ROOT_URI"], found["DMLC_PS_ROOT_PORT"]) == ("", "0")
    config = json.loads(found["MX_CONFIG"])
    assert config["labels"] == {"tuner": "", "tunerserver": "2080ti", "tunertracker": ""}
    assert config["cluster"]["tunertracker"] == [{"url": "tuning-tunertracker-0", "port": 9091}]
    assert config["task"] == {"type": "tuner", "index": 0}


def test_roles_have_the_names_that_the_user_has_written() -> None:
    job = example("tune")
    spec = decoded("tune")
    pod = children.pod(owner_of(job), spec, Place("TunerTracker", 0))

    assert KIND.place(pod["metadata"]["labels"]) == PodPlace("TunerTracker", 0)
    assert KIND.roles(job["spec"]) == {"Tuner": 1, "TunerServer": 1, "TunerTracker": 1}
