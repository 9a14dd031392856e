"""Static defaults of the workload kinds: Jobs, Deployments, StatefulSets and the like.

After ``pkg/apis/{apps,batch,core}/v1/defaults.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION

from . import pod as defaults_pod
from .pod import pod_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.values.documents import Document


def _job(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = 2**31 - 1 if "backoffLimitPerIndex" in spec else 6
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    _failure_policy(spec)
    # A struct in Go, not a pointer: it is defaulted even when absent.
    pod_template(spec.setdefault("template", {}))
    labels = field(spec, "template", "metadata").get("labels")
    metadata = obj.get("metadata")
    if type(labels) is dict and labels and type(metadata) is dict and not metadata.get("labels"):
        # Upstream shares one map: labels `after_uid` adds to one of them are in the other, too.
        metadata["labels"] = labels


def _failure_policy(spec: Document) -> None:
    for rule in items(spec, "podFailurePolicy", "rules"):
        for pattern in items(rule, "onPodConditions"):
            pattern.setdefault("status", "True")


def _cron_job(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    if type(template) is dict:
        template.setdefault("metadata", {})
        inner = template.setdefault("spec", {})
        if type(inner) is dict:
            _failure_policy(inner)
            pod_template(inner.setdefault("template", {}))


def _rolling_update(strategy: Any, **fields: object) -> None:
    """Choose rolling updates if a strategy has no type; set defaults of their fields."""
    if type(strategy) is not dict:
        return
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        if type(rolling) is dict:
            for key, value in fields.items():
                rolling.setdefault(key, value)


def _deployment(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    spec.setdefault("replicas", 1)
    _rolling_update(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    pod_template(spec.get("template"))


def _replica_set(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("replicas", 1)
        pod_template(spec.get("template"))


def _replication_controller(obj: Document) -> None:
    _replica_set(obj)
    spec = field(obj, "spec")
    labels = field(spec, "template", "metadata").get("labels")
    if type(labels) is dict and labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.get("metadata")
        if type(metadata) is dict and not metadata.get("labels"):
            metadata["labels"] = dict(labels)


def _daemon_set(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    metadata = obj.setdefault("metadata", {})
    if type(metadata) is dict:
        annotations = metadata["annotations"] = metadata.get("annotations") or {}
        if type(annotations) is dict:
            annotations.setdefault(TEMPLATE_GENERATION, "0")
    strategy = spec.setdefault("updateStrategy", {})
    _rolling_update(strategy, maxUnavailable=1)
    if type(strategy) is dict and type(strategy.get("rollingUpdate")) is dict:
        # Not a pointer in upstream's internal type, so it is always written.
        strategy["rollingUpdate"].setdefault("maxUnavailable", 0)
        strategy["rollingUpdate"].setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    pod_template(spec.get("template"))


def _stateful_set(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if type(strategy) is dict:
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == "RollingUpdate" and type(rolling) is dict:
            rolling.setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    if type(retention) is dict:
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in items(spec, "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        defaults_pod.claim(claim)
    pod_template(spec.get("template"))


def _pod_template(obj: Document) -> None:
    pod_template(obj.get("template"))


BY_KIND: dict[tuple[str, str], Callable[[Document], None]] = {
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): _replication_controller,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _job,
}
