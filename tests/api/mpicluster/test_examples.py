"""The Open MPI examples are accepted unchanged, and environments stand for their images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from traincrew.api.kinds.mpicluster import types as api
from traincrew.api.kinds.mpicluster.convert import documents
from traincrew.api.kinds.mpicluster.rules import problems
from traincrew.api.kinds.mpicluster.values import merged
from traincrew.api.meta import ObjectMeta
from traincrew.local.images.catalog import load_catalogs
from traincrew.local.images.reference import parse_reference

DIRECTORY = Path(__file__).parents[3] / "examples" / "openmpi"
VALUES = sorted(DIRECTORY.glob("values/*.yaml"))
MANIFESTS = sorted(DIRECTORY.glob("*.yaml"))


def check(cluster: dict[str, Any]) -> None:
    spec = api.decode(cluster["spec"])
    assert problems(msgspec.convert(cluster["metadata"], ObjectMeta), spec) == []
    for template in (spec.master.template, spec.workers.template):
        for container in template["spec"]["containers"]:
            found = load_catalogs([]).find(parse_reference(container["image"]))
            assert found is not None
            if spec.transport == "exec":
                assert found.name == "chainermn"
                continue
            assert found.name == "openmpi"
            # What the pods of an interactive cluster run.
            assert found.command == ("/init.sh",)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests(path: Path) -> None:
    (cluster,) = yaml.safe_load_all(path.read_text())
    assert cluster["kind"] == api.KIND
    check(cluster)


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_values(path: Path) -> None:
    (cluster,) = documents(merged(yaml.safe_load(path.read_text())), "mine")
    check(cluster)


def test_the_reference_has_every_field() -> None:
    """Fields with a default are written out; a comment shows those without."""
    text = (DIRECTORY / "cluster-reference.yaml").read_text()
    for field in msgspec.structs.fields(api.MPIClusterSpec):
        name = field.encode_name
        assert name in api.INSTEAD or f"\n  {name}:" in text or f"\n  # {name}:" in text, name
