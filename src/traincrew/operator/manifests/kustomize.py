"""The kustomize directories, laid out as kubebuilder does: ``kubectl apply -k config/default``.

Beside ``default`` there is a directory for each predecessor of the operator, which installs the
same under the names of that controller.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.api.crd import definition
from traincrew.api.kinds import KINDS
from traincrew.operator.manifests import monitoring, mxnet, policy, rbac, workload
from traincrew.operator.manifests.template import Filling
from traincrew.operator.manifests.yamltext import dump, dump_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.api.kind import Predecessor


def files(filling: Filling) -> dict[str, str]:
    """Return the files by path.

    ``default`` contains all but the optional ``prometheus`` and ``policy``, and the directories
    that rename ``default``.
    """
    if filling.values["progress"]["enabled"]:  # a renamed Service would not be found
        raise ValueError("progress.enabled: use the plain manifests or the chart for it")
    image = filling.values["image"]

    def filled(*nodes: Any) -> str:
        return dump_all(filling.fill(list(nodes)))

    network_policy = filled(workload.network_policy())
    metrics_roles = filled(*rbac.metrics_roles())
    return {
        **_directory(
            "crd",
            {f"bases/{kind.group}_{kind.plural}.yaml": dump(definition(kind)) for kind in KINDS},
        ),
        **_directory(
            "rbac",
            {
                "service_account.yaml": filled(rbac.service_account()),
                "role.yaml": filled(*rbac.operator_role()),
                "role_binding.yaml": filled(*rbac.operator_binding()),
                "leader_election_role.yaml": filled(rbac.lease_role()),
                "leader_election_role_binding.yaml": filled(rbac.lease_binding()),
                **({"metrics_roles.yaml": metrics_roles} if metrics_roles.strip() else {}),
                **{
                    f"{kind}_{who}_role.yaml": filled(role)
                    for (kind, who), role in rbac.user_roles().items()
                },
            },
        ),
        **_directory(
            "manager",
            {
                "namespace.yaml": filled(workload.namespace()),
                "manager.yaml": filled(workload.deployment()),
                "disruption_budget.yaml": filled(workload.disruption_budget()),
                "metrics_service.yaml": filled(workload.service()),
                **({"network_policy.yaml": network_policy} if network_policy.strip() else {}),
            },
            # For `kustomize edit set image`.
            images=[{"name": image["repository"], "newTag": image["tag"] or filling.version}],
        ),
        **_directory(
            "prometheus",
            {
                "monitor.yaml": filled(workload.service_monitor().node),
                "rules.yaml": filled(workload.prometheus_rule().node),
            },
        ),
        **_directory("policy", {"operator.yaml": filled(*policy.operator_policy())}),
        # For a Prometheus and a Grafana that no operator configures.
        "prometheus/alerts/traincrew.yaml": dump(monitoring.rule_groups()),
        "grafana/dashboard.json": json.dumps(monitoring.dashboard(), indent=2) + "\n",
        **_directory(
            "default",
            {},
            namespace=filling.namespace,
            resources=["../crd", "../rbac", "../manager"],
        ),
        **{
            path: text
            for kind in KINDS
            if kind.predecessor is not None
            for path, text in _renamed(kind.predecessor, filling).items()
        },
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
    directory = predecessor.name if predecessor.namespace == "default" else predecessor.namespace
    return _directory(
        directory,
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


def _directory(name: str, files: Mapping[str, str], **more: Any) -> dict[str, str]:
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
        **more,
    }
    return {
        f"{name}/kustomization.yaml": dump(kustomization),
        **{f"{name}/{path}": text for path, text in files.items()},
    }
