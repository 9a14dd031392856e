"""The children of each shape of JobSet, against YAML files.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.jobset.world import example
from traincrew.api.kinds.jobset import types as api
from traincrew.plan.jobset import children

GOLDENS = Path(__file__).parent / "goldens"


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    spec, owner = api.decode(job["spec"]), owner_of(job)
    annotations = job["metadata"].get("annotations", {})
    jobset = children.JobSet(owner=owner, annotations=annotations, spec=spec)
    attempt = children.Attempt(whole=1, single=2 if spec.restarts_single_jobs else None)
    return [
        children.service(owner, spec),
        *(
            children.claim(owner, each, deletes=policy.deletes)
            for policy in spec.volume_claim_policies or ()
            for each in policy.templates or ()
        ),
        *(children.job(jobset, each, each.count - 1, attempt) for each in spec.replicated_jobs),
    ]


@pytest.mark.parametrize("name", ["pair", "everything", "claims"])
def test_children_match_the_golden_files(name: str) -> None:
    job = example(name)
    before = msgspec.json.encode(job)

    assert_golden(GOLDENS / f"{name}.yaml", documents(job))

    assert msgspec.json.encode(job) == before


def test_every_label_is_an_annotation_as_well() -> None:
    _, *jobs = documents(example("everything"))

    for job in jobs:
        for found in (job, job["spec"]["template"]):
            labels, annotations = found["metadata"]["labels"], found["metadata"]["annotations"]
            ours = {key: text for key, text in labels.items() if key.startswith("jobset.")}
            assert len(ours) == 14
            assert ours.items() <= annotations.items()


def test_without_host_names_there_is_no_subdomain() -> None:
    _, driver, _ = documents(example("pair", network={"enableDNSHostnames": False}))

    assert "subdomain" not in driver["spec"]["template"]["spec"]
