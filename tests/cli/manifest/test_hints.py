"""A refused manifest says what was probably meant."""

from pathlib import Path

import pytest

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import Document, load, refusal
from traincrew.cli.manifest.hints import about_value
from traincrew.engine.errors import ApiError

JOBS = {
    "ChainerJob": "kubeflow.org/v1alpha1",
    "ElasticJob": "elastic.pytorch.org/v1alpha1",
    "MPICluster": "traincrew.dev/v1alpha1",
    "MxJob": "mxnet.mlkube.io/v1beta1",
}


def job(kind: str) -> Document:
    content = {"apiVersion": JOBS[kind], "kind": kind, "metadata": {"name": "digits"}}
    return Document("job.yaml:1", content)


def hint(kind: str, field: str) -> str:
    said = f'unknown field "{field}"'
    error = ApiError(f"strict decoding error: {said}", code=400)
    return refusal(job(kind), error).partition(said)[2].removeprefix("; ")


@pytest.mark.parametrize(
    ("kind", "field", "meant"),
    [
        ("ChainerJob", "specs", "did you mean spec?"),
        ("ChainerJob", "spec.master.backofLimit", "did you mean backoffLimit?"),
        ("ChainerJob", "spec.workerSets.ws0.replica", "did you mean replicas?"),
        ("ElasticJob", "spec.MinReplicas", "did you mean minReplicas?"),
        ("MPICluster", "spec.worker", "did you mean workers?"),
        ("MxJob", "spec.replicaSpecs[1].replica", "did you mean replicas?"),
        (
            "MxJob",
            "spec.replicaSpecs[0].template.spec.containers[0].imagee",
            "did you mean image?",
        ),
        (
            "ChainerJob",
            "spec.master.template.spec.containers.image",
            'containers is a list: write "- " before the first field of each entry',
        ),
        (
            "ElasticJob",
            "spec.replicaSpecs.Worker.maxReplicas",
            "it belongs to spec.maxReplicas: is it indented as the fields there?",
        ),
        (
            "ChainerJob",
            "spec.cleanPodPolicy",
            "it belongs to spec.runPolicy.cleanPodPolicy: is it indented as the fields there?",
        ),
        ("ChainerJob", "spec.gpus", "spec has master, workerSets, backend, runPolicy, managedBy"),
        ("ChainerJob", "spec.master.template.spec.zzz", ""),
        ("ChainerJob", "nowhere.to.be.found", ""),
        ("ChainerJob", "spec.master[0]", ""),
        ("ChainerJob", "", ""),
    ],
)
def test_an_unknown_field(kind: str, field: str, meant: str) -> None:
    assert hint(kind, field) == meant


def test_an_unknown_field_of_another_kind_has_no_hint() -> None:
    document = Document("x:1", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})
    error = ApiError('strict decoding error: unknown field "spec.imagee"', code=400)
    assert refusal(document, error).endswith('unknown field "spec.imagee"')


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        (
            "Invalid value: \"2gb\": cpu in body should match '^([0-9]+)([KMGTPE]i|[numk])?$'",
            "a quantity is a number with a unit",
        ),
        (
            'Invalid value: "integer": spec.env[0].value in body must be of type string: "integer"',
            "write it in quotes",
        ),
        (
            'Invalid value: "string": spec.replicas in body must be of type integer: "string"',
            "write a whole number, without quotes",
        ),
        (
            'Invalid value: "string": spec.suspend in body must be of type boolean: "string"',
            "write true or false, without quotes",
        ),
        ('Invalid value: "${USER}-job": a lowercase RFC 1123 subdomain', "envsubst < FILE"),
        ('Invalid value: "{{ .Values.name }}": a lowercase RFC 1123 subdomain', "helm template"),
        ("spec.master: Required value", ""),
        ('Invalid value: "array": spec.image in body must be of type object: "array"', ""),
    ],
)
def test_a_refused_value(message: str, meant: str) -> None:
    found = about_value(message)
    assert meant in found
    assert bool(found) == bool(meant)


def test_a_rule_about_the_whole_object_is_shown_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: kubeflow.org/v1alpha1\nkind: ChainerJob\nmetadata:\n  name: long\n"
    )
    (document,) = load([str(path)])
    causes = [
        {
            "field": "<nil>",
            "message": "Invalid value: metadata.name must have at most 56 characters",
        },
        {
            "field": "<nil>",
            "message": "Invalid value: null: some validation rules were not checked because the"
            " object was invalid; correct the existing errors to complete validation",
        },
    ]
    error = ApiError("long text", code=422, details={"causes": causes})
    expected = [f"  {path}:4: metadata.name must have at most 56 characters"]
    assert refusal(document, error).splitlines()[1:] == expected


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a:\n\tb: 1\n", "by spaces, not by tabs"),
        ("a:\n   b: 1\n  c: 2\n", "is this line indented as the ones that it belongs to?"),
        ("a: b: c\n", "is this line indented as the ones that it belongs to?"),
        ("name: {{ .Release.Name }}\n", "`helm template`"),
        ("a: 1\n{{- if .Values.x }}\nb: 2\n", "`helm template`"),
    ],
)
def test_text_that_is_not_yaml(tmp_path: Path, text: str, meant: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        load([str(path)])
    assert meant in caught.value.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfea\x00", "job.yaml: not UTF-8 text (at byte 0): save the file as UTF-8"),
        ("a: 1\nb: é\n".encode("latin-1"), "job.yaml:2: not UTF-8 text (at byte 8)"),
        (b"a: 1\nb: \x00\n", "job.yaml:2: not valid YAML: unacceptable character #x0000"),
        (
            b"kind: ChainerJob\n",
            "apiVersion is missing or not a string: write apiVersion: kubeflow",
        ),
        (
            b"kind: MxJob\n",
            "write apiVersion: mxnet.mlkube.io/v1beta1 or mlkube.io/v1beta1",
        ),
        (
            b"apiVersion: elastic.pytorch.org/v1alpha1\n",
            "kind is missing or not a string: write kind: ElasticJob",
        ),
    ],
)
def test_text_that_is_not_a_manifest(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        load([str(path)])
    assert said in caught.value.message
