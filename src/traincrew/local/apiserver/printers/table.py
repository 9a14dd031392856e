"""Tables as ``kubectl get`` prints them: column definitions and cells.

Columns with priority 1 are shown with ``-o wide`` only. Columns and formats: upstream's
``pkg/printers/internalversion/printers.go`` and apiextensions' ``tableconvertor.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from traincrew.local.apiserver.values.documents import Document
from traincrew.local.apiserver.values.durations import age
from traincrew.local.apiserver.values.jsonpath import compile_path, text

from . import others as printers
from . import workloads as printers_workloads

__all__ = ["columns", "row"]

_Row = Callable[[Document, float], list[Any]]

# Column names in kubectl's order; "*" marks wide columns, ":integer" etc. gives the type.
_WORKLOAD = "Containers* Images* Selector*"
_TABLES: dict[tuple[str, str], tuple[str, _Row]] = {
    ("", "ConfigMap"): ("Name Data Age", printers.config_map),
    ("", "Endpoints"): ("Name Endpoints Age", printers.endpoints),
    ("", "Event"): (
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*",
        printers.event,
    ),
    ("", "Namespace"): ("Name Status Age", printers.namespace),
    ("", "Node"): (
        (
            "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version*"
            " Container-Runtime*"
        ),
        printers.node,
    ),
    ("", "PersistentVolume"): (
        (
            "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass"
            " VolumeAttributesClass Reason Age VolumeMode*"
        ),
        printers.persistent_volume,
    ),
    ("", "PersistentVolumeClaim"): (
        (
            "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age"
            " VolumeMode*"
        ),
        printers.persistent_volume_claim,
    ),
    ("", "Pod"): (
        "Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*",
        printers_workloads.pod,
    ),
    ("", "PodTemplate"): ("Name Containers Images Pod_Labels", printers_workloads.pod_template),
    ("", "ReplicationController"): (
        f"Name Desired:integer Current:integer Ready:integer Age {_WORKLOAD}",
        printers_workloads.replica_set,
    ),
    ("", "ResourceQuota"): ("Name Request Limit Age", printers.resource_quota),
    ("", "Secret"): ("Name Type Data Age", printers.secret),
    ("", "Service"): ("Name Type Cluster-IP External-IP Port(s) Age Selector*", printers.service),
    ("", "ServiceAccount"): ("Name Age", printers.name_and_age),
    ("apps", "ControllerRevision"): (
        "Name Controller Revision Age",
        printers_workloads.controller_revision,
    ),
    ("apps", "DaemonSet"): (
        (
            "Name Desired:integer Current:integer Ready:integer Up-to-date:integer"
            f" Available:integer Node_Selector Age {_WORKLOAD}"
        ),
        printers_workloads.daemon_set,
    ),
    ("apps", "Deployment"): (
        f"Name Ready Up-to-date Available Age {_WORKLOAD}",
        printers_workloads.deployment,
    ),
    ("apps", "ReplicaSet"): (
        f"Name Desired:integer Current:integer Ready:integer Age {_WORKLOAD}",
        printers_workloads.replica_set,
    ),
    ("apps", "StatefulSet"): (
        "Name Ready Age Containers* Images*",
        printers_workloads.stateful_set,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        "Name Reference Targets MinPods MaxPods Replicas Age",
        printers_workloads.autoscaler,
    ),
    ("batch", "CronJob"): (
        "Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age " + _WORKLOAD,
        printers_workloads.cron_job,
    ),
    ("batch", "Job"): (f"Name Status Completions Duration Age {_WORKLOAD}", printers_workloads.job),
    ("coordination.k8s.io", "Lease"): ("Name Holder Age", printers.lease),
    ("discovery.k8s.io", "EndpointSlice"): (
        "Name AddressType Ports Endpoints Age",
        printers.endpoint_slice,
    ),
    ("networking.k8s.io", "Ingress"): ("Name Class Hosts Address Ports Age", printers.ingress),
    ("networking.k8s.io", "IngressClass"): (
        "Name Controller Parameters Age",
        printers.ingress_class,
    ),
    ("networking.k8s.io", "NetworkPolicy"): ("Name Pod-Selector Age", printers.network_policy),
    ("policy", "PodDisruptionBudget"): (
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
        printers_workloads.disruption_budget,
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (
        "Name Role Age Users* Groups* ServiceAccounts*",
        printers.role_binding,
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): (
        "Name Role Age Users* Groups* ServiceAccounts*",
        printers.role_binding,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        "Name Value:integer Global-Default:boolean Age PreemptionPolicy",
        printers.priority_class,
    ),
    ("storage.k8s.io", "StorageClass"): (
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
        printers.storage_class,
    ),
}
_TABLES["events.k8s.io", "Event"] = _TABLES["", "Event"]
# Kinds without a printer of their own: Role, ClusterRole, CustomResourceDefinition, LimitRange …
_OTHERS = ("Name Created_At:date", printers.name_and_creation)

_AGE_COLUMN = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _definition(name: str, kind: str, priority: int, description: str = "") -> Document:
    return {
        "name": name,
        "type": kind,
        "format": "name" if name == "Name" else "",
        "description": description,
        "priority": priority,
    }


@cache
def _builtin_columns(group: str, kind: str) -> list[Document]:
    names, _ = _TABLES.get((group, kind), _OTHERS)
    result = []
    for word in names.split():
        name, _, column_type = word.rstrip("*").partition(":")
        wide = int(word.endswith("*"))
        result.append(_definition(name.replace("_", " "), column_type or "string", wide))
    return result


def columns(group: str, kind: str, crd_columns: list[Document] | None = None) -> list[Document]:
    """Return the column definitions of a kind.

    Args:
        group: API group, empty for the core group.
        kind: of the objects.
        crd_columns: ``additionalPrinterColumns`` of a custom resource's version, empty when it has
            none; None for a built-in kind.
    """
    if crd_columns is None:
        return _builtin_columns(group, kind)
    result = [_definition("Name", "string", 0)]
    for column in crd_columns or [_AGE_COLUMN]:
        entry = _definition(
            column["name"],
            column["type"],
            column.get("priority", 0),
            column.get("description", ""),
        )
        entry["format"] = column.get("format", "")
        result.append(entry)
    return result


def row(
    group: str, kind: str, obj: Document, now: float, crd_columns: list[Document] | None = None
) -> list[Any]:
    """Return the cells of one object, one per column.

    Args:
        group: API group, empty for the core group.
        kind: of the object.
        obj: the object.
        now: seconds since the epoch, for ages.
        crd_columns: as for ``columns``.
    """
    if crd_columns is None:
        _, function = _TABLES.get((group, kind), _OTHERS)
        return function(obj, now)
    cells: list[Any] = [obj["metadata"]["name"]]
    for column in crd_columns or [_AGE_COLUMN]:
        value = compile_path(column["jsonPath"]).first(obj)
        cells.append(_cell(column["type"], value, now))
    return cells


def _cell(kind: str, value: Any, now: float) -> Any:
    """Convert a value to the type of its column; null when it has another type."""
    if value is None:
        return None
    if kind == "string":
        return text(value)
    number = type(value) is int or type(value) is float
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return float(value) if number else None
    if kind == "boolean":
        return value if type(value) is bool else None
    if kind == "date" and type(value) is str:
        shown = age(value, now)
        return "<invalid>" if shown == "<unknown>" else shown
    return None
