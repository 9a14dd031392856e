"""What is installed on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from traincrew.api.crd import CHAINER_JOB
from traincrew.api.reference import page
from traincrew.operator.manifests import (
    cluster_role_rules,
    documents,
    render,
    write,
)

ROOT = Path(__file__).parents[2]


def test_deploy_is_what_the_program_writes() -> None:
    """If this fails: ``traincrew manifests --directory deploy``."""
    files = {path.name: path.read_text() for path in (ROOT / "deploy").glob("*.yaml")}

    assert files == render()


def test_the_reference_page_is_what_the_program_writes() -> None:
    """If this fails: ``python hack/reference.py``."""
    assert (ROOT / "docs" / "reference" / "chainerjob.md").read_text() == page(CHAINER_JOB)


def test_files_are_made_in_order(tmp_path: Path) -> None:
    paths = write(tmp_path / "new")

    assert [path.name for path in paths] == [
        "0-crd.yaml",
        "1-namespace.yaml",
        "2-rbac.yaml",
        "3-chainer-operator.yaml",
    ]
    for path in paths:
        # The parser in C: the schema of a pod template is large.
        assert list(yaml.load_all(path.read_text(), yaml.CSafeLoader)) == documents()[path.name]
        assert path.stat().st_size < 256 * 1024


def test_object_names_are_those_of_the_chainer_operator() -> None:
    names = {
        (document["kind"], document["metadata"]["name"], document["metadata"].get("namespace"))
        for contents in documents().values()
        for document in contents
    }

    assert names >= {
        ("CustomResourceDefinition", "chainerjobs.kubeflow.org", None),
        ("Namespace", "chainer-operator", None),
        ("ClusterRole", "chainer-operator", None),
        ("ServiceAccount", "chainer-operator", "chainer-operator"),
        ("ClusterRoleBinding", "chainer-operator", None),
        ("Deployment", "chainer-operator", "chainer-operator"),
    }


def test_nothing_is_allowed_by_wildcard() -> None:
    for rule in cluster_role_rules():
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    written = {
        resource
        for rule in cluster_role_rules()
        if {"create", "patch", "delete"} & set(rule["verbs"])
        for resource in rule["resources"]
    }
    assert "secrets" not in written
    assert "pods/exec" in written  # to be allowed to grant it


def test_the_operator_may_grant_what_it_grants() -> None:
    """RBAC refuses a Role with permissions its author does not have."""
    from plan.world import distributed
    from traincrew.api import chainerjob as api
    from traincrew.api.meta import Owner
    from traincrew.plan import chainerjob_children as children

    owner = Owner(api_version="a", kind="k", name="j", namespace="n", uid="u")
    held = {
        (group, resource, verb)
        for rule in cluster_role_rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for rule in children.role(owner, api.decode(distributed()["spec"]))["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    assert (group, resource, verb) in held


def test_the_operator_runs_restricted() -> None:
    (deployment,) = documents()["3-chainer-operator.yaml"]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

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
