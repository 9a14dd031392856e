"""The children of each shape of ElasticJob, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from plan.elasticjob.world import elastic, example
from plan.goldens import assert_golden, owner_of
from traincrew.api.kinds.elasticjob import types as api
from traincrew.plan.elasticjob import children
from traincrew.plan.shared.replicas.places import Place
from traincrew.plan.shared.replicas.places import places as places_of

if TYPE_CHECKING:
    from traincrew.api.meta import Owner

GOLDENS = Path(__file__).parent / "goldens"


def owner(job: dict[str, Any]) -> Owner:
    return owner_of(job, "8c2f4f1e-93a2-4d1f-8a86-4d2f1f1d4b10")


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    spec = api.decode(job["spec"])
    places = list(places_of(children.replicas(spec)))
    made = [children.service(owner(job), place) for place in places]
    return [*made, *(children.pod(owner(job), spec, place) for place in places)]


@pytest.mark.parametrize("name", ["etcd", "hosted", "everything"])
def test_children_match_the_golden_files(name: str) -> None:
    assert_golden(GOLDENS / f"{name}.yaml", documents(example(name)))


@pytest.mark.parametrize("name", ["etcd", "hosted", "everything"])
def test_the_manifest_is_not_modified(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)

    documents(job)

    assert msgspec.json.encode(job) == before


@pytest.mark.parametrize(
    ("replicas", "template", "made"),
    [
        ("ExitCode", None, "Never"),
        ("ExitCode", "Always", "Never"),
        ("OnFailure", "Never", "OnFailure"),
        ("Always", None, "Always"),
        ("Never", None, "Never"),
        (None, "OnFailure", "OnFailure"),
        (None, None, "Never"),
    ],
)
def test_the_restart_policy_of_pods(replicas: str | None, template: str | None, made: str) -> None:
    job = elastic(policy=replicas)
    if template is not None:
        job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["restartPolicy"] = template

    assert documents(job)[-1]["spec"]["restartPolicy"] == made


@pytest.mark.parametrize(
    ("names", "launched"),
    [
        (["elasticjob-worker"], 0),
        (["anything"], 0),
        (["side", "elasticjob-worker"], 1),
        (["first", "second"], 0),
    ],
)
def test_arguments_go_to_the_launcher_only(names: list[str], launched: int) -> None:
    job = elastic()
    containers = [{"name": name, "image": "x", "args": [name]} for name in names]
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"] = {
        "containers": containers,
        "initContainers": [{"name": "before", "image": "x", "args": ["before"]}],
    }
    pod = documents(job)[-1]["spec"]

    assert pod["initContainers"][0]["args"] == ["before"]
    for place, container in enumerate(pod["containers"]):
        given = container["args"][:-1]
        assert container["args"][-1] == container["name"]
        assert bool(given) == (place == launched)


def test_a_second_job_of_the_same_name_has_another_rendezvous_run() -> None:
    job = example("hosted")
    spec = api.decode(job["spec"])
    first = owner(job)
    second = msgspec.structs.replace(first, uid="5a0e3c77-0000-4d1f-8a86-4d2f1f1d4b10")

    assert "--rdzv_id=digits-8c2f4f1e" in children.launcher_arguments(first, spec)
    assert "--rdzv_id=digits-5a0e3c77" in children.launcher_arguments(second, spec)
    named = msgspec.structs.replace(spec, rdzv_id="mine")
    assert "--rdzv_id=mine" in children.launcher_arguments(second, named)


def test_names_and_labels_fit_the_longest_job() -> None:
    job = elastic()
    job["metadata"]["name"] = "j" * (api.MAX_NAME_AND_TYPE - len("Worker"))
    spec = api.decode(job["spec"])
    made = children.pod(owner(job), spec, Place("Worker", api.MAX_REPLICAS - 1))

    assert len(made["metadata"]["name"]) == 63
