"""What is installed on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from traincrew.api.kinds import DEFINITIONS, FOLDERS
from traincrew.api.kinds.mpicluster import valuespage
from traincrew.api.reference import page
from traincrew.operator.manifests import documents, write
from traincrew.operator.manifests.rbac import lease_rules, operator_rules
from traincrew.operator.manifests.values import DEFAULTS, Values, parse
from traincrew.predecessors.manifests import CHARTS, render

if TYPE_CHECKING:
    from traincrew.api.kind import Kind
    from traincrew.operator.manifests import Format

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("layout", "directory"),
    [
        ("plain", "deploy"),
        ("kustomize", "config"),
        *(("helm", f"charts/{chart}") for chart in CHARTS),
    ],
)
def test_the_committed_manifests_are_up_to_date(layout: Format, directory: str) -> None:
    """If this fails: ``make manifests``."""
    found = {
        str(path.relative_to(ROOT / directory)): path.read_text()
        for path in (ROOT / directory).rglob("*")
        if path.is_file()
    }

    chart = Path(directory).name if layout == "helm" else "traincrew"
    assert found == render(layout=layout, chart_name=chart)


def test_the_definitions_are_in_the_repository_once() -> None:
    """kubectl and Helm follow links to files, but kustomize does not follow one out of its root."""
    generated = [path for top in ("config", "deploy", "charts") for path in (ROOT / top).rglob("*")]
    copies = {
        str(path.relative_to(ROOT)): str(path.readlink()) if path.is_symlink() else ""
        for path in generated
        if path.is_file() and path.read_text().count("\nkind: CustomResourceDefinition\n") > 1
    }

    assert copies == {
        "config/crd/definitions.yaml": "",
        "deploy/0-crd.yaml": "../config/crd/definitions.yaml",
        "charts/traincrew/definitions.yaml": "../../config/crd/definitions.yaml",
        "charts/mx-job-operator-chart/definitions.yaml": "../../config/crd/definitions.yaml",
    }
    # What the charts add their annotation to.
    text = (ROOT / "config/crd/definitions.yaml").read_text()
    assert text.count("\nmetadata:\n") == text.count("\nkind: CustomResourceDefinition\n")


@pytest.mark.parametrize(("folder", "kind"), [*zip(FOLDERS, DEFINITIONS, strict=True)])
def test_the_reference_pages_are_up_to_date(folder: str, kind: Kind) -> None:
    """If this fails: ``python hack/reference.py``."""
    path = ROOT / "docs" / "reference" / f"{folder}.md"

    assert path.read_text() == page(kind)


def test_the_page_of_values_is_up_to_date() -> None:
    """If this fails: ``python hack/reference.py``."""
    path = ROOT / "docs" / "reference" / valuespage.FILE

    assert path.read_text() == valuespage.page()


def test_files_are_in_the_order_of_creation(tmp_path: Path) -> None:
    paths = write(tmp_path / "new", render())

    assert [path.name for path in paths] == [
        "0-crd.yaml",
        "1-namespace.yaml",
        "2-rbac.yaml",
        "3-chainer-operator.yaml",
    ]
    for path in paths:
        # The parser in C: the schema of a pod template is large.
        found = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
        assert found == documents()[path.name]
        # What `kubectl apply` stores in an annotation.
        assert all(len(json.dumps(document)) < 256 * 1024 for document in found)


def installed(**values: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The objects of an installation, by kind, namespace and name."""
    return {
        (
            document["kind"],
            document["metadata"].get("namespace", ""),
            document["metadata"]["name"],
        ): document
        for contents in documents(parse(values)).values()
        for document in contents
    }


def the_pod(**values: Any) -> dict[str, Any]:
    found = installed(**values)["Deployment", "chainer-operator", "chainer-operator"]
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def test_object_names_are_those_of_the_chainer_operator() -> None:
    assert set(installed()) >= {
        ("CustomResourceDefinition", "", "chainerjobs.kubeflow.org"),
        ("CustomResourceDefinition", "", "elasticjobs.elastic.pytorch.org"),
        ("Namespace", "", "chainer-operator"),
        ("ClusterRole", "", "chainer-operator"),
        ("ServiceAccount", "chainer-operator", "chainer-operator"),
        ("ClusterRoleBinding", "", "chainer-operator"),
        ("Deployment", "chainer-operator", "chainer-operator"),
    }


def test_nothing_is_allowed_by_wildcard() -> None:
    for rule in [*operator_rules(), *lease_rules()]:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        if "secrets" in rule["resources"]:  # never listed, so never cached
            assert rule["verbs"] == ["get", "create", "patch"]  # patch: to rotate the keys


def test_the_operator_runs_restricted() -> None:
    namespace = installed()["Namespace", "", "chainer-operator"]
    pod = the_pod()
    (container,) = pod["containers"]

    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["args"][0] == "operator"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def policy(**values: Any) -> dict[str, Any] | None:
    found = installed(**values)
    return found.get(("NetworkPolicy", "chainer-operator", "chainer-operator"))


def test_only_prometheus_reaches_the_port_of_the_operator() -> None:
    found, (container,) = policy(), the_pod()["containers"]
    assert found is not None
    assert found["apiVersion"] == "networking.k8s.io/v1"
    deployment = installed()["Deployment", "chainer-operator", "chainer-operator"]["spec"]
    spec = found["spec"]
    assert spec["podSelector"] == deployment["selector"]
    # Only what comes in is restricted: the operator needs the API server, whose address nobody
    # knows here. Probes come from the pod's own node, which is always allowed.
    assert spec["policyTypes"] == ["Ingress"]
    (port,) = container["ports"]
    monitoring = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    assert spec["ingress"] == [
        {"from": [monitoring], "ports": [{"protocol": "TCP", "port": port["name"]}]}
    ]


def test_who_reaches_the_port_of_the_operator_can_be_chosen() -> None:
    peers = [{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"podSelector": {"matchLabels": {"a": "b"}}}]
    found = policy(networkPolicy={"from": peers})
    assert found is not None
    assert found["spec"]["ingress"][0]["from"] == peers
    # An empty list of peers in a rule would be everybody.
    nobody = policy(networkPolicy={"from": []})
    assert nobody is not None
    assert nobody["spec"]["ingress"] == []
    assert policy(networkPolicy={"enabled": False}) is None


def test_secure_metrics_have_a_port_and_permissions_of_their_own() -> None:
    roles = {
        ("ClusterRole", "", "chainer-operator-metrics-auth"),
        ("ClusterRoleBinding", "", "chainer-operator-metrics-auth"),
        ("ClusterRole", "", "chainer-operator-metrics-reader"),
    }
    assert not roles & set(installed())
    # Also for one namespace: reviews have none.
    for watched in ("", "team"):
        values = {
            "watchNamespace": watched,
            "metrics": {"secure": {"enabled": True}, "serviceMonitor": {"enabled": True}},
        }
        found = installed(**values)
        assert roles <= set(found)
        (container,) = the_pod(**values)["containers"]
        assert "--metrics-secure-address=$(POD_IP):8443" in container["args"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"metrics": 8080, "metrics-secure": 8443}
        assert container["livenessProbe"]["httpGet"]["port"] == "metrics"
        name = "chainer-operator"
        (port,) = found["Service", name, f"{name}-metrics"]["spec"]["ports"]
        assert port == {"name": "metrics-secure", "port": 8443, "targetPort": "metrics-secure"}
        (rule,) = found["NetworkPolicy", name, name]["spec"]["ingress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": "metrics-secure"}]
        (endpoint,) = found["ServiceMonitor", name, name]["spec"]["endpoints"]
        assert (endpoint["port"], endpoint["scheme"]) == ("metrics-secure", "https")
        files = render(parse(values), layout="kustomize")
        assert "metrics_roles.yaml" in yaml.safe_load(files["rbac/kustomization.yaml"])["resources"]


def test_every_installation_has_the_network_policy() -> None:
    assert policy() is not None
    for chart in ("traincrew", "mx-job-operator-chart"):
        template = render(layout="helm", chart_name=chart)["templates/network-policy.yaml"]
        assert "\nkind: NetworkPolicy\n" in template
    without = parse({"networkPolicy": {"enabled": False}})
    for values, there in ((DEFAULTS, True), (without, False)):
        files = render(values, layout="kustomize")
        assert ("manager/network_policy.yaml" in files) is there
        listed = yaml.safe_load(files["manager/kustomization.yaml"])["resources"]
        assert ("network_policy.yaml" in listed) is there


def test_the_arguments_are_options_of_the_operator() -> None:
    from click import Context

    from traincrew.cli.commands.operator import operator_command

    (container,) = the_pod(watchNamespace="team", replicas=1, leaderElection={"enabled": False})[
        "containers"
    ]
    command, *arguments = container["args"]
    context = Context(operator_command)
    operator_command.parse_args(context, arguments)

    assert command == "operator"
    assert context.params["namespace"] == "team"
    assert context.params["lease_namespace"] == "team"
    assert context.params["leader_elect"] is False
    assert context.params["metrics_address"] == "$(POD_IP):8080"


def test_an_operator_for_one_namespace_has_permissions_there_only() -> None:
    found = installed(watchNamespace="team")

    # What queues refer to is in no namespace.
    (bound,) = (name for kind, _, name in found if kind == "ClusterRoleBinding")
    assert bound == "chainer-operator-queues"
    rules = found["ClusterRole", "", bound]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert ("Role", "team", "chainer-operator") in found
    assert ("Role", "team", "chainer-operator-leader-election") in found
    binding = found["RoleBinding", "team", "chainer-operator"]
    assert binding["subjects"][0]["namespace"] == "chainer-operator"


@pytest.mark.parametrize("watched", ["", "team"])
def test_a_share_of_the_api_server(watched: str) -> None:
    name, kinds = "chainer-operator", {"FlowSchema", "PriorityLevelConfiguration"}
    assert not kinds & {kind for kind, _, _ in installed()}
    values = {
        "priorityAndFairness": {"enabled": True, "nominalConcurrencyShares": 50},
        "watchNamespace": watched,
    }
    found = installed(**values)
    limited = found["PriorityLevelConfiguration", "", name]["spec"]["limited"]
    assert limited["nominalConcurrencyShares"] == 50
    own, leases = (
        found["FlowSchema", "", each]["spec"] for each in (name, f"{name}-leader-election")
    )
    assert own["priorityLevelConfiguration"] == {"name": name}
    assert leases["priorityLevelConfiguration"] == {"name": "leader-election"}
    assert leases["matchingPrecedence"] < own["matchingPrecedence"] < 9000, "of service accounts"
    (rule,) = leases["rules"]
    assert rule["resourceRules"][0]["namespaces"] == [watched or name]
    for schema in (own, leases):
        (subject,) = schema["rules"][0]["subjects"]
        assert subject["serviceAccount"] == {"name": name, "namespace": name}
    files = render(parse(values), layout="kustomize")
    listed = yaml.safe_load(files["rbac/kustomization.yaml"])["resources"]
    assert "priority_and_fairness.yaml" in listed


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"tag": "2"}, "traincrew/traincrew:2"),
        ({"repository": "mirror:5000/crew", "tag": "2"}, "mirror:5000/crew:2"),
        ({"tag": "2", "digest": f"sha256:{'0' * 64}"}, f"traincrew/traincrew@sha256:{'0' * 64}"),
    ],
)
def test_images(image: dict[str, str], reference: str) -> None:
    (container,) = the_pod(image=image)["containers"]

    assert container["image"] == reference


def test_values_are_added_to_the_defaults() -> None:
    values = parse({"resources": {"limits": {"cpu": "1"}}, "podLabels": {"team": "a"}})

    assert values.resources["limits"] == {**DEFAULTS.resources["limits"], "cpu": "1"}
    assert values.resources["requests"] == DEFAULTS.resources["requests"]
    assert parse({}) == Values()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 3}, "unknown field `replica`"),
        ({"replicas": "3"}, r"Expected `int`, got `str` - at `\$.replicas`"),
        ({"replicas": 99}, r"`int` <= 10 - at `\$.replicas`"),
        ({"image": {"tagg": "x"}}, r"unknown field `tagg` - at `\$.image`"),
        ({"log": {"level": "loud"}}, r"Invalid enum value 'loud' - at `\$.log.level`"),
        ({"name": "A_b"}, r"at `\$.name`"),
        ([], "expected a mapping of values, got list"),
    ],
)
def test_bad_values_are_named(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"leaderElection": {"enabled": False}}, "set leaderElection.enabled to true"),
        ({"podLabels": {"app": "x"}}, "choose another"),
        ({"progress": {"enabled": True, "port": 8080}}, "progress.port: the metrics have this"),
    ],
)
def test_inconsistent_values_are_named(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        documents(parse(values))
