"""The charts with the values of mxnet-operator's."""

import re
from pathlib import Path

import pytest
import yaml

from traincrew.operator.manifests import documents
from traincrew.operator.manifests.values import parse

from .support import KUBERNETES, ROOT, Document, Run, by_name, load_all

OPERATOR = ROOT / "charts" / "mx-job-operator-chart"
JOB = ROOT / "charts" / "mx_job"
NAME = "mx-job-operator"
# The values files of mxnet-operator's charts.
OPERATOR_VALUES = {
    "image": "10.199.192.16/tensorflow/mx_operator:1.7-ca2a96c",
    "test_image": "10.199.192.16/library/mxnet-gpu-dist:0.12.0",
}
JOB_VALUES = {"image": "10.199.192.16/library/mxnet-gpu-dist:0.12.0"}


def rendered(
    helm: Run, chart: Path, directory: Path, values: Document, namespace: str = "default"
) -> list[Document]:
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    result = helm(
        "template", "rel", str(chart), "--kube-version", KUBERNETES,
        "--namespace", namespace, "--values", str(file),
    )  # fmt: skip
    return load_all(result.stdout)


@pytest.mark.parametrize("chart", [OPERATOR, JOB], ids=lambda chart: chart.name)
def test_lint_finds_nothing(helm: Run, chart: Path) -> None:
    said = helm("lint", "--strict", "--kube-version", KUBERNETES, str(chart)).stdout

    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


@pytest.mark.parametrize("chart", [OPERATOR, JOB], ids=lambda chart: chart.name)
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("images=x", "additional properties 'images' not allowed"),
        ("testImage=x", "additional properties 'testImage' not allowed"),
        ("image=", "does not match pattern"),
        ("image.repository=x", "at '/image': got object, want string"),
    ],
)
def test_a_mistake_is_named(helm: Run, chart: Path, setting: str, said: str) -> None:
    result = helm(
        "template", "x", str(chart), "--kube-version", KUBERNETES, "--set", setting, code=1
    )

    assert said in result.stderr


def test_the_operators_chart_installs_what_every_other_way_does(helm: Run, tmp_path: Path) -> None:
    """Besides the ConfigMap and the test, only names and the pod's additions differ."""
    values = parse({"name": NAME, "podLabels": {"name": NAME}})
    usual = by_name([each for group in documents(values, "training").values() for each in group])
    found = by_name(
        [
            each
            for each in rendered(helm, OPERATOR, tmp_path, {}, "training")
            if "-mxjob-test" not in each["metadata"]["name"]
        ]
    )
    del usual["Namespace", "", "training"]
    for key, document in found.items():
        if key[0] == "CustomResourceDefinition":
            assert document["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    config = found.pop(("ConfigMap", "training", "mx-job-operator-config"))
    deployment = found["Deployment", "training", NAME]["spec"]["template"]["spec"]
    (container,) = deployment["containers"]
    expected = usual["Deployment", "training", NAME]["spec"]["template"]["spec"]

    accelerators = yaml.safe_load(config["data"]["controller_config_file.yaml"])["accelerators"]
    assert set(accelerators) == {"alpha.kubernetes.io/nvidia-gpu"}
    assert container["name"] == NAME
    assert (
        container["args"].pop()
        == "--controller_config_file=/etc/config/controller_config_file.yaml"
    )
    assert [each["name"] for each in container["env"]] == [
        "POD_IP",
        "MY_POD_NAMESPACE",
        "MY_POD_NAME",
    ]
    assert container.pop("volumeMounts") == [{"name": "config-volume", "mountPath": "/etc/config"}]
    assert deployment.pop("volumes") == [
        {"name": "config-volume", "configMap": {"name": "mx-job-operator-config"}}
    ]
    container["name"] = expected["containers"][0]["name"]
    container["env"] = container["env"][:1]
    assert found == usual


def test_with_the_values_of_mxnet_operator(helm: Run, tmp_path: Path) -> None:
    found = rendered(helm, OPERATOR, tmp_path, OPERATOR_VALUES)
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    (pod,) = [each for each in found if each["kind"] == "Pod"]

    assert deployment["metadata"]["name"] == NAME
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["name"] == NAME
    assert template["spec"]["containers"][0]["image"] == OPERATOR_VALUES["image"]
    assert re.fullmatch("rel-mxjob-test-[a-z0-9]{6}", pod["metadata"]["name"])
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test-success"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == OPERATOR_VALUES["image"]
    assert container["args"] == [
        "verify",
        f"--image={OPERATOR_VALUES['test_image']}",
        "--namespace=default",
    ]


def test_the_test_may_only_run_jobs_of_its_namespace(helm: Run, tmp_path: Path) -> None:
    found = by_name(rendered(helm, OPERATOR, tmp_path, {}, "training"))
    name = "rel-mxjob-test"
    verbs = ["create", "get", "delete"]

    assert found["Role", "training", name]["rules"] == [
        {"apiGroups": ["mxnet.mlkube.io"], "resources": ["mxjobs"], "verbs": verbs}
    ]
    binding = found["RoleBinding", "training", name]
    assert binding["roleRef"]["name"] == name
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": name, "namespace": "training"}
    ]


def test_the_job(helm: Run, tmp_path: Path) -> None:
    """As mxnet-operator's chart renders it, with its values."""
    (job,) = rendered(helm, JOB, tmp_path, JOB_VALUES)

    assert job["apiVersion"] == "mxnet.mlkube.io/v1beta1"
    assert job["kind"] == "MxJob"
    assert job["metadata"] == {"name": "rel"}
    assert job["spec"]["jobMode"] == "dist"
    replicas = job["spec"]["replicaSpecs"]
    assert [(each["mxReplicaType"], each["replicas"]) for each in replicas] == [
        ("SCHEDULER", 1),
        ("SERVER", 2),
        ("WORKER", 3),
    ]
    assert [each.get("PsRootPort") for each in replicas] == [9091, None, None]
    for each in replicas:
        pod = each["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["restartPolicy"] == "OnFailure"
        assert container["name"] == "mxnet"
        assert container["image"] == JOB_VALUES["image"]
        assert [*container["command"], *container["args"]][:2] == ["python", "train_cifar10.py"]
        assert container["workingDir"] == "/mxnet/example/image-classification"
    worker = replicas[2]["template"]["spec"]
    assert worker["containers"][0]["args"][1:] == [
        "--num-epochs=10",
        "--model-prefix=./wltest",
        "--num-layers=2",
        "--kv-store=dist_device_sync",
    ]
    assert worker["containers"][0]["resources"] == {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    assert worker["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
