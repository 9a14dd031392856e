"""The chart with the values of kube-openmpi renders what `traincrew mpi` prints, in Helm 3 and 4.

More values files can be tested: TRAINCREW_SUITE_OPENMPI_VALUES names directories. The placeholder
of kube-openmpi's examples, _EDIT_ME_, is replaced in them.
"""

import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from suites.helm import BOTH, built

import variation
from api.mpicluster import random_values
from api.mpicluster.broken_values import BROKEN, CODE, PRIVATE, PUBLIC, BrokenValues
from api.mpicluster.random_values import everything
from traincrew.api.kinds.mpicluster.convert import documents
from traincrew.api.kinds.mpicluster.values import merged
from traincrew.api.kinds.mpicluster.valuescheck import problems
from traincrew.api.placeholders import EDIT_ME

from .support import ROOT, Document, Run, load_all, runner

CHART = str(ROOT / "charts" / "kube-openmpi")
VALUES = ROOT / "tests" / "api" / "mpicluster" / "values"
KEYS = VALUES / "ssh-key.yaml"
FILES = [
    path
    for directory in (
        VALUES,
        *map(Path, filter(None, os.environ.get("TRAINCREW_SUITE_OPENMPI_VALUES", "").split(":"))),
    )
    for path in sorted(directory.glob("*.yaml"))
    if path not in {KEYS, directory / "Chart.yaml"}
]
FILES += sorted((ROOT / "examples" / "openmpi" / "values").glob("*.yaml"))


def alternating(cases: list[Any], names: Callable[[Any], str]) -> list[Any]:
    """Return each case with one of the two Helms; with another change of the code, the other."""
    return [
        pytest.param(BOTH[(place + variation.NUMBER) % 2], case, id=names(case))
        for place, case in enumerate(cases)
    ]


@pytest.fixture(scope="module", params=BOTH)
def helm(request: pytest.FixtureRequest) -> Run:
    """Runs one of both; fails the test when it exits with another code than expected."""
    return runner(built(request.param))


@pytest.fixture(scope="module")
def traincrew() -> Run:
    """Runs our command."""
    return runner(Path(sys.executable).with_name("traincrew"))


def rendered(helm: Run, *files: Path) -> list[Document]:
    words = [f"--values={path}" for path in files]
    return load_all(helm("template", "mine", CHART, "--namespace", "lab", *words).stdout)


def converted(traincrew: Run, *files: Path) -> list[Document]:
    return load_all(traincrew("mpi", "--name", "mine", *map(str, files)).stdout)


def by_kind(documents: list[Document]) -> dict[str, Document]:
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found


def test_lint_finds_nothing(helm: Run) -> None:
    said = helm("lint", "--strict", CHART).stdout

    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys"])
def test_it_renders_what_the_command_prints(
    helm: Run, traincrew: Run, tmp_path: Path, path: Path, keys: bool
) -> None:
    own = tmp_path / "values.yaml"
    own.write_text(path.read_text().replace(EDIT_ME, "mine"))
    files = [own, KEYS] if keys else [own]
    found = by_kind(rendered(helm, *files))

    assert found == by_kind(converted(traincrew, *files))
    assert set(found) == ({"MPICluster", "Secret"} if keys else {"MPICluster"})


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_how_processes_are_started(
    helm: Run, traincrew: Run, tmp_path: Path, transport: str
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(f"transport: {transport}\n")
    found = rendered(helm, path)

    assert found == converted(traincrew, path)
    assert found[0]["spec"].get("transport", "ssh") == transport


NULLS = [
    {"mpiMaster": None},
    {"mpiWorkers": {"num": None, "customScheduling": None, "nodeSelector": {"a": None}}},
    {"mpiMaster": {"autoUpdateHostfile": None, "oneShot": {"enabled": True, "command": " x\n"}}},
    {"mpiMaster": {"autoUpdateHostfile": {"enabled": None, "updateEvery": None}}},
    {"sshGateway": {"enabled": True, "nodePort": None}, "networkPolicy": None, "sshKey": None},
    {"image": {"pullPolicy": None, "pullSecrets": None}, "appCodesToSync": None},
    {"appCodesToSync": [{**CODE, "subPath": None}]},
    {"transport": None},
    {"nameOverride": "x" * 62 + "-y", "global": {"anything": 1}},
]


@pytest.mark.parametrize("values", NULLS, ids=str)
def test_both_take_null_for_a_removed_key(
    helm: Run, traincrew: Run, tmp_path: Path, values: Document
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))

    assert rendered(helm, path) == converted(traincrew, path)


def test_files_and_settings_are_merged_the_same_way(
    helm: Run, traincrew: Run, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("mpiWorkers: {num: 3, nodeSelector: {a: x, b: x}}\nimage: {tag: a}\n")
    second.write_text("mpiWorkers: {num: 5, nodeSelector: {b: y}}\nimage: null\n")

    assert rendered(helm, second, first) == converted(traincrew, second, first)
    found = rendered(helm, first, VALUES / "quickstart.yaml", VALUES / "everything.yaml")
    assert found == converted(
        traincrew, first, VALUES / "quickstart.yaml", VALUES / "everything.yaml"
    )
    by_flags = helm("template", "mine", CHART, "--set=mpiWorkers.num=5").stdout
    assert load_all(by_flags)[0]["spec"]["workers"]["replicas"] == 5


def compare(helm: Run, directory: Path, given: Document) -> str:
    """Compare what the chart and `traincrew mpi` say of values; return which of three it was."""
    path = directory / "values.yaml"
    path.write_text(json.dumps(given))  # text stays text in Go as well
    values = merged(given)
    by_helm = helm("template", "mine", CHART, f"--values={path}", code=None)
    by_us = [str(problem) for problem in problems(values, "mine")]
    if "specifications of the schema" in by_helm.stderr:
        assert by_us, by_helm.stderr
        return "refused by the schema"
    if by_helm.returncode:
        lines = re.search(r"error at \(\S+\): (.+?)\n\nUse --debug", by_helm.stderr, re.DOTALL)
        assert lines is not None, by_helm.stderr
        # Some show a value of several lines.
        assert sorted(lines[1].split("\n")) == sorted("\n".join(by_us).split("\n"))
        return "refused"
    assert by_us == []
    assert by_kind(load_all(by_helm.stdout)) == by_kind(documents(values, "mine"))
    return "rendered"


def test_parts_of_all_values(helm: Run, tmp_path: Path) -> None:
    """Both render the same, or both refuse: an image or command, or one of two keys, is missing."""
    found = Counter(
        compare(helm, tmp_path, random_values.part(everything(), random.Random(seed)))
        for seed in range(20)
    )

    assert found["rendered"]
    assert found["refused"]


def test_random_values(helm: Run, tmp_path: Path) -> None:
    """Both render the same, or refuse with the same lines."""
    found: Counter[str] = Counter()
    for seed in range(60):
        values = random_values.values(random.Random(f"{variation.NUMBER} {seed}"))
        try:
            found[compare(helm, tmp_path, values)] += 1
        except AssertionError as error:
            error.add_note(json.dumps(values))
            raise

    assert found["rendered"]
    assert found["refused"]


def where(broken: BrokenValues) -> list[str]:
    """How an error names the key: as the schema does, or as the templates do.

    The schema names the mapping in which a key is missing, and the key beside it.
    """
    pointer = "/" + broken.key.replace(".", "/").replace("[", "/").replace("]", "")
    if broken.key.endswith("id_rsa.pub"):
        pointer = "/sshKey/id_rsa.pub"
    above, _, last = pointer.rpartition("/")
    return [f"at '{pointer}'", f"{broken.key}: ", f"at '{above}': missing property '{last}'"]


@pytest.mark.parametrize(
    ("helm", "broken"), alternating(BROKEN, lambda broken: broken.title), indirect=["helm"]
)
def test_what_the_command_refuses_is_refused_with_the_same_key(
    helm: Run, tmp_path: Path, broken: BrokenValues
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(json.dumps(broken.values()))  # text stays text in Go as well
    said = helm("template", "mine", CHART, f"--values={path}", code=1).stderr

    assert any(place in said for place in where(broken)), said
    if hint := re.search(r"did you mean (\S+( or \S+)*)\?$", broken.says):
        # The schema names keys beside the wrong one without their path.
        full = hint[1].replace("[0]", "[]")
        near = re.escape(full) + "|" + re.escape(full.rpartition(".")[2])
        assert re.search(rf"left out: no such key; did you mean ({near})\?'", said), said


@pytest.mark.parametrize("name", ["1mine", "x" * 46, "1" + "x" * 46])
def test_a_name_that_no_cluster_can_have_is_refused_with_the_same_lines(
    helm: Run, name: str
) -> None:
    said = helm("template", name, CHART, code=1).stderr

    for problem in problems(merged({}), name):
        assert f"the release's name: {problem.message}" in said


def test_keys_without_ssh_are_refused(helm: Run, tmp_path: Path) -> None:
    keys = {"id_rsa": PRIVATE, "id_rsa_pub": PUBLIC}

    assert compare(helm, tmp_path, {"transport": "exec", "sshKey": keys}) == "refused"


def test_other_unknown_keys_are_refused_with_those_that_exist(helm: Run) -> None:
    said = helm("template", "mine", CHART, "--set=sshKey.id_ed25519=x", code=1).stderr

    text = "value must be 'left out: no such key; there are id_rsa, id_rsa_pub'"
    assert f"at '/sshKey/id_ed25519': {text}" in said


@pytest.mark.parametrize(
    "keys",
    [
        {"id_rsa": "hidden", "id_rsa_pub": "hidden"},
        {"id_rsa": "-----BEGIN RSA PRIVATE KEY-----\nhidden\n", "id_rsa_pub": "hidden"},
        {"id_rsa": "hidden"},
        {"id_rsa": 123454321},
        {"id_rsa": ["hidden"]},
        {"id_rsa.pub": "hidden", "id_dsa": "hidden"},
        "hidden",
    ],
    ids=str,
)
@pytest.mark.parametrize("debug", [False, True], ids=["", "--debug"])
def test_keys_are_not_in_errors(
    helm: Run, tmp_path: Path, keys: Document | str, debug: bool
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump({"sshKey": keys}))
    words = ["--debug"] if debug else []
    result = helm("template", "mine", CHART, f"--values={path}", *words, code=1)

    assert "sshKey" in result.stderr
    assert "hidden" not in result.stdout + result.stderr
    assert "123454321" not in result.stdout + result.stderr


def test_a_token_in_an_address_is_not_in_the_error(helm: Run, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    entry = {**CODE, "gitRepo": "https://me:hidden@git.example.com/code"}
    path.write_text(yaml.safe_dump({"appCodesToSync": [entry]}))
    said = helm("template", "mine", CHART, f"--values={path}", code=1).stderr

    assert "appCodesToSync[0].gitRepo: gitRepo has a user or password in it" in said
    assert "hidden" not in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("image.tag=_EDIT_ME_", "image.tag: replace _EDIT_ME_ by a value of your own"),
        ("nameOverride=_EDIT_ME_", "nameOverride: replace _EDIT_ME_ by a value of your own"),
        ("image.repository=", "image.repository: it is required"),
        ("image=null", "image.repository: it is required"),
        ("sshKey.id_rsa=x", "sshKey.id_rsa_pub: it is required beside sshKey.id_rsa"),
        ("sshKey.id_rsa_pub=x", "sshKey.id_rsa: it is required beside sshKey.id_rsa_pub"),
        (
            "mpiMaster.oneShot.enabled=true,mpiMaster.oneShot.command=",
            "mpiMaster.oneShot.command: it is required if oneShot.enabled is true",
        ),
        (
            "transport=exec,sshGateway.enabled=true",
            "sshGateway.enabled: there is no sshd with transport: exec; remove one of the two",
        ),
        ("transport=kubectl", "one of 'exec', 'ssh'"),
        ("image.tag=1.5", "at '/image/tag': got number, want string"),
        ("mpiWorkers.num=x", "at '/mpiWorkers/num'"),
        ("mpiWorkers.podManagementPolicy=x", "one of 'OrderedReady', 'Parallel'"),
        ("image=x", "at '/image': got string, want object"),
    ],
)
def test_a_mistake_is_named(helm: Run, setting: str, said: str) -> None:
    flag = "--set-json" if setting == "image.tag=1.5" else "--set"
    result = helm("template", "mine", CHART, f"{flag}={setting}", code=1)

    assert said in result.stderr
