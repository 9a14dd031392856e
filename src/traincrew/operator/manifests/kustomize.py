"""``kubectl apply -k config/default``, in the directories users of kubebuilder expect.

``kubectl apply -k config/elastic-job`` is the same under the names of TorchElastic's controller.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.api.crd import KINDS, definition
from traincrew.operator.manifests import rbac, workload
from traincrew.operator.manifests.yamltext import dump, dump_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.operator.manifests.template import Filling


ELASTIC_NAMESPACE = "elastic-job"
ELASTIC_NAME = "elastic-job-k8s-controller"
ELASTIC_LABELS = {"app": "torch-elastic"}
"""As pytorch/elastic installed its controller (``kubernetes/config/default``)."""


def files(filling: Filling) -> dict[str, str]:
    """The files by path.

    ``default`` is made up of all but ``prometheus``, which is an extra, and ``elastic-job``, which
    is ``default`` under other names.
    """
    image = filling.values["image"]

    def filled(*nodes: Any) -> str:
        return dump_all(filling.fill(list(nodes)))

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
            },
            # For `kustomize edit set image`.
            images=[{"name": image["repository"], "newTag": image["tag"] or filling.version}],
        ),
        **_directory("prometheus", {"monitor.yaml": filled(workload.service_monitor().node)}),
        **_directory(
            "default",
            {},
            namespace=filling.namespace,
            resources=["../crd", "../rbac", "../manager"],
        ),
        **_directory(
            "elastic-job",
            {},
            namespace=ELASTIC_NAMESPACE,
            resources=["../default"],
            labels=[{"pairs": ELASTIC_LABELS, "includeSelectors": True}],
            patches=list(_elastic_names(filling.values["name"])),
        ),
    }


def _elastic_names(name: str) -> Iterator[dict[str, Any]]:
    """Patches that rename; kustomize changes the references to match."""
    renamed = [
        ("Deployment", name, ELASTIC_NAME),
        ("ServiceAccount", name, ELASTIC_NAME),
        ("PodDisruptionBudget", name, ELASTIC_NAME),
        ("Service", f"{name}-metrics", f"{ELASTIC_NAME}-metrics"),
        ("(Cluster)?Role", name, f"{ELASTIC_NAME}-role"),
        ("(Cluster)?RoleBinding", name, f"{ELASTIC_NAME}-rolebinding"),
        ("Role", f"{name}-leader-election", "leader-election-role"),
        ("RoleBinding", f"{name}-leader-election", "leader-election-rolebinding"),
        *(
            ("ClusterRole", f"{name}-{kind}-{who}", f"{kind}-{who}-role")
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
        "patch": _replacing("/spec/template/spec/containers/0/name", "manager"),
    }


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
