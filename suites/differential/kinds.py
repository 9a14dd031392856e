"""Random whole objects of built-in kinds, as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pods import Pods
from .wire import Document, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dice import Dice

LABELS = {"app": "x"}


def _metadata(dice: Dice) -> Document:
    pods = Pods(dice)
    return dice.part(
        0.3,
        labels=pods.labels,
        annotations=pods.labels,
        finalizers=lambda: dice.some(["example.com/f", "example.com/g"]),
        ownerReferences=lambda: [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": each, "uid": f"uid-{each}"}
            for each in dice.some(["p", "q"])
        ],
    )


def _deployment(dice: Dice) -> Document:
    surge = [1, "25%", "1", 0]
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(dice).template(LABELS)}
    return spec | dice.part(
        0.4,
        replicas=lambda: dice.number(0, 3),
        strategy=lambda: dice.one(
            [
                {"type": "Recreate"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": dice.one(surge)}},
                {"rollingUpdate": {"maxUnavailable": dice.one(surge)}},
                {},
            ]
        ),
        minReadySeconds=lambda: dice.number(0, 2),
        revisionHistoryLimit=lambda: dice.number(0, 20),
        paused=dice.maybe,
        progressDeadlineSeconds=lambda: dice.number(5, 9),
    )


def _replica_set(dice: Dice) -> Document:
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(dice).template(LABELS)}
    return spec | dice.part(0.4, replicas=lambda: dice.number(0, 3), minReadySeconds=lambda: 1)


def _daemon_set(dice: Dice) -> Document:
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(dice).template(LABELS)}
    return spec | dice.part(
        0.4,
        updateStrategy=lambda: dice.one(
            [{"type": "OnDelete"}, {"rollingUpdate": {"maxUnavailable": "30%"}}, {}]
        ),
        minReadySeconds=lambda: 1,
    )


def _stateful_set(dice: Dice) -> Document:
    pods = Pods(dice)
    spec = {"selector": {"matchLabels": LABELS}, "template": pods.template(LABELS)}
    return spec | dice.part(
        0.4,
        serviceName=lambda: "svc",
        replicas=lambda: dice.number(0, 3),
        podManagementPolicy=lambda: "Parallel",
        updateStrategy=lambda: dice.one(
            [{"type": "OnDelete"}, {"rollingUpdate": {"partition": dice.number(0, 2)}}, {}]
        ),
        volumeClaimTemplates=lambda: [
            {"metadata": {"name": each}, "spec": pods.claim()} for each in dice.some(["c", "d"])
        ],
        persistentVolumeClaimRetentionPolicy=lambda: dice.one([{}, {"whenDeleted": "Delete"}]),
        ordinals=lambda: {"start": dice.number(0, 1)},
        revisionHistoryLimit=lambda: dice.number(0, 3),
    )


def _job(dice: Dice) -> Document:
    pods = Pods(dice)
    restart = dice.one(["Never", "OnFailure"])
    return {"template": pods.template({}, restart=restart)} | dice.part(
        0.3,
        parallelism=lambda: dice.number(0, 3),
        completions=lambda: dice.number(1, 3),
        completionMode=lambda: dice.one(["Indexed", "NonIndexed"]),
        backoffLimit=lambda: dice.number(0, 3),
        activeDeadlineSeconds=lambda: dice.number(1, 9),
        ttlSecondsAfterFinished=lambda: dice.number(0, 9),
        suspend=dice.maybe,
        podReplacementPolicy=lambda: dice.one(["Failed", "TerminatingOrFailed"]),
        podFailurePolicy=lambda: {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ][: dice.number(1, 2)]
        },
    )


def _cron_job(dice: Dice) -> Document:
    return {"schedule": "*/5 * * * *", "jobTemplate": {"spec": _job(dice)}} | dice.part(
        0.3,
        concurrencyPolicy=lambda: dice.one(["Forbid", "Replace"]),
        suspend=dice.maybe,
        timeZone=lambda: "Etc/UTC",
        successfulJobsHistoryLimit=lambda: dice.number(0, 3),
        startingDeadlineSeconds=lambda: 9,
    )


def _service(dice: Dice) -> Document:
    pods = Pods(dice)
    pairs = [(number, protocol) for number in (80, 443) for protocol in ("TCP", "UDP")]

    def port(number: int, protocol: str) -> Document:
        name = f"{protocol.lower()}-{number}"
        more = dice.part(
            0.4, targetPort=lambda: dice.one([80, 8080, "web"]), appProtocol=lambda: "http"
        )
        if protocol != "TCP" or dice.maybe():
            more["protocol"] = protocol
        return {"name": name, "port": number} | more

    spec: Document = {"ports": [port(*each) for each in dice.some(pairs, 3, least=1)]}
    return spec | dice.part(
        0.3,
        selector=pods.labels,
        clusterIP=lambda: "None",
        type=lambda: dice.one(["ClusterIP", "NodePort", "LoadBalancer"]),
        sessionAffinity=lambda: dice.one(["ClientIP", "None"]),
        publishNotReadyAddresses=dice.maybe,
        externalIPs=lambda: dice.some(["192.0.2.1", "192.0.2.2"]),
        internalTrafficPolicy=lambda: "Local",
        externalTrafficPolicy=lambda: "Local",
        ipFamilyPolicy=lambda: "SingleStack",
        loadBalancerSourceRanges=lambda: ["192.0.2.0/24"],
    )


def _network_policy(dice: Dice) -> Document:
    pods = Pods(dice)
    ports = [{"port": dice.one([80, "web"])}, {"protocol": "UDP", "port": 53}]
    return {"podSelector": pods.selector()} | dice.part(
        0.5,
        ingress=lambda: [
            dice.part(
                0.5,
                ports=lambda: dice.some(ports),
                from_=lambda: [{"podSelector": pods.selector()}],
            )
        ],
        egress=lambda: dice.one([[], [{}]]),
        policyTypes=lambda: dice.some(["Ingress", "Egress"]),
    )


def _ingress(dice: Dice) -> Document:
    backend = {"service": {"name": "s", "port": dice.one([{"number": 80}, {"name": "web"}])}}
    path = {"path": dice.one(["/", "/a"]), "pathType": "Prefix", "backend": backend}
    return {"rules": [{"host": "example.com", "http": {"paths": [path]}}]} | dice.part(
        0.3,
        defaultBackend=lambda: backend,
        ingressClassName=Pods(dice).text,
        tls=lambda: [{"hosts": ["example.com"], "secretName": "t"}],
    )


def _budget(dice: Dice) -> Document:
    amount = dice.one([1, "50%"])
    limit = dice.one([{"minAvailable": amount}, {"maxUnavailable": amount}, {}])
    return limit | dice.part(
        0.5,
        selector=Pods(dice).selector,
        unhealthyPodEvictionPolicy=lambda: "AlwaysAllow",
    )


def _claim(dice: Dice) -> Document:
    return Pods(dice).claim() | dice.part(
        0.2, volumeMode=lambda: "Block", volumeName=lambda: "v", selector=Pods(dice).selector
    )


def _autoscaler(dice: Dice) -> Document:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    return {"scaleTargetRef": target, "maxReplicas": dice.number(2, 3)} | dice.part(
        0.4,
        minReplicas=lambda: dice.number(1, 2),
        metrics=lambda: [metric],
        behavior=lambda: {
            "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}
        },
    )


def _lease(dice: Dice) -> Document:
    return dice.part(
        0.6,
        holderIdentity=Pods(dice).text,
        leaseDurationSeconds=lambda: dice.number(1, 3),
        acquireTime=lambda: "2026-01-01T00:00:00.000000Z",
        renewTime=lambda: dice.one(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z"]),
        leaseTransitions=lambda: dice.number(0, 3),
    )


class Kind:
    """A built-in kind.

    Attributes:
        resource: where its objects live.
        status: whether it has a status subresource.
    """

    def __init__(
        self,
        group: str,
        plural: str,
        kind: str,
        make: Callable[[Dice], Document],
        *,
        status: bool = True,
        version: str = "v1",
    ) -> None:
        self.resource = Resource(group, version, plural, kind)
        self.status = status
        self._make = make

    def document(self, dice: Dice) -> Document:
        """An object without apiVersion, kind and name."""
        return {"metadata": _metadata(dice)} | self._make(dice)


def _spec(make: Callable[[Dice], Document]) -> Callable[[Dice], Document]:
    return lambda dice: {"spec": make(dice)}


def _config_map(dice: Dice) -> Document:
    texts = {key: Pods(dice).text() for key in dice.some(["a", "b", "c"])}
    return dice.part(
        0.8, data=lambda: texts, binaryData=lambda: dice.one([{}, {"d": "eA=="}])
    ) | dice.part(0.02, immutable=lambda: True)


def _secret(dice: Dice) -> Document:
    return dice.part(
        0.6,
        data=lambda: {key: dice.one(["eA==", "eQ=="]) for key in dice.some(["a", "b"])},
        stringData=lambda: {key: Pods(dice).text() for key in dice.some(["b", "c"])},
        type=lambda: "Opaque",
    )


def _account(dice: Dice) -> Document:
    return dice.part(
        0.5,
        secrets=lambda: [{"name": each} for each in dice.some(["s", "t"])],
        imagePullSecrets=lambda: [{"name": each} for each in dice.some(["s", "t"])],
        automountServiceAccountToken=dice.maybe,
    )


def _role(dice: Dice) -> Document:
    rule = {"apiGroups": [""], "resources": dice.some(["pods", "jobs"], least=1), "verbs": ["get"]}
    return dice.part(0.8, rules=lambda: [rule])


def _pod_template(dice: Dice) -> Document:
    return {"template": Pods(dice).template({})}


def _pod(dice: Dice) -> Document:
    return {"spec": Pods(dice).spec() | {"automountServiceAccountToken": False}}


KINDS: dict[str, Kind] = {
    each.resource.kind: each
    for each in (
        Kind("apps", "deployments", "Deployment", _spec(_deployment)),
        Kind("apps", "replicasets", "ReplicaSet", _spec(_replica_set)),
        Kind("apps", "daemonsets", "DaemonSet", _spec(_daemon_set)),
        Kind("apps", "statefulsets", "StatefulSet", _spec(_stateful_set)),
        Kind("batch", "jobs", "Job", _spec(_job)),
        Kind("batch", "cronjobs", "CronJob", _spec(_cron_job)),
        Kind("", "pods", "Pod", _pod),
        Kind("", "podtemplates", "PodTemplate", _pod_template, status=False),
        Kind("", "configmaps", "ConfigMap", _config_map, status=False),
        Kind("", "secrets", "Secret", _secret, status=False),
        Kind("", "services", "Service", _spec(_service)),
        Kind("", "serviceaccounts", "ServiceAccount", _account, status=False),
        Kind("", "persistentvolumeclaims", "PersistentVolumeClaim", _spec(_claim)),
        Kind(
            "networking.k8s.io",
            "networkpolicies",
            "NetworkPolicy",
            _spec(_network_policy),
            status=False,
        ),
        Kind("networking.k8s.io", "ingresses", "Ingress", _spec(_ingress)),
        Kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", _spec(_budget)),
        Kind(
            "autoscaling",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            _spec(_autoscaler),
            version="v2",
        ),
        Kind("coordination.k8s.io", "leases", "Lease", _spec(_lease), status=False),
        Kind("rbac.authorization.k8s.io", "roles", "Role", _role, status=False),
    )
}
