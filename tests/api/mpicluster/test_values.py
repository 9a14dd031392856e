"""Values of kube-openmpi become an MPICluster, and a mistake in them is named."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from api.mpicluster import random_values
from api.mpicluster.broken_values import BROKEN, BrokenValues
from traincrew.api.kinds.mpicluster.convert import cluster, documents, fields
from traincrew.api.kinds.mpicluster.rules import problems as problems_of_cluster
from traincrew.api.kinds.mpicluster.types import decode
from traincrew.api.kinds.mpicluster.values import NO_EFFECT, ChartValues, defaults, merged
from traincrew.api.kinds.mpicluster.valuescheck import described, key_of, problems
from traincrew.api.kinds.mpicluster.valuespage import page
from traincrew.api.meta import ObjectMeta

DIRECTORY = Path(__file__).with_name("values")
KEYS = DIRECTORY / "ssh-key.yaml"
FILES = sorted(set(DIRECTORY.glob("*.yaml")) - {KEYS})

ROW_OF_NUM = (
    "| `mpiWorkers.num` | `4` | `workers.replicas`, `runPolicy.schedulingPolicy.minAvailable` |"
    " Number of workers. |"
)


def load(name: str) -> dict[str, Any]:
    """Read a values file of these tests."""
    values: dict[str, Any] = yaml.safe_load((DIRECTORY / name).read_text())
    return values


def said(values: dict[str, Any], name: str = "mine") -> list[str]:
    """What is said of values."""
    return [str(problem) for problem in problems(merged(values), name)]


# -- merging, as Helm does ------------------------------------------------------------------------


def test_mappings_are_merged_and_later_values_win() -> None:
    values = merged(
        {"mpiWorkers": {"num": 3, "nodeSelector": {"a": "1"}}, "appCodesToSync": [{"name": "x"}]},
        {"mpiWorkers": {"num": 5, "nodeSelector": {"b": "2"}}, "appCodesToSync": [{"name": "y"}]},
    )

    assert values["mpiWorkers"]["num"] == 5
    assert values["mpiWorkers"]["nodeSelector"] == {"a": "1", "b": "2"}
    assert values["mpiWorkers"]["podManagementPolicy"] == "Parallel"
    assert values["appCodesToSync"] == [{"name": "y"}]


def test_null_removes_a_key() -> None:
    values = merged(
        {"mpiWorkers": {"num": None}, "sshKey": None, "image": {"tag": "1"}}, {"image": None}
    )

    assert "num" not in values["mpiWorkers"]
    assert "sshKey" not in values
    assert "image" not in values
    assert merged({"image": None}, {"image": {"tag": "1"}})["image"] == {
        **defaults()["image"],
        "tag": "1",
    }


def test_null_stays_where_the_defaults_have_nothing() -> None:
    values = merged({"mpiWorkers": {"nodeSelector": {"a": None}}, "whatever": None})

    assert values["mpiWorkers"]["nodeSelector"] == {"a": None}
    assert values["whatever"] is None


def test_the_arguments_are_not_changed() -> None:
    given = {"mpiWorkers": {"nodeSelector": {"a": "1"}}}
    merged(given, {"mpiWorkers": {"nodeSelector": {"b": "2"}}})

    assert given == {"mpiWorkers": {"nodeSelector": {"a": "1"}}}


# -- what becomes of them -------------------------------------------------------------------------


def test_without_values_it_is_what_kube_openmpi_renders_without_values() -> None:
    def pod(container: str) -> dict[str, Any]:
        image = {"image": "everpeace/kube-openmpi:0.7.0", "imagePullPolicy": "IfNotPresent"}
        return {"spec": {"containers": [{"name": container, **image}]}}

    (document,) = documents(merged(), "mine")

    assert document == {
        "apiVersion": "traincrew.dev/v1alpha1",
        "kind": "MPICluster",
        "metadata": {"name": "mine"},
        "spec": {
            "hostfile": {"autoUpdate": True, "updateSeconds": 15},
            "master": {"template": pod("mpi-master")},
            "workers": {
                "replicas": 4,
                "podManagementPolicy": "Parallel",
                "template": pod("mpi-worker"),
            },
        },
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_become_valid_clusters(path: Path) -> None:
    values = merged(yaml.safe_load(path.read_text()))

    assert problems(values, "mine") == []
    spec = decode(cluster(values, "mine")["spec"])
    assert problems_of_cluster(ObjectMeta(name="mine"), spec) == []


def look_up(node: Any, path: str) -> Any:
    """Return what is at a path, of all items where it has ``[]``."""
    for step in path.split("."):
        name, every = step.removesuffix("[]"), step.endswith("[]")
        node = [each.get(name) for each in node] if isinstance(node, list) else node[name]
        if every and name == "containers":
            (node,) = node
    return node


COMPARED = [
    (path, found[0])
    for path, found in fields().items()
    if not path.startswith(("image", "sshKey"))
    and path not in {"mpiMaster.oneShot.enabled", "appCodesToSync", "transport"}
]


@pytest.mark.parametrize(("key", "becomes"), COMPARED)
def test_every_key_becomes_its_field(key: str, becomes: str) -> None:
    values = load("everything.yaml")
    wanted, found = look_up(values, key), look_up(cluster(merged(values), "mine")["spec"], becomes)
    if key.endswith("fetchWaitSecond"):
        assert (wanted, found) == ([60, "0"], [60, None])
    else:
        assert str(found) == str(wanted)
        assert found not in (None, "", [], {}), "the file has a value for every key"


def test_the_file_has_a_value_for_every_key_but_other_ones_than_the_defaults() -> None:
    values, usual = load("everything.yaml") | load("ssh-key.yaml"), defaults()
    for path, _ in described(ChartValues, ""):
        if "[]" not in path and path != "transport":  # it excludes other keys
            assert look_up(values, path) != look_up(usual, path), path


@pytest.mark.parametrize(
    "key", [path for path, about in described(ChartValues, "") if about == NO_EFFECT]
)
def test_keys_for_images_of_kube_openmpi_have_no_effect(key: str) -> None:
    values = load("everything.yaml")
    before = documents(merged(values), "mine")
    del values[key.partition(".")[0]]

    assert documents(merged(values), "mine") == before


def test_the_image_of_both_templates() -> None:
    spec = cluster(merged(load("everything.yaml")), "mine")["spec"]

    for role in ("master", "workers"):
        pod = spec[role]["template"]["spec"]
        assert pod["imagePullSecrets"] == [{"name": "registry-one"}, {"name": "registry-two"}]
        assert pod["containers"][0]["image"] == "registry.example.com:5000/mpi:5.0"
        assert pod["containers"][0]["imagePullPolicy"] == "Always"


def test_another_scheduler_only_if_it_is_enabled() -> None:
    values = load("everything.yaml")
    for role in ("mpiMaster", "mpiWorkers"):
        values[role]["customScheduling"]["enabled"] = False
    spec = cluster(merged(values), "mine")["spec"]

    assert "schedulerName" not in spec["master"]["template"]["spec"]
    assert "schedulerName" not in spec["workers"]["template"]["spec"]
    assert "podDisruptionBudget" not in spec["workers"]


def test_workers_with_another_scheduler_are_placed_together() -> None:
    scheduling = {"enabled": True, "schedulerName": "volcano"}
    workers = {"num": 6, "customScheduling": scheduling}
    gang = {"schedulingPolicy": {"minAvailable": 6}}

    assert cluster(merged({"mpiWorkers": workers}), "mine")["spec"]["runPolicy"] == gang
    for without in (
        {**workers, "customScheduling": {**scheduling, "enabled": False}},
        {**workers, "customScheduling": {**scheduling, "schedulerName": ""}},
        {**workers, "podManagementPolicy": "OrderedReady"},
    ):
        assert "runPolicy" not in cluster(merged({"mpiWorkers": without}), "mine")["spec"]


def test_a_command_only_if_it_is_enabled() -> None:
    values = load("everything.yaml")
    values["mpiMaster"]["oneShot"]["enabled"] = False

    assert "oneShot" not in cluster(merged(values), "mine")["spec"]["master"]


def test_long_names_are_shortened_as_in_kube_openmpi() -> None:
    name = "x" * 62 + "-yz"

    assert cluster(merged({"nameOverride": name}), "mine")["spec"]["appName"] == "x" * 62


@pytest.mark.parametrize(
    ("values", "transport"),
    [({}, None), ({"transport": "ssh"}, None), ({"transport": "exec"}, "exec")],
)
def test_transport_is_a_key_that_kube_openmpi_has_not(
    values: dict[str, Any], transport: str | None
) -> None:
    given = merged({**values, "sshGateway": {"nodePort": 30300}})

    assert problems(given, "mine") == []
    assert cluster(given, "mine")["spec"].get("transport") == transport


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            {"sshGateway": {"enabled": True}},
            "sshGateway.enabled: there is no sshd with transport: exec; remove one",
        ),
        (load("ssh-key.yaml"), "sshKey.id_rsa: no keys are used with transport: exec; remove one"),
    ],
)
def test_what_exec_excludes(values: dict[str, Any], line: str) -> None:
    assert [text[: len(line)] for text in said({**values, "transport": "exec"})] == [line]


def test_keys_become_a_secret() -> None:
    keys = load("ssh-key.yaml")
    secret, found = documents(merged(load("quickstart.yaml"), keys), "mine", "lab")

    assert secret["metadata"]["name"] == "mine-ssh-key"
    assert secret["type"] == "Opaque"
    assert secret["metadata"]["labels"] == {
        "app": "kube-openmpi",
        "chart": "kube-openmpi-0.7.0",
        "release": "mine",
        "heritage": "traincrew",
    }
    plain = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert plain == {
        "id_rsa": keys["sshKey"]["id_rsa"],
        "id_rsa.pub": keys["sshKey"]["id_rsa_pub"],
        "authorized_keys": keys["sshKey"]["id_rsa_pub"],
    }
    assert found["spec"]["ssh"] == {"keySecretName": "mine-ssh-key"}
    assert [each["metadata"]["namespace"] for each in (secret, found)] == ["lab", "lab"]


def test_every_key_is_on_the_reference_page() -> None:
    text = page()

    for key, about in described(ChartValues, ""):
        if about != NO_EFFECT:
            assert all(f"`{field}`" in text for field in fields().get(key, ()))
            assert f"| `{key}` |" in text or key not in fields()
    assert ROW_OF_NUM in text
    assert "| `kubectlImage` |" in text
    assert "| `mpiWorkers` |" not in text


# -- mistakes -------------------------------------------------------------------------------------


def test_there_are_enough_broken_values() -> None:
    assert len(BROKEN) >= 120


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.title)
def test_a_mistake_is_named_with_its_key(broken: BrokenValues) -> None:
    found = said(broken.values())

    assert any(line.startswith(f"{broken.key}: ") and broken.says in line for line in found), found


def test_all_mistakes_are_named_at_once() -> None:
    values = {"mpiWorkers": {"num": "x", "nums": 4}, "mpiMaster": {"volumes": {}}, "imag": {}}

    assert sorted(line.partition(":")[0] for line in said(values)) == [
        "imag",
        "mpiMaster.volumes",
        "mpiWorkers.num",
        "mpiWorkers.nums",
    ]


@pytest.mark.parametrize("seed", range(100))
def test_random_values_are_refused_or_become_valid_clusters(seed: int) -> None:
    given = merged(random_values.values(random.Random(seed)))
    if not problems(given, "mine"):
        spec = decode(cluster(given, "mine")["spec"])
        assert problems_of_cluster(ObjectMeta(name="mine"), spec) == []


def test_keys_are_not_in_messages() -> None:
    for key in ("secret-text", 123456789, ["secret-text"]):
        lines = "\n".join(said({"sshKey": {"id_rsa": key}}))
        assert lines
        assert "secret-text" not in lines
        assert "123456789" not in lines


@pytest.mark.parametrize("name", ["Mine", "x" * 46, "my.cluster"])
def test_a_wrong_name_is_named(name: str) -> None:
    (line,) = said({}, name)

    assert line.startswith("the name of the cluster: ")


def test_what_helm_has_a_use_for_is_accepted() -> None:
    assert said({"global": {"anything": 1}}) == []
    assert said({"mpiWorkers": {"global": {}}}) != []


def test_fields_are_named_by_the_keys_that_they_come_from() -> None:
    for field, key in (
        ("spec.workers.replicas", "mpiWorkers.num"),
        ("spec.master.template.spec.containers[0].image", "image.repository"),
        ("spec.codeSync[3].repository", "appCodesToSync[3].gitRepo"),
        ("spec.workers.template.spec.volumes[2].name", "mpiWorkers.volumes[2].name"),
        (
            "spec.master.template.spec.containers[0].volumeMounts[1].mountPath",
            "mpiMaster.volumeMounts[1].mountPath",
        ),
        ("spec.runPolicy.suspend", "spec.runPolicy.suspend"),
    ):
        assert key_of(field) == key


def test_every_field_exists() -> None:
    """The fields that keys are said to become are those of the types."""
    schema = msgspec.json.schema(decode({}).__class__)
    known = re.sub(r"\s", "", msgspec.json.encode(schema).decode())
    for key, becomes in ((key, field) for key, found in fields().items() for field in found):
        for step in becomes.split(".template.", maxsplit=1)[0].split("."):
            name = step.removesuffix("[]")
            assert not name or f'"{name}":' in known, (key, becomes)


def test_the_example_of_the_guide() -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "mpicluster.md"
    text = guide.read_text()
    found = {
        name: yaml.safe_load(block)
        for name, block in re.findall(
            r"^```yaml\n# (values|manifest)\.yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        )
    }

    assert documents(merged(found["values"]), "mine") == [found["manifest"]]


def test_the_chainermn_job_of_the_guide() -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "mpicluster.md"
    found = re.search(
        r"^```yaml\n# chainermn\.yaml\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    values = merged(yaml.safe_load(found[1]))

    assert problems(values, "train") == []
    spec = cluster(values, "train")["spec"]
    assert "-n 4 -npernode 1" in spec["master"]["oneShot"]["command"]
    assert spec["workers"]["replicas"] == 3, "and the master"
    assert spec["codeSync"][0]["subPath"] == "chainermn/examples"
