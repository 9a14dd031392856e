"""The kustomize directories, laid out as kubebuilder does: ``kubectl apply -k config/default``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.operator.manifests import crds, flowcontrol, monitoring, policy, rbac, workload
from traincrew.operator.manifests.yamltext import dump, dump_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.operator.manifests.template import Filling


def files(filling: Filling) -> dict[str, str]:
    """Return the files by path.

    ``default`` contains all but the optional ``prometheus`` and ``policy``.
    """
    # Over 60 lines: one dictionary, a line or two for each file.
    if filling.values["progress"]["enabled"]:  # a renamed Service would not be found
        raise ValueError("progress.enabled: use the plain manifests or the chart for it")
    image = filling.values["image"]

    def filled(*nodes: Any) -> str:
        return dump_all(filling.fill(list(nodes)))

    network_policy = filled(workload.network_policy())
    optional = {
        "metrics_roles.yaml": filled(*rbac.metrics_roles()),
        "other_kinds.yaml": filled(*rbac.project_roles()),
        "priority_and_fairness.yaml": filled(*flowcontrol.priority_and_fairness()),
    }
    return {
        **directory("crd", {crds.FILE: crds.text()}),
        **directory(
            "rbac",
            {
                "service_account.yaml": filled(rbac.service_account()),
                "role.yaml": filled(*rbac.operator_role()),
                "role_binding.yaml": filled(*rbac.operator_binding()),
                "leader_election_role.yaml": filled(rbac.lease_role()),
                "leader_election_role_binding.yaml": filled(rbac.lease_binding()),
                **{name: text for name, text in optional.items() if text.strip()},
                **{
                    f"{kind}_{who}_role.yaml": filled(role)
                    for (kind, who), role in rbac.user_roles().items()
                },
            },
        ),
        **directory(
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
        **directory(
            "prometheus",
            {
                "monitor.yaml": filled(workload.service_monitor().node),
                "rules.yaml": filled(workload.prometheus_rule().node),
            },
        ),
        **directory("policy", {"operator.yaml": filled(*policy.operator_policy())}),
        # For a Prometheus and a Grafana that no operator configures.
        "prometheus/alerts/traincrew.yaml": dump(monitoring.rule_groups()),
        "grafana/dashboard.json": json.dumps(monitoring.dashboard(), indent=2) + "\n",
        **directory(
            "default",
            {},
            namespace=filling.namespace,
            resources=["../crd", "../rbac", "../manager"],
        ),
    }


def directory(name: str, files: Mapping[str, str], **more: Any) -> dict[str, str]:
    """Return a directory with its kustomization, which lists its files as resources.

    Args:
        name: Its path.
        files: Texts by path within it.
        more: Other fields of the kustomization.
    """
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
