"""`kubectl apply -k config/default` installs what `kubectl apply -f deploy/` does."""

from pathlib import Path

from .support import KUBERNETES, ROOT, Run, by_name, committed, load_all


def test_default_is_deploy(kubectl: Run) -> None:
    built = load_all(kubectl("kustomize", "config/default").stdout)

    assert by_name(built) == by_name(committed())


def test_the_monitor_watches_the_service(kubectl: Run) -> None:
    found = load_all(kubectl("kustomize", "config/prometheus").stdout)
    rule, monitor = sorted(found, key=lambda each: str(each["kind"]))
    assert (monitor["kind"], rule["kind"]) == ("ServiceMonitor", "PrometheusRule")
    service = by_name(committed())["Service", "chainer-operator", "chainer-operator-metrics"]

    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]


def test_the_policy_is_about_the_operator(kubectl: Run) -> None:
    policy, binding = load_all(kubectl("kustomize", "config/policy").stdout)
    (condition,) = policy["spec"]["matchConditions"]
    account = by_name(committed())["ServiceAccount", "chainer-operator", "chainer-operator"]

    namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
    user = f"system:serviceaccount:{namespace}:{name}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_an_overlay_sets_namespace_image_and_replicas(kubectl: Run, tmp_path: Path) -> None:
    """A typical use of a kustomize base: refer to it, and change a few fields."""
    base = Path("/".join([".."] * len(tmp_path.parts[1:]))) / ROOT.relative_to("/")
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{base}/config/default]\n"
        "namespace: ops\n"
        "images: [{name: traincrew/traincrew, newName: mirror/crew, newTag: '9'}]\n"
        "replicas: [{name: chainer-operator, count: 3}]\n"
    )
    found = by_name(load_all(kubectl("kustomize", str(tmp_path)).stdout))
    deployment = found["Deployment", "ops", "chainer-operator"]["spec"]

    assert deployment["replicas"] == 3
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["image"] == "mirror/crew:9"
    (subject,) = found["ClusterRoleBinding", "", "chainer-operator"]["subjects"]
    assert subject["namespace"] == "ops"
    assert ("Namespace", "", "ops") in found


def test_under_the_names_of_torchelastic(kubectl: Run) -> None:
    """The names that scripts for pytorch/elastic use; the rest is as in config/default."""
    found = by_name(load_all(kubectl("kustomize", "config/elastic-job").stdout))
    name, namespace = "elastic-job-k8s-controller", "elastic-job"
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}

    assert set(found) == {
        ("CustomResourceDefinition", "", "chainerjobs.kubeflow.org"),
        ("CustomResourceDefinition", "", "elasticjobs.elastic.pytorch.org"),
        ("CustomResourceDefinition", "", "mpiclusters.traincrew.dev"),
        ("CustomResourceDefinition", "", "mxjobs.mlkube.io"),
        ("CustomResourceDefinition", "", "mxjobs.mxnet.mlkube.io"),
        ("Namespace", "", namespace),
        ("ServiceAccount", namespace, name),
        ("ClusterRole", "", f"{name}-role"),
        ("ClusterRoleBinding", "", f"{name}-rolebinding"),
        ("Role", namespace, "leader-election-role"),
        ("RoleBinding", namespace, "leader-election-rolebinding"),
        ("ClusterRole", "", "chainerjob-editor-role"),
        ("ClusterRole", "", "chainerjob-viewer-role"),
        ("ClusterRole", "", "elasticjob-editor-role"),
        ("ClusterRole", "", "elasticjob-viewer-role"),
        ("ClusterRole", "", "mpicluster-editor-role"),
        ("ClusterRole", "", "mpicluster-viewer-role"),
        ("ClusterRole", "", "mxjob-editor-role"),
        ("ClusterRole", "", "mxjob-viewer-role"),
        ("Deployment", namespace, name),
        ("NetworkPolicy", namespace, name),
        ("PodDisruptionBudget", namespace, name),
        ("Service", namespace, f"{name}-metrics"),
    }
    for kind, where, role in (
        ("ClusterRoleBinding", "", f"{name}-role"),
        ("RoleBinding", namespace, "leader-election-role"),
    ):
        binding = found[kind, where, f"{role}binding"]
        assert binding["roleRef"]["name"] == role
        assert binding["subjects"] == [account]
    labels = {"app": "torch-elastic"}
    deployment = found["Deployment", namespace, name]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["template"]["metadata"]["labels"] == labels
    assert deployment["selector"]["matchLabels"] == labels
    assert [each["labelSelector"]["matchLabels"] for each in pod["topologySpreadConstraints"]] == [
        labels,
        labels,
    ]
    assert found["Service", namespace, f"{name}-metrics"]["spec"]["selector"] == labels
    policy = found["NetworkPolicy", namespace, name]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    budget = found["PodDisruptionBudget", namespace, name]["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert pod["serviceAccountName"] == name
    assert pod["containers"][0]["name"] == "manager"


def test_only_the_names_differ(kubectl: Run) -> None:
    found = by_name(load_all(kubectl("kustomize", "config/elastic-job").stdout))
    usual = by_name(committed())
    name, ours = "elastic-job-k8s-controller", "chainer-operator"

    for theirs, own in (
        (("ClusterRole", "", f"{name}-role"), ("ClusterRole", "", ours)),
        (
            ("Role", "elastic-job", "leader-election-role"),
            ("Role", ours, f"{ours}-leader-election"),
        ),
        (
            ("ClusterRole", "", "elasticjob-editor-role"),
            ("ClusterRole", "", f"{ours}-elasticjob-editor"),
        ),
    ):
        assert found[theirs]["rules"] == usual[own]["rules"]
    level = "pod-security.kubernetes.io/enforce"
    assert found["Namespace", "", "elastic-job"]["metadata"]["labels"][level] == "restricted"
    (container,) = found["Deployment", "elastic-job", name]["spec"]["template"]["spec"][
        "containers"
    ]
    (its,) = usual["Deployment", ours, ours]["spec"]["template"]["spec"]["containers"]
    assert {**container, "name": ours} == its


def test_under_the_names_of_mxnet_operator(kubectl: Run) -> None:
    """In the namespace `default`, which is neither created nor restricted nor deleted by it."""
    found = by_name(load_all(kubectl("kustomize", "config/mx-job-operator").stdout))
    name, namespace = "mx-job-operator", "default"
    labels = {"app": name, "name": name}

    assert {kind for kind, _, _ in found} == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
    assert {where for _, where, _ in found} == {"", namespace}
    for key in (
        ("ServiceAccount", namespace, name),
        ("ClusterRole", "", name),
        ("ClusterRoleBinding", "", name),
        ("Role", namespace, f"{name}-leader-election"),
        ("RoleBinding", namespace, f"{name}-leader-election"),
        ("ClusterRole", "", f"{name}-mxjob-editor"),
        ("NetworkPolicy", namespace, name),
        ("PodDisruptionBudget", namespace, name),
        ("Service", namespace, f"{name}-metrics"),
        ("ConfigMap", namespace, "mx-job-operator-config"),
    ):
        assert key in found
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    assert found["ClusterRoleBinding", "", name]["subjects"] == [account]
    deployment = found["Deployment", namespace, name]["spec"]
    assert deployment["selector"]["matchLabels"] == labels
    assert deployment["template"]["metadata"]["labels"] == labels
    assert found["Service", namespace, f"{name}-metrics"]["spec"]["selector"] == labels


def test_the_chart_of_mxnet_operator_has_the_same_pod(kubectl: Run, helm: Run) -> None:
    found = by_name(load_all(kubectl("kustomize", "config/mx-job-operator").stdout))
    chart = "charts/mx-job-operator-chart"
    rendered = helm("template", "x", chart, "--kube-version", KUBERNETES).stdout
    (theirs,) = [each for each in load_all(rendered) if each["kind"] == "Deployment"]
    ours = found["Deployment", "default", "mx-job-operator"]
    pods = [each["spec"]["template"]["spec"] for each in (ours, theirs)]
    for pod in pods:
        # Kustomize adds the label `name` to every selector.
        for constraint in pod["topologySpreadConstraints"]:
            constraint["labelSelector"]["matchLabels"].pop("name", None)

    assert pods[0] == pods[1]
