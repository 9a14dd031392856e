"""Manifests are read as kubectl reads them; errors have a position."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from traincrew.api.kind import Kind
from traincrew.api.kinds import KINDS
from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import Document, load, refusal, training_resources
from traincrew.engine.errors import ApiError

JOB = """apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata:
  name: digits
"""
INLINE = "{apiVersion: kubeflow.org/v1alpha1, kind: ChainerJob, metadata: {name: x}}"


def written(directory: Path, text: str, name: str = "job.yaml") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def test_several_documents_have_their_positions(tmp_path: Path) -> None:
    path = written(tmp_path, f"---\n# nothing\n---\n{JOB}---\n{JOB}")
    documents = load([path])
    assert [document.where for document in documents] == [f"{path}:4", f"{path}:9"]
    assert documents[0].kind == "ChainerJob"


def test_a_list_is_split_into_its_items(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in JOB.splitlines())
    path = written(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n  -\n{indented}")
    assert [document.name for document in load([path])] == ["digits"]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_a_list_of_one_kind_is_split_as_well(tmp_path: Path, kind: Kind, named: bool) -> None:
    head = f"apiVersion: {kind.group}/{kind.version}"
    of_item = f"{head}\n  kind: {kind.kind}\n  " if named else ""
    path = written(
        tmp_path, f"{head}\nkind: {kind.kind}List\nitems:\n- {of_item}metadata: {{name: digits}}\n"
    )
    (document,) = load([path])
    assert (document.name, document.kind) == ("digits", kind.kind)
    assert document.api_version == f"{kind.group}/{kind.version}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"apiVersion: kubeflow.org/v1alpha1\nkind: JobbList\nitems: [{INLINE}]\n",
            r"items\[0\]: ChainerJob \(kubeflow.org/v1alpha1\) in a JobbList \(kubeflow.org/v1",
        ),
        (
            "apiVersion: kubeflow.org/v1alpha1\nkind: ChainerJobList\n",
            "items is missing: it has the objects of a ChainerJobList",
        ),
        (
            "apiVersion: kubeflow.org/v1alpha1\nkind: ChainerJobList\nitems: [1]\n",
            r"items\[0\]: a manifest is a mapping",
        ),
    ],
)
def test_a_list_that_is_none(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        load([written(tmp_path, text)])


def test_a_kind_whose_name_ends_like_that_of_a_list_is_none(tmp_path: Path) -> None:
    text = "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: x}\n"
    assert load([written(tmp_path, text)])[0].kind == "AllowList"


def test_directories_are_read_in_order(tmp_path: Path) -> None:
    written(tmp_path, JOB.replace("digits", "second"), "b.yml")
    written(tmp_path, JOB.replace("digits", "first"), "a.yaml")
    written(tmp_path, "no manifest", "notes.txt")
    assert [document.name for document in load([str(tmp_path)])] == ["first", "second"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(JOB.encode())))
    assert load(["-"])[0].where == "standard input:1"


def test_scalars_are_those_of_kubectl(tmp_path: Path) -> None:
    path = written(
        tmp_path, JOB + "  labels: {day: 2020-01-01, time: 1:30, on: yes, 1: x, mode: 0755}\n"
    )
    labels = load([path])[0].content["metadata"]["labels"]
    assert labels == {"day": "2020-01-01", "time": "1:30", "true": True, "1": "x", "mode": 493}


def test_anchors_and_merges_work(tmp_path: Path) -> None:
    path = written(tmp_path, JOB + "base: &b {x: 1, y: 2}\nspec:\n  <<: *b\n  y: 3\n")
    assert load([path])[0].content["spec"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no Kubernetes objects"),
        ("just text", ":1: a manifest is a mapping with apiVersion, kind and metadata"),
        ("- a\n- b", ":1: a manifest is a mapping"),
        ("kind: ChainerJob\nmetadata: {name: x}", ":1: apiVersion is missing or not a string"),
        ("mpiWorkers: {num: 3}", ":1: values of kube-openmpi, not a manifest; convert them: "),
        ("apiVersion: v1\nkind: 3\nmetadata: {name: x}", ":1: kind is missing or not a string"),
        ("apiVersion: v1\nkind: Pod", ":1: metadata is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", ":1: metadata.name is missing"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 12}",
            ':1: metadata.name must be a text, not 12: write "12"',
        ),
        (JOB + "kind: Pod\n", ":5:1: not valid YAML: the key 'kind' is there twice"),
        (JOB + "spec: {a: [1, 2\n", "not valid YAML: expected ',' or ']'"),
        ("a:\n\t- tab", ":2:1: not valid YAML: found character '\\t'"),
        ("a: *unknown", ":1:4: not valid YAML: unknown anchor 'unknown'"),
        ("? {a: b}\n: c", ":1:3: not valid YAML: a key must be plain text"),
        ("a: !!python/object:os.system {}", ":1:4: not valid YAML: unsupported tag "),
        ("[" * 1200, ":1:252: not valid YAML: nested more than 250 levels deep"),
        ("a: \x04", "not valid YAML: unacceptable character"),
        ("a: !!int ''", ":1:4: not valid YAML: '' is no int"),
        ("a: !!bool x", ":1:4: not valid YAML: 'x' is no bool"),
        ("a: !!binary '#'", ":1:4: not valid YAML: unsupported tag "),
        ("a: 1\nb: &m [*m]", ":2:8: not valid YAML: an anchor's value contains itself"),
        ("a: 1\n~: b", ":2:4: not valid YAML: a key is empty or null"),
        ("a: .inf", ":1:4: not valid YAML: JSON has no such number: .inf"),
    ],
)
def test_errors_have_a_position(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        load([path])
    assert path in caught.value.message
    assert said in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read .*absent\.yaml: no such file or directory"):
        load([str(tmp_path / "absent.yaml")])
    with pytest.raises(BadInput, match=r"no .yaml, .yml or .json file in this directory"):
        load([str(tmp_path)])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not UTF-8 text"):
        load([str(tmp_path)])


def test_a_refusal_names_the_fields() -> None:
    document = Document("job.yaml:1", {"kind": "ChainerJob", "metadata": {"name": "digits"}})
    error = ApiError(
        "long text",
        code=422,
        details={
            "causes": [
                {"field": "spec.backend", "message": 'Unsupported value: "gloo"'},
                {"field": "spec.master", "message": "spec.master: Required value"},
            ]
        },
    )
    assert refusal(document, error) == (
        "job.yaml:1: ChainerJob 'digits' is refused:\n"
        '  spec.backend: Unsupported value: "gloo"\n'
        "  spec.master: Required value"
    )
    assert refusal(document, ApiError("plain")).endswith("is refused: plain")


PLACES = """apiVersion: v1
kind: Pod
metadata:
  name: x
  labels:
    a.b/c: "1"
    a: "2"
spec:
  containers:
  - &main {name: main}
  -
    name: other
    image: x
    env:
    - name: A
  - *main
  x: {<<: *main}
data:
  "train.py": text
  "": empty
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("kind", 2),
        ("metadata.name", 4),
        ("metadata.labels.a.b/c", 6),
        ("metadata.labels[a.b/c]", 6),
        ("metadata.labels.a", 7),
        ("spec.containers[0].image", 10),
        ("spec.containers[1].image", 13),
        ("spec.containers[1].env[0].value", 15),
        (".spec.containers[1].env", 14),
        ("spec.containers[9].image", 9),
        ("spec.containers[99999999999999999999].image", 9),
        ("spec.missing.deeper", 8),
        ("data.train.py", 19),
        ("data[train.py]", 19),
        ("nowhere", 1),
        ("", 1),
        ("[[[", 1),
        ("data[]", 18),
    ],
)
def test_the_line_of_a_field(tmp_path: Path, field: str, line: int) -> None:
    path = written(tmp_path, PLACES)
    assert load([path])[0].at(field) == f"{path}:{line}"


def test_a_refusal_names_the_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "---\n" + PLACES)
    (document,) = load([path])
    strict = 'strict decoding error: unknown field "spec.x.y", duplicate field "kind"'
    assert refusal(document, ApiError(strict)).splitlines()[1:] == [
        f'  {path}:18: unknown field "spec.x.y"',
        f'  {path}:3: duplicate field "kind"',
    ]
    causes = [{"field": "spec.containers[1].image", "message": "Required value"}]
    error = ApiError("long text", code=422, details={"causes": causes})
    expected = f"  {path}:14: spec.containers[1].image: Required value"
    assert refusal(document, error).splitlines()[1:] == [expected]


def test_our_kinds_are_known() -> None:
    assert ("kubeflow.org/v1alpha1", "ChainerJob", "chainerjobs") in [
        (resource.api_version, resource.kind, resource.plural) for resource in training_resources()
    ]
