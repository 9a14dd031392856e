"""Placeholders of examples that were not replaced are refused, or fail the job, by their field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import interactive
from plan.mxjob.manifests import distributed as mx_job
from traincrew.api.placeholders import problems
from traincrew.engine.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")
IMAGE = "<your_dockerhub_username>/examples:imagenet"
SCRIPT = "s3://<your_script_path>/petctl/<username>/my_job/main.py"
KINDS = ["ChainerJob", "ElasticJob", "MPICluster", "MxJob"]


def manifest(kind: str) -> dict[str, Any]:
    made = {
        "ChainerJob": distributed,
        "ElasticJob": elastic,
        "MPICluster": lambda: interactive("hello"),
        "MxJob": mx_job,
    }
    return made[kind]()


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the specs of pods in a manifest."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from pods(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pods(inner)


async def test_the_endpoint_of_the_samples_is_refused_at_create(served: Cluster) -> None:
    job = elastic(rdzvEndpoint="<your_etcd_endpoint>:<your_etcd_port>")
    with pytest.raises(InvalidError, match=r"spec\.rdzvEndpoint.*placeholder of an example") as no:
        await served.create(job)
    assert "replace it by a value of your own" in str(no.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
async def test_an_image_with_a_placeholder_is_refused_at_create(
    served: Cluster, kind: str, where: str
) -> None:
    job = manifest(kind)
    for pod in pods(job["spec"]):
        pod.setdefault(where, [{"name": "first"}])[0]["image"] = IMAGE
    with pytest.raises(InvalidError, match=rf"{where}\[0\]\.image.*<your_dockerhub_username>"):
        await served.create(job)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_field_with_a_placeholder_fails_the_job(served: Cluster, kind: str) -> None:
    job = manifest(kind)
    job["metadata"]["name"] = f"placeholder-{kind.lower()}"
    for pod in pods(job["spec"]):
        pod["containers"][0]["args"] = ["--epochs", SCRIPT]
    await served.create(job)
    seen = await served.until_phase(job["metadata"]["name"], "Failed")
    assert (
        ".containers[0].args[1]: replace <your_script_path> by a value of your own"
        in (seen["status"]["message"])
    )


@pytest.mark.parametrize(
    "text", ["", "cat < in > out", "<b>yes</b>", "<yourself>", "edit me", "x <your_a b>"]
)
async def test_other_texts_are_no_placeholders(text: str) -> None:
    assert list(problems({"spec": [text]}, "")) == []


async def test_a_placeholder_is_found_at_any_depth() -> None:
    found = problems({"a": [{"b": "x-_EDIT_ME_"}], "c": "<your-key>:1"}, "spec")
    assert [str(each) for each in found] == [
        "spec.a[0].b: replace _EDIT_ME_ by a value of your own",
        "spec.c: replace <your-key> by a value of your own",
    ]
