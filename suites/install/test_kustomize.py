"""`kubectl apply -k config/default` installs what `kubectl apply -f deploy/` does."""

from pathlib import Path

from .support import ROOT, Run, by_name, committed, load_all


def test_default_is_deploy(kubectl: Run) -> None:
    built = load_all(kubectl("kustomize", "config/default").stdout)

    assert by_name(built) == by_name(committed())


def test_the_monitor_watches_the_service(kubectl: Run) -> None:
    (monitor,) = load_all(kubectl("kustomize", "config/prometheus").stdout)
    service = by_name(committed())["Service", "chainer-operator", "chainer-operator-metrics"]

    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]


def test_an_overlay_chooses_namespace_image_and_replicas(kubectl: Run, tmp_path: Path) -> None:
    """What people do with a kustomize base: point at it, and change a few things."""
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
