"""The examples of MxJobs are accepted unchanged, and the environment has what they run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from traincrew.api.kinds.mxjob import types as api
from traincrew.api.kinds.mxjob.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.local.images.catalog import Definition, load_catalogs
from traincrew.local.images.reference import parse_reference

ROOT = Path(__file__).parents[3]
DIRECTORY = ROOT / "examples" / "mxnet"
EXAMPLES = [
    path for path in sorted(DIRECTORY.glob("*.yaml")) if f"kind: {api.KIND}\n" in path.read_text()
]
GUIDE = ROOT / "docs" / "guides" / "mxjob.md"
SCRIPT = "/examples/train_digits.py"


def job_in(text: str) -> dict[str, Any]:
    """The MxJob of a file."""
    (job,) = [each for each in yaml.safe_load_all(text) if each["kind"] == api.KIND]
    found: dict[str, Any] = job
    return found


def environment_of(image: str) -> Definition:
    """The environment that stands for an image."""
    found = load_catalogs([]).find(parse_reference(image))
    assert found is not None
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_valid(path: Path) -> None:
    job = job_in(path.read_text())

    assert problems(msgspec.convert(job["metadata"], ObjectMeta), api.decode(job["spec"])) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_environment_has_what_the_examples_run(path: Path) -> None:
    for replica in job_in(path.read_text())["spec"]["replicaSpecs"]:
        (container,) = replica["template"]["spec"]["containers"]
        assert SCRIPT in " ".join(container["command"])
        assert SCRIPT in environment_of(container["image"]).files


def test_the_reference_has_every_field() -> None:
    def names(kind: type[msgspec.Struct]) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(kind)}

    spec = job_in((DIRECTORY / "mxjob-reference.yaml").read_text())["spec"]

    # Besides the aliases, and a name that is refused.
    assert set(spec) == names(api.MxJobSpec) - {"runtimeId", "replica_specs"}
    assert set(spec["replicaSpecs"][0]) | {"psRootPort"} == names(api.ReplicaSpec)
    assert set(spec["runPolicy"]) == names(api.MxRunPolicy)


def test_the_job_of_the_guide_is_the_example() -> None:
    shown = job_in(re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0])
    example = job_in((DIRECTORY / "mxjob-local.yaml").read_text())

    (container,) = example["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    container["command"].remove("--require-accuracy=0.95")
    assert shown == example


def test_the_script_is_the_one_of_the_environment() -> None:
    shipped = environment_of("traincrew/mxnet").files[SCRIPT]

    assert shipped.read_text() == (DIRECTORY / "train_digits.py").read_text()
