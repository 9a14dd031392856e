"""Catalogs: the shipped one, inheritance, precedence, and error messages."""

from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from traincrew.local.images import CatalogError
from traincrew.local.images.catalog import (
    SHIPPED_CATALOG,
    Catalog,
    Definition,
    Python,
    load_catalogs,
)
from traincrew.local.images.documents import read_entries
from traincrew.local.images.environment import ImageUser
from traincrew.local.images.reference import parse_reference


def write(path: Path, text: str) -> Path:
    path.write_text(dedent(text), encoding="utf-8")
    return path


def find(catalog: Catalog, image: str) -> Definition:
    found = catalog.find(parse_reference(image))
    assert found is not None
    return found


def name_of(catalog: Catalog, image: str) -> str:
    return find(catalog, image).name


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("everpeace/chainermn:1.3.0", "chainermn"),
        ("everpeace/chainer:4.1.0", "chainer"),
        ("traincrew/chainermn:latest", "chainermn"),
        ("traincrew/chainer", "chainer"),
        ("traincrew/mxnet:0.1.0", "mxnet"),
        ("10.199.192.16/library/mxnet-gpu-dist:0.12.0", "mxnet"),
        ("10.199.192.16/library/mxnet-gpu-local:0.12.0", "mxnet"),
        ("10.199.192.16/tensorflow/wd-mxnet-cpu-dist", "mxnet"),
        ("10.199.192.16/tensorflow/wd-mxnet-cpu-local", "mxnet"),
        ("registry.example.com:5000/me/mxnet-gpu-dist@sha256:" + "0" * 64, "mxnet"),
        ("mxnet-gpu-local", "mxnet"),
        ("traincrew/helper:0.1.0", "helper"),
        ("traincrew/git:0.1.0", "git"),
        ("traincrew/traincrew:0.1.0", "operator"),
        ("python", "python"),
        ("python:3", "python"),
        ("python:3.11", "python3.11"),
        ("python:3.11-slim", "python3.11"),
        ("python:3.11.7", "python3.11"),
        ("python:3.12-alpine", "python3.12"),
        ("busybox", "host"),
        ("busybox:1.36", "host"),
        ("alpine:3.20", "alpine"),
        ("mpioperator/mpi-pi:openmpi", "mpi-operator"),
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "pytorch"),
        ("docker.io/kubeflowkatib/pytorch-mnist:v1beta1-45c5727", "pytorch-mnist"),
        ("kubeflow/pytorch-dist-mnist:latest", "pytorch-mnist"),
        ("kubeflow/pytorch-dist-sendrecv-test:latest", "pytorch-messages"),
        ("kubeflow/pytorch-elastic-example-echo:latest", "pytorch-elastic"),
        ("debian:bookworm-slim", "host"),
        ("ubuntu:24.04", "host"),
    ],
)
def test_shipped_catalog_maps_images(image: str, name: str) -> None:
    assert name_of(load_catalogs([]), image) == name


def test_shipped_pins_every_requirement_and_its_files_exist() -> None:
    for definition in load_catalogs([]).definitions:
        for requirement in (*definition.requirements, *definition.build_requirements):
            assert "==" in requirement, (definition.name, requirement)
        for source in (*definition.files.values(), *definition.programs.values()):
            of_machine = str(source) == "/usr/sbin/sshd"  # see `machinePrograms` of that entry
            assert of_machine or source.is_file(), source
    assert "://" not in SHIPPED_CATALOG.read_text(encoding="utf-8")


def test_the_shipped_one_is_read_as_yaml() -> None:
    document = yaml.safe_load(SHIPPED_CATALOG.read_text(encoding="utf-8"))
    assert read_entries(SHIPPED_CATALOG) == document["environments"]


def test_unknown_images_have_no_environment() -> None:
    assert load_catalogs([]).find(parse_reference("nginx")) is None


def test_own_catalogs_come_first_in_their_order(tmp_path: Path) -> None:
    one = write(
        tmp_path / "one.yaml",
        """
        environments:
        - {name: narrow, images: ["me/x:1"], python: current}
        - {name: wide, images: ["me/*", busybox], python: current}
        """,
    )
    two = write(
        tmp_path / "two.yaml",
        "environments: [{name: late, images: ['me/x:2', 'you/x'], python: current}]",
    )
    catalog = load_catalogs([one, two])
    assert name_of(catalog, "me/x:1") == "narrow"
    assert name_of(catalog, "me/x:2") == "wide"
    assert name_of(catalog, "you/x") == "late"
    assert name_of(catalog, "busybox") == "wide"
    assert name_of(catalog, "debian") == "host"


def test_missing_and_empty_files_define_nothing(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.yaml", "# nothing yet\n")
    bare = write(tmp_path / "bare.yaml", "environments:\n")
    catalog = load_catalogs([tmp_path / "absent.yaml", empty, bare])
    assert catalog == load_catalogs([])


def test_from_adds_to_another_environment(tmp_path: Path) -> None:
    own = write(
        tmp_path / "own.yaml",
        """
        environments:
        - name: mine
          from: chainermn
          images: [me/train]
          requirements: [Scikit_Learn==1.6.0, pandas==2.2.3]
          files: {/app/train.py: train.py, /train_mnist.py: mine.py}
          env: {OMP_NUM_THREADS: "2"}
          workingDir: /app
        """,
    )
    catalog = load_catalogs([own])
    base, mine = find(catalog, "traincrew/chainermn"), find(catalog, "me/train")
    assert mine.python == base.python
    assert mine.build_requirements == base.build_requirements
    changed = {one for one in base.requirements if one.startswith("scikit-learn")}
    assert set(mine.requirements) == (set(base.requirements) - changed) | {
        "Scikit_Learn==1.6.0",
        "pandas==2.2.3",
    }
    assert mine.files["/app/train.py"] == tmp_path / "train.py"
    assert mine.files["/train_mnist.py"] == tmp_path / "mine.py"
    assert mine.files["/examples/train_digits.py"] == base.files["/examples/train_digits.py"]
    assert mine.variables["OMP_NUM_THREADS"] == "2"
    assert mine.variables["OPAL_PREFIX"] == base.variables["OPAL_PREFIX"]
    assert (mine.working_directory, base.working_directory) == ("/app", "/")


def test_the_user_of_an_image(tmp_path: Path) -> None:
    own = write(
        tmp_path / "own.yaml",
        """
        environments:
        - {name: manager, images: [me/manager], user: "65532:7"}
        - {name: derived, from: manager, images: [me/derived]}
        - {name: other, from: manager, images: [me/other], user: 1000}
        - {name: plain, images: [me/plain]}
        """,
    )
    catalog = load_catalogs([own])
    assert find(catalog, "me/manager").user == ImageUser(65532, 7)
    assert find(catalog, "me/derived").user == ImageUser(65532, 7)
    assert find(catalog, "me/other").user == ImageUser(1000, 0)
    assert find(catalog, "me/plain").user is None


def test_an_entry_can_adjust_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    own = write(
        tmp_path / "own.yaml",
        """
        environments:
        - {name: chainermn, from: chainermn, images: [everpeace/chainermn], files: {/data: data}}
        """,
    )
    found = find(load_catalogs([own]), "everpeace/chainermn:1.3.0")
    assert found.files["/data"] == tmp_path / "data"
    assert "/train_mnist.py" in found.files


def test_an_interpreter_is_relative_to_the_catalog(tmp_path: Path) -> None:
    own = write(tmp_path / "own.yaml", "environments: [{name: x, python: ./venv/bin/python}]")
    python = load_catalogs([own]).definitions[0].python
    assert python == Python(interpreter=tmp_path / "venv/bin/python")


WRONG = {
    "a list at the top": ("- name: x\n", 'the only top-level field is "environments"; found list'),
    "another top-level field": (
        "images: []\n",
        'the only top-level field is "environments"; found "images"',
    ),
    "not YAML": ("environments: [\n", "not valid YAML"),
    "a huge number": ("environments: " + "1" * 5_000, "not valid YAML: JSON has no such number"),
    "no integer": ("environments: !!int ''", "not valid YAML: '' is no int"),
    "environments not a list": ("environments: {a: b}\n", "environments: must be a list"),
    "entry not a mapping": ("environments: [x]\n", "environments[0]: must be a mapping"),
    "no name": ("environments: [{images: [x]}]\n", "environments[0].name: is required"),
    "bad name": ("environments: [{name: My Env}]\n", 'environments[0].name: "My Env"'),
    "twice the same name": (
        "environments: [{name: x}, {name: x}]\n",
        'environments[1] ("x").name: another entry of this file is called "x" too',
    ),
    "misspelt field": (
        "environments: [{name: x, requirement: [a]}]\n",
        'requirement: is not a field of an environment; did you mean "requirements"?',
    ),
    "unknown field": (
        "environments: [{name: x, zzz: 1}]\n",
        'environments[0] ("x").zzz: is not a field of an environment; known: name,',
    ),
    "images not a list": (
        "environments: [{name: x, images: me/x}]\n",
        'environments[0] ("x").images: must be a list, not a string',
    ),
    "image with a space": (
        "environments: [{name: x, images: [a, 'b c']}]\n",
        'environments[0] ("x").images[1]: "b c" is not an image name',
    ),
    "version as a number": (
        "environments: [{name: x, python: 3.10}]\n",
        'environments[0] ("x").python: 3.1 is a number in YAML (3.10 would be 3.1): quote it',
    ),
    "unknown python": (
        "environments: [{name: x, python: newest}]\n",
        'environments[0] ("x").python: "newest": must be "current"',
    ),
    "no versions": (
        "environments: [{name: x, python: []}]\n",
        'environments[0] ("x").python: the list of versions is empty',
    ),
    "requirements for the current python": (
        "environments: [{name: x, python: current, requirements: [a]}]\n",
        'environments[0] ("x").requirements: need an environment of their own',
    ),
    "requirements without python": (
        "environments: [{name: x, requirements: [a]}]\n",
        'environments[0] ("x").requirements: need an environment of their own',
    ),
    "pip option as a requirement": (
        "environments: [{name: x, python: '3.11', requirements: [a, -r file]}]\n",
        'environments[0] ("x").requirements[1]: "-r file" is an option of pip',
    ),
    "number as a requirement": (
        "environments: [{name: x, python: '3.11', requirements: [7]}]\n",
        'environments[0] ("x").requirements[0]: must be a string: write it in quotes, "7"',
    ),
    "number in env": (
        "environments: [{name: x, env: {A: 1}}]\n",
        'environments[0] ("x").env.A: must be a string: write it in quotes, "1"',
    ),
    "truth value in env": (
        "environments: [{name: x, env: {A: yes}}]\n",
        'environments[0] ("x").env.A: must be a string: write it in quotes, "true"',
    ),
    "bad variable": (
        "environments: [{name: x, env: {'A B': c}}]\n",
        'environments[0] ("x").env.A B: is not a name for an environment variable',
    ),
    "relative path in the pod": (
        "environments: [{name: x, files: {app.py: app.py}}]\n",
        'environments[0] ("x").files.app.py: the path in the pod must be absolute',
    ),
    "path in the pod with ..": (
        "environments: [{name: x, files: {/a/../b: app.py}}]\n",
        'environments[0] ("x").files./a/../b: the path in the pod must be absolute',
    ),
    "file without a source": (
        "environments: [{name: x, files: {/app.py: }}]\n",
        'environments[0] ("x").files./app.py: must be a string, not nothing',
    ),
    "prefix without python": (
        "environments: [{name: x, files: {'{prefix}/a': b}}]\n",
        'environments[0] ("x").files.{prefix}/a: {prefix} needs python:',
    ),
    "prefix in env without python": (
        "environments: [{name: x, env: {A: '{prefix}/a'}}]\n",
        'environments[0] ("x").env.A: {prefix} needs python:',
    ),
    "hashes in a file whose name is too long": (
        f"environments: [{{name: x, python: '3.11', hashes: [{'h' * 256}]}}]\n",
        'environments[0] ("x").hashes[0]: is too long for a path',
    ),
    "a python whose path is too long": (
        f"environments: [{{name: x, python: {'/h' * 2048}}}]\n",
        'environments[0] ("x").python: is too long for a path',
    ),
    "a file whose path is too long": (
        f"environments: [{{name: x, files: {{/a: {'h' * 256}}}}}]\n",
        'environments[0] ("x").files./a: is too long for a path',
    ),
    "the path of a program of the machine": (
        "environments: [{name: x, machinePrograms: {/usr/sbin/sshd: apt}}]\n",
        'environments[0] ("x").machinePrograms./usr/sbin/sshd: must be the name of a program',
    ),
    "a program of the machine without a fix": (
        "environments: [{name: x, machinePrograms: {sshd: ''}}]\n",
        'environments[0] ("x").machinePrograms.sshd: the text that says how to install it',
    ),
    "programs without python": (
        "environments: [{name: x, programs: {/a: a.py}}]\n",
        'environments[0] ("x").programs: are Python programs and need python:',
    ),
    "working directory not absolute": (
        "environments: [{name: x, workingDir: app}]\n",
        'environments[0] ("x").workingDir: "app" must be an absolute path',
    ),
    "user by name": (
        "environments: [{name: x, user: nonroot}]\n",
        'environments[0] ("x").user: "nonroot": must be the number of a user',
    ),
    "user out of range": (
        "environments: [{name: x, user: 4294967295}]\n",
        'environments[0] ("x").user: "4294967295": must be the number of a user',
    ),
    "command as a text": (
        "environments: [{name: x, command: sh}]\n",
        'environments[0] ("x").command: must be a list, not a string',
    ),
    "from something unknown": (
        "environments: [{name: x, from: nothing}]\n",
        'environments[0] ("x").from: there is no environment "nothing"; there are: alpine,',
    ),
    "from in a circle": (
        "environments: [{name: a, from: b}, {name: b, from: a}]\n",
        'environments[1] ("b").from: "a" is itself made from "b"',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_the_entry_and_the_field(case: str, tmp_path: Path) -> None:
    text, message = WRONG[case]
    path = write(tmp_path / "mine.yaml", text)
    with pytest.raises(CatalogError) as caught:
        load_catalogs([path])
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)


def test_an_unreadable_catalog(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be read: Is a directory"):
        load_catalogs([tmp_path])
