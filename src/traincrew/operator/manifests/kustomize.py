"""``kubectl apply -k config/default``, in the directories users of kubebuilder expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.crd import KINDS, definition
from traincrew.operator.manifests import rbac, workload
from traincrew.operator.manifests.yamltext import dump, dump_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.operator.manifests.template import Filling


def files(filling: Filling) -> dict[str, str]:
    """The files by path. ``default`` is made up of all but ``prometheus``, which is an extra."""
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
    }


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
