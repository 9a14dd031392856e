"""A manifest of a kind that is not served: its line, what was meant, and what is served."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from traincrew.cli.errors import BadInput
from traincrew.cli.main import cli
from traincrew.cli.manifest.documents import load
from traincrew.cli.manifest.served import require_served

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tfjobs.kubeflow.org}
spec:
  group: kubeflow.org
  names: {plural: tfjobs, kind: TFJob}
  scope: Namespaced
  versions: [{name: v1, served: true}, {name: v1beta1, served: false}]
---
"""


def manifest(directory: Path, api_version: str, kind: str, before: str = "") -> str:
    path = directory / "job.yaml"
    text = f"# a comment\nmetadata:\n  name: x\napiVersion: {api_version}\nkind: {kind}\n"
    path.write_text(before + text)
    return str(path)


@pytest.mark.parametrize(
    ("api_version", "kind", "said"),
    [
        (
            "kubeflow.org/v1",
            "TFJob",
            "; kubeflow.org has ChainerJob, MPIJob, MXJob, PyTorchJob here",
        ),
        ("foo.example/v1", "TFJob", ""),
        ("kubeflow.org/v1", "ChainerJob", "; did you mean apiVersion: kubeflow.org/v1alpha1?"),
        ("kubeflow.org/v1alpha1", "ChainrJob", "; did you mean kind: ChainerJob?"),
        ("kubflow.org/v1alpha1", "ChainerJob", "; did you mean apiVersion: kubeflow.org/v1alpha1?"),
        ("elastic.pytorch.org/v1alpha1", "elasticjob", "; did you mean kind: ElasticJob?"),
        ("extensions/v1beta1", "Deployment", "; did you mean apiVersion: apps/v1?"),
        ("v1", "ConfigMop", "; did you mean kind: ConfigMap?"),
        ("v1", "Deploiment", "; did you mean kind: Deployment of apiVersion: apps/v1?"),
    ],
)
def test_an_unknown_kind(tmp_path: Path, api_version: str, kind: str, said: str) -> None:
    path = manifest(tmp_path, api_version, kind)
    result = CliRunner().invoke(cli, ["run", path])
    assert result.exit_code == 2
    first, what_runs = result.output.splitlines()
    assert first == f'traincrew: {path}:5: there is no kind "{kind}" in "{api_version}"{said}'
    assert "ChainerJob (kubeflow.org/v1alpha1), ElasticJob (elastic.pytorch.org/v1" in what_runs
    assert "Job (batch/v1) and Pod (v1)" in what_runs


def test_definitions_in_the_manifests_count(tmp_path: Path) -> None:
    require_served(load([manifest(tmp_path, "kubeflow.org/v1", "TFJob", DEFINITION)]))
    with pytest.raises(BadInput, match=r"mean apiVersion: kubeflow\.org/v1"):
        require_served(load([manifest(tmp_path, "kubeflow.org/v1beta1", "TFJob", DEFINITION)]))


def test_what_our_jobs_refer_to_is_served(tmp_path: Path) -> None:
    for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
        require_served(load([manifest(tmp_path, "trainer.kubeflow.org/v1alpha1", kind)]))


def test_each_unknown_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: Pod\n  metadata: {name: x}\n"
        "- apiVersion: a/v1\n  kind: A\n  metadata: {name: x}\n"
        "- {apiVersion: b/v1, kind: B, metadata: {name: x}}\n"
    )
    with pytest.raises(BadInput) as caught:
        require_served(load([str(path)]))
    lines = caught.value.message.splitlines()
    assert lines[0] == f'{path}:8: there is no kind "A" in "a/v1"'
    assert lines[1] == f'{path}:10: there is no kind "B" in "b/v1"'


def test_our_examples_are_served() -> None:
    examples = Path(__file__).parents[3] / "examples"
    for path in sorted(examples.glob("*/*.yaml")):
        if path.name.startswith("values"):  # of a Helm chart
            with pytest.raises(BadInput, match="convert them: traincrew mpi"):
                load([str(path)])
        else:
            require_served(load([str(path)]))
