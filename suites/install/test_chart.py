"""The Helm chart renders the same objects as the program, whatever the values."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from traincrew.operator.kinds import OF_OTHERS
from traincrew.operator.manifests import documents
from traincrew.operator.manifests.values import DEFAULTS, parse, plain

from .support import CHART, KUBERNETES, ROOT, Document, Run, by_name, committed, load_all

KEPT = {"helm.sh/resource-policy": "keep"}
EVERYTHING: Document = {
    "name": "trainer",
    "image": {
        "repository": "mirror.example:5000/traincrew/traincrew",
        "tag": "v2-rc.1",
        "digest": f"sha256:{'0123456789abcdef' * 4}",
        "pullPolicy": "Always",
    },
    "helperImage": {
        "repository": "mirror.example:5000/traincrew/helper",
        "tag": "v2",
        "digest": f"sha256:{'fedcba9876543210' * 4}",
    },
    "gitImage": {
        "repository": "mirror.example:5000/traincrew/git",
        "tag": "v3",
        "digest": f"sha256:{'0f1e2d3c4b5a6978' * 4}",
    },
    "imagePullSecrets": [{"name": "mirror"}, {"name": "other"}],
    "replicas": 3,
    "leaderElection": {
        "enabled": False,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
    },
    "watchNamespace": "team",
    "workers": 8,
    "gangScheduling": "coscheduling",
    "kinds": dict.fromkeys(OF_OTHERS, True),
    "log": {"level": "debug", "format": "json"},
    "metrics": {
        "port": 9090,
        "secure": {"enabled": True, "port": 9443},
        "serviceMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "progress": {"enabled": True, "port": 9444, "metrics": "loss,accuracy"},
    "networkPolicy": {"enabled": False, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    "priorityAndFairness": {
        "enabled": True,
        "nominalConcurrencyShares": 60,
        "lendablePercent": 50,
    },
    "resources": {
        "requests": {"cpu": "1", "memory": "256Mi"},
        "limits": {"memory": "1Gi", "cpu": "2"},
    },
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux", "numeric": "1"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
    }}},
    "podLabels": {"team": "a", "example.com/cost-center": "007"},
    "podAnnotations": {"example.com/note": 'says "yes": {{ nothing }}'},
    "crds": {"enabled": False},
    "userRoles": {"enabled": False},
}  # fmt: skip
"""Every value, each different from its default."""


def leaves(values: Document, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of what can be chosen."""
    found: list[tuple[str, ...]] = []
    for key, value in values.items():
        inner = leaves(value, (*path, key)) if isinstance(value, dict) else []
        found += inner or [(*path, key)]
    return found


def at(values: Document, path: tuple[str, ...]) -> Any:
    for part in path:
        values = values[part]
    return values


def nested(path: tuple[str, ...], value: Any) -> Document:
    for part in reversed(path):
        value = {part: value}
    found: Document = value
    return found


def one_at_a_time() -> list[Document]:
    """Each value alone, with what it needs to be allowed or to be seen."""
    found = []
    for path in leaves(plain(DEFAULTS)):
        values = nested(path, at(EVERYTHING, path))
        if path == ("leaderElection", "enabled"):
            values["replicas"] = 1
        if path[0] == "metrics" and path[1] in {"secure", "serviceMonitor", "prometheusRule"}:
            values["metrics"][path[1]]["enabled"] = True
        if path[0] in {"progress", "priorityAndFairness"}:
            values[path[0]]["enabled"] = True
        found.append(values)
    return found


def rendered(helm: Run, values: Document, directory: Path) -> list[Document]:
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    result = helm(
        "template", "a-release", str(CHART), "--kube-version", KUBERNETES,
        "--namespace", "chainer-operator", "--values", str(file),
    )  # fmt: skip
    return load_all(result.stdout)


def expected(documents: list[Document]) -> dict[tuple[str, str, str], Document]:
    """What a chart leaves to others, and what it adds.

    The namespace is Helm's own business (``--create-namespace``), and it is told to keep the
    definitions, because with them all jobs would go.
    """
    found = by_name(documents)
    del found["Namespace", "", "chainer-operator"]
    for (kind, _, _), document in found.items():
        if kind == "CustomResourceDefinition":
            document["metadata"]["annotations"] = KEPT
    return found


def test_lint_finds_nothing(helm: Run) -> None:
    said = helm("lint", "--strict", "--kube-version", KUBERNETES, str(CHART)).stdout

    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_with_its_defaults_it_is_deploy(helm: Run, tmp_path: Path) -> None:
    assert by_name(rendered(helm, {}, tmp_path)) == expected(committed())


@pytest.mark.parametrize("page", ["docs/guides/install.md", "charts/traincrew/README.md"])
def test_the_first_example_is_for_one_namespace(helm: Run, page: str) -> None:
    text = (ROOT / page).read_text().replace("\\\n", " ")
    command = next(line for line in text.splitlines() if line.startswith("helm install "))
    words = shlex.split(command.removeprefix("helm install "))
    words.remove("--create-namespace")
    rendered = helm("template", "--kube-version", KUBERNETES, *words).stdout
    found = by_name(load_all(rendered))

    own = "chainer-operator"
    roles = {key for key in found if "Role" in key[0] and "job-" not in key[2]}
    roles -= {key for key in roles if key[2].startswith(f"{own}-mpicluster-")}
    # What queues refer to is in no namespace.
    everywhere = {(kind, "", f"{own}-queues") for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert roles - everywhere == {
        (kind, "research", name)
        for kind in ("Role", "RoleBinding")
        for name in (own, f"{own}-leader-election")
    }
    assert roles >= everywhere
    (container,) = found["Deployment", own, own]["spec"]["template"]["spec"]["containers"]
    assert "--namespace=research" in container["args"]


@pytest.mark.parametrize("values", one_at_a_time(), ids=lambda values: ".".join(leaves(values)[0]))
def test_each_value_has_the_same_effect_in_the_chart(
    helm: Run, values: Document, tmp_path: Path
) -> None:
    ours = [found for contents in documents(parse(values)).values() for found in contents]
    theirs = by_name(rendered(helm, values, tmp_path))

    assert theirs == expected(ours)
    assert theirs != expected(committed()), "a value that changes nothing"


def test_all_values_at_once(helm: Run, tmp_path: Path) -> None:
    values = EVERYTHING | {"leaderElection": {"enabled": True}}
    ours = [found for contents in documents(parse(values)).values() for found in contents]

    assert by_name(rendered(helm, values, tmp_path)) == expected(ours)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("replicas=many", "at '/replicas': got string, want integer"),
        ("replicas=99", "at '/replicas': maximum: got 99, want 10"),
        ("replica=3", "additional properties 'replica' not allowed"),
        ("image.tagg=x", "at '/image': additional properties 'tagg' not allowed"),
        ("log.level=loud", "at '/log/level': value must be one of"),
        ("watchNamespace=A_b", "at '/watchNamespace': 'A_b' does not match pattern"),
        ("leaderElection.enabled=false", "set leaderElection.enabled to true, or replicas to 1"),
        ("podLabels.app=mine", "podLabels: the Deployment finds its pods by the label app"),
    ],
)
def test_a_mistake_is_named(helm: Run, setting: str, said: str) -> None:
    result = helm(
        "template", "x", str(CHART), "--kube-version", KUBERNETES, "--set", setting, code=1
    )

    assert said in result.stderr


def test_it_can_be_a_subchart(helm: Run, tmp_path: Path) -> None:
    """Charts hand ``global`` to those they are made of."""
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: platform\nversion: 0.0.1\n")
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "traincrew").symlink_to(CHART)
    (tmp_path / "values.yaml").write_text("global: {region: x}\ntraincrew: {replicas: 1}\n")
    out = helm("template", "x", str(tmp_path), "--kube-version", KUBERNETES).stdout
    (deployment,) = [found for found in load_all(out) if found["kind"] == "Deployment"]

    assert deployment["spec"]["replicas"] == 1


def test_an_old_cluster_is_refused(helm: Run) -> None:
    result = helm("template", "x", str(CHART), "--kube-version", "1.29.0", code=1)

    assert "chart requires kubeVersion: >=1.30" in result.stderr


def test_it_can_be_packaged(helm: Run, tmp_path: Path) -> None:
    out = helm("package", str(CHART), "--destination", str(tmp_path)).stdout
    (package,) = tmp_path.iterdir()

    assert str(package) in out
    # A Secret has room for 1 MiB of a release, compressed.
    assert package.stat().st_size < 200_000
