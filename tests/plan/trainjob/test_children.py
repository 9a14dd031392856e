"""The children of each shape of TrainJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.trainjob.world import TrainJobWorld, example, runtime, trained
from traincrew.api.kinds.jobset import types as jobset_types
from traincrew.api.kinds.jobset.rules import problems
from traincrew.api.kinds.trainjob import torchtune, types
from traincrew.api.kinds.trainjob.runtime import decode_runtime
from traincrew.api.kinds.trainjob.torchtune import Nodes
from traincrew.api.meta import ObjectMeta
from traincrew.plan.trainjob.children import children
from traincrew.plan.trainjob.patches import merged

GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize("name", ["torch", "mpi", "steps", "tune"])
def test_children_match_the_golden_files(name: str) -> None:
    job, *own = example(name)
    (theirs,) = own or [runtime(job["spec"]["runtimeRef"]["name"])]
    before = msgspec.json.encode((job, theirs))
    made = children(owner_of(job), types.decode(job["spec"]), decode_runtime(theirs))
    found: list[dict[str, Any]] = [each for each in made if each is not None]

    assert_golden(GOLDENS / f"{name}.yaml", found)

    assert msgspec.json.encode((job, theirs)) == before


@pytest.mark.parametrize(
    ("resources", "processes"),
    [
        ({}, "1"),
        ({"requests": {"cpu": "2500m"}}, "3"),
        ({"limits": {"cpu": 4}}, "4"),
        ({"limits": {"cpu": 4, "nvidia.com/gpu": 2}}, "auto"),
    ],
)
def test_processes_by_the_resources_of_a_node(resources: dict[str, Any], processes: str) -> None:
    world = TrainJobWorld(trained(trainer={"resourcesPerNode": resources}))
    world.settle()

    assert world.env()["PET_NPROC_PER_NODE"] == processes


def test_without_a_trainer_there_are_no_variables() -> None:
    world = TrainJobWorld(trained())
    world.settle()

    assert world.env() == {}


@pytest.mark.parametrize(
    ("framework", "variables"),
    [
        ("jax", {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": None,
                 "JAX_COORDINATOR_ADDRESS": "digits-node-0-0.digits:29500", "LEVEL": "debug"}),
        ("xgboost", {"LEVEL": "debug", "DMLC_TRACKER_URI": "digits-node-0-0.digits",
                     "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": None, "DMLC_NUM_WORKER": "2"}),
    ],
)  # fmt: skip
def test_variables_of_a_framework(framework: str, variables: dict[str, Any]) -> None:
    trainer = {"numNodes": 2, "env": [{"name": "LEVEL", "value": "debug"}]}
    world = TrainJobWorld(trained(f"{framework}-distributed", trainer=trainer))
    world.settle()

    assert list(world.env().items()) == list(variables.items())


def test_the_steps_of_a_runtime_of_torchtune_share_a_claim() -> None:
    world = TrainJobWorld(trained("torchtune-qwen2.5-1.5b", trainer={"command": torchtune.COMMAND}))
    world.settle()

    spec = jobset_types.decode(world.jobset["spec"])
    (claim,) = spec.claims
    assert claim.spec["resources"] == {"requests": {"storage": "20Gi"}}
    assert all(each.mounts(claim.metadata.name) for each in spec.replicated_jobs)
    assert problems(ObjectMeta(name="digits"), spec) == []


@pytest.mark.parametrize(
    ("size", "args", "found"),
    [
        (Nodes(1, 1, 0), [], ("full_finetune_single_device", "_full_single_device")),
        (Nodes(1, "auto", 1), ["model.lora_attn_modules=[]"],
         ("lora_finetune_single_device", "_lora_single_device")),
        (Nodes(1, 1, 0), ["model.quantize_base=True"],
         ("lora_finetune_single_device", "_qlora_single_device")),
        (Nodes(1, 2, 0), ["model.quantize_base=True"], ("lora_finetune_distributed", "_qlora")),
        (Nodes(1, 2, 0), ["model.quantize_base=True", "model.use_dora=True"],
         ("full_finetune_distributed", "_full")),
        (Nodes(2, 2, 0), ["model.lora_attn_modules=[]"],
         ("full_finetune_distributed", "_full_multinode")),
    ],
)  # fmt: skip
def test_recipes_of_torchtune(size: Nodes, args: list[str], found: tuple[str, str]) -> None:
    recipe, config = torchtune.recipe(size, "torchtune-llama3.2-1b", args)

    assert (recipe, config) == (found[0], f"llama3_2/1B{found[1]}")


def _names(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ("ab", "c", "cab"),
        ("ab", "bc", "abc"),
        ("abc", "ca", "bca"),
        ("", "a", "a"),
        ("ab", "", "ab"),
    ],
)
def test_lists_are_merged_by_name(before: str, patch: str, after: str) -> None:
    assert merged(_names(*before), _names(*patch), "volumes") == _names(*after)


def test_fields_are_merged_and_other_lists_replaced() -> None:
    before = {"a": {"b": 1, "c": 2}, "tolerations": [{"key": "x"}]}
    patch = {"a": {"c": None, "d": 3}, "tolerations": [{"key": "y"}]}

    assert merged(before, patch) == {"a": {"b": 1, "d": 3}, "tolerations": [{"key": "y"}]}
