"""A kustomize directory for each predecessor: ``default`` under the names of that controller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.operator.manifests import rbac
from traincrew.operator.manifests.kustomize import directory
from traincrew.operator.manifests.template import Filling
from traincrew.operator.manifests.yamltext import dump
from traincrew.predecessors import mxnet

if TYPE_CHECKING:
    from collections.abc import Iterator


class Predecessor(Struct, kw_only=True, frozen=True):
    """How the controller that this operator replaces was installed.

    The operator can be installed under its names, for scripts and dashboards that rely on them.

    Attributes:
        namespace: Its namespace.
        name: Name of its Deployment and its service account; other names begin with it.
        labels: Labels of all its objects.
        kubebuilder: Whether other names are those that kubebuilder gives: ``manager`` for the
            container, ``leader-election-role``, ``<name>-role``.
    """

    namespace: str
    name: str
    labels: dict[str, str]
    kubebuilder: bool = False


PREDECESSORS = (
    Predecessor(
        namespace="elastic-job",
        name="elastic-job-k8s-controller",
        labels={"app": "torch-elastic"},
        kubebuilder=True,
    ),
    Predecessor(namespace="default", name=mxnet.NAME, labels={"name": mxnet.NAME}),
)
"""Those whose names are still in use, but for chainer-operator: the operator has its names."""


def files(filling: Filling) -> dict[str, str]:
    """Return the files by path, beside those of ``default``."""
    return {
        path: text
        for predecessor in PREDECESSORS
        for path, text in _renamed(predecessor, filling).items()
    }


def _renamed(predecessor: Predecessor, filling: Filling) -> dict[str, str]:
    """Return the directory that installs ``default`` under the names of a predecessor."""
    patches = list(_renaming(predecessor, filling.values["name"]))
    files: dict[str, str] = {}
    if predecessor.namespace == "default":
        # It exists, and other pods than the operator's run in it.
        patches.append(_without_namespace(filling.namespace))
    if predecessor.name == mxnet.NAME:
        there = Filling(filling.values, predecessor.namespace, filling.version)
        files["config_map.yaml"] = dump(there.fill(mxnet.config_map()))
        patches.append(
            {
                "target": {"kind": "Deployment", "name": filling.values["name"]},
                "patch": json.dumps(list(mxnet.patches())),
            }
        )
    path = predecessor.name if predecessor.namespace == "default" else predecessor.namespace
    return directory(
        path,
        files,
        namespace=predecessor.namespace,
        resources=["../default", *files],
        # The label `app`, by which the objects find each other, has the predecessor's name, too.
        labels=[
            {"pairs": {"app": predecessor.name, **predecessor.labels}, "includeSelectors": True}
        ],
        patches=patches,
    )


def _renaming(predecessor: Predecessor, name: str) -> Iterator[dict[str, Any]]:
    """Yield patches that rename objects; kustomize updates the references."""
    other = predecessor.name
    role, binding = ("-role", "-rolebinding") if predecessor.kubebuilder else ("", "")
    election = "leader-election" if predecessor.kubebuilder else f"{other}-leader-election"
    renamed = [
        ("Deployment", name, other),
        ("ServiceAccount", name, other),
        ("PodDisruptionBudget", name, other),
        ("NetworkPolicy", name, other),
        ("Service", f"{name}-metrics", f"{other}-metrics"),
        ("(Cluster)?Role", name, f"{other}{role}"),
        ("(Cluster)?RoleBinding", name, f"{other}{binding}"),
        ("Role", f"{name}-leader-election", f"{election}{role}"),
        ("RoleBinding", f"{name}-leader-election", f"{election}{binding}"),
        *(
            (
                "ClusterRole",
                f"{name}-{kind}-{who}",
                f"{kind}-{who}-role" if predecessor.kubebuilder else f"{other}-{kind}-{who}",
            )
            for kind, who in rbac.user_roles()
        ),
    ]
    for kind, old, new in renamed:
        yield {
            "target": {"kind": kind, "name": old},
            "patch": _replacing("/metadata/name", new),
        }
    yield {
        "target": {"kind": "Deployment", "name": name},
        "patch": _replacing(
            "/spec/template/spec/containers/0/name",
            "manager" if predecessor.kubebuilder else other,
        ),
    }


def _without_namespace(name: str) -> dict[str, Any]:
    deleted = {
        "$patch": "delete",
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
    }
    return {"target": {"kind": "Namespace", "name": name}, "patch": json.dumps(deleted)}


def _replacing(path: str, value: str) -> str:
    return json.dumps([{"op": "replace", "path": path, "value": value}])
