"""The children of each shape of ChainerJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plan.chainerjob.world import HELPER_IMAGE, example
from plan.goldens import assert_golden, owner_of
from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.meta import Owner
from traincrew.plan.chainerjob import children

GOLDENS = Path(__file__).parent / "goldens"


def documents(name: str) -> Any:
    job = example(name)
    spec = api.decode(job["spec"])
    owner = owner_of(job)
    names = children.Names(owner.name)
    sets = [names.workers(each) for each in sorted(spec.worker_sets)]
    pods = [
        names.worker(each, index)
        for each, workers in sorted(spec.worker_sets.items())
        for index in range(workers.replicas)
    ]
    made = [
        children.service_account(owner),
        children.role(owner, sets, pods),
        children.role_binding(owner),
    ]
    if spec.distributed:
        made.append(children.assets(owner, spec))
    made += [children.workers(owner, spec, name, HELPER_IMAGE) for name in sorted(spec.worker_sets)]
    made.append(children.master(owner, spec, HELPER_IMAGE))
    return made


@pytest.mark.parametrize("name", ["plain", "distributed", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    assert_golden(GOLDENS / f"{name}.yaml", documents(name))


@pytest.mark.parametrize("name", ["plain", "distributed", "everything"])
def test_the_manifest_is_not_modified(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)
    spec = api.decode(job["spec"])
    owner = Owner(api_version="a", kind="k", name="j", namespace="n", uid="u")

    children.master(owner, spec, HELPER_IMAGE)
    for set_name in spec.worker_sets:
        children.workers(owner, spec, set_name, HELPER_IMAGE)

    assert msgspec.json.encode(job) == before
