"""The examples are accepted unchanged, and the environment has what they run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from traincrew.api.kinds.elasticjob import types as api
from traincrew.api.kinds.elasticjob.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.local.images.catalog import load_catalogs

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "elastic").glob("*.yaml"))
GUIDE = ROOT / "docs" / "guides" / "elasticjob.md"


def jobs_in(text: str) -> list[dict[str, Any]]:
    """The ElasticJobs of a file."""
    return [job for job in yaml.safe_load_all(text) if job["kind"] == api.KIND]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_environment_has_what_the_examples_run(path: Path) -> None:
    (job,) = jobs_in(path.read_text())

    assert problems(msgspec.convert(job["metadata"], ObjectMeta), api.decode(job["spec"])) == []


def test_the_job_of_the_guide_is_the_example() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (shown,) = jobs_in(text)
    (example,) = jobs_in((ROOT / "examples" / "elastic" / "elasticjob.yaml").read_text())

    example["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"].remove(
        "--require-accuracy=0.95"
    )
    assert shown == example


def test_the_script_is_the_one_of_the_environment() -> None:
    (torch,) = [one for one in load_catalogs([]).definitions if one.name == "torch"]
    shipped = torch.files["/examples/train_digits.py"]

    assert shipped.read_text() == (ROOT / "examples" / "elastic" / "train_digits.py").read_text()
