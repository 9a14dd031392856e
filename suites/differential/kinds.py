"""Random whole objects of built-in kinds, as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pods import Pods
from .requests import Document, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from .random_choice import RandomChoice

LABELS = {"app": "x"}


def _metadata(choice: RandomChoice) -> Document:
    pods = Pods(choice)
    return choice.part(
        0.3,
        labels=pods.labels,
        annotations=pods.labels,
        finalizers=lambda: choice.some(["example.com/f", "example.com/g"]),
        ownerReferences=lambda: [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": each, "uid": f"uid-{each}"}
            for each in choice.some(["p", "q"])
        ],
    )


def _deployment(choice: RandomChoice) -> Document:
    surge = [1, "25%", "1", 0]
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(choice).template(LABELS)}
    return spec | choice.part(
        0.4,
        replicas=lambda: choice.number(0, 3),
        strategy=lambda: choice.one(
            [
                {"type": "Recreate"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": choice.one(surge)}},
                {"rollingUpdate": {"maxUnavailable": choice.one(surge)}},
                {},
            ]
        ),
        minReadySeconds=lambda: choice.number(0, 2),
        revisionHistoryLimit=lambda: choice.number(0, 20),
        paused=choice.maybe,
        progressDeadlineSeconds=lambda: choice.number(5, 9),
    )


def _replica_set(choice: RandomChoice) -> Document:
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(choice).template(LABELS)}
    return spec | choice.part(0.4, replicas=lambda: choice.number(0, 3), minReadySeconds=lambda: 1)


def _daemon_set(choice: RandomChoice) -> Document:
    spec = {"selector": {"matchLabels": LABELS}, "template": Pods(choice).template(LABELS)}
    return spec | choice.part(
        0.4,
        updateStrategy=lambda: choice.one(
            [{"type": "OnDelete"}, {"rollingUpdate": {"maxUnavailable": "30%"}}, {}]
        ),
        minReadySeconds=lambda: 1,
    )


def _stateful_set(choice: RandomChoice) -> Document:
    pods = Pods(choice)
    spec = {"selector": {"matchLabels": LABELS}, "template": pods.template(LABELS)}
    return spec | choice.part(
        0.4,
        serviceName=lambda: "svc",
        replicas=lambda: choice.number(0, 3),
        podManagementPolicy=lambda: "Parallel",
        updateStrategy=lambda: choice.one(
            [{"type": "OnDelete"}, {"rollingUpdate": {"partition": choice.number(0, 2)}}, {}]
        ),
        volumeClaimTemplates=lambda: [
            {"metadata": {"name": each}, "spec": pods.claim()} for each in choice.some(["c", "d"])
        ],
        persistentVolumeClaimRetentionPolicy=lambda: choice.one([{}, {"whenDeleted": "Delete"}]),
        ordinals=lambda: {"start": choice.number(0, 1)},
        revisionHistoryLimit=lambda: choice.number(0, 3),
    )


def _job(choice: RandomChoice) -> Document:
    pods = Pods(choice)
    restart = choice.one(["Never", "OnFailure"])
    return {"template": pods.template({}, restart=restart)} | choice.part(
        0.3,
        parallelism=lambda: choice.number(0, 3),
        completions=lambda: choice.number(1, 3),
        completionMode=lambda: choice.one(["Indexed", "NonIndexed"]),
        backoffLimit=lambda: choice.number(0, 3),
        activeDeadlineSeconds=lambda: choice.number(1, 9),
        ttlSecondsAfterFinished=lambda: choice.number(0, 9),
        suspend=choice.maybe,
        podReplacementPolicy=lambda: choice.one(["Failed", "TerminatingOrFailed"]),
        podFailurePolicy=lambda: {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ][: choice.number(1, 2)]
        },
    )


_SCHEDULES = (
    *("@hourly", "@every 90s", "0,30 9-17/4 ? jan-Mar MON", "5/15 * 29 2 *"),
    *("", "* * *", "60 * * * *", "* * * * 7", "1-2-3 * * * *", "*/0 * * * *", "9-3 * * * *"),
    *("x * * * *", "*/2/3 * * * *", "@reboot", "@every x", "@every 5", "@every 5d", "@every 1h-"),
    *(
        "TZ=UTC * * * * *",
        "CRON_TZ=Nowhere 0 * * * *",
        "TZ=0",
        "* * * TZ *",
        ", 99999999999999999999",
    ),
    *("-1 * * * *", "+1 * * * *", "1.5 * * * *", "* * 0 * *", "*-5/2 * * * *", "*  * * *\t*"),
)
_ZONES = (
    "Etc/UTC",
    "Asia/Tokyo",
    "",
    "Local",
    "local",
    "Mars/Olympus",
    "../UTC",
    "/UTC",
    "-x",
    "a//b",
)


def _cron_job(choice: RandomChoice) -> Document:
    schedule = choice.one(_SCHEDULES) if choice.maybe() else "*/5 * * * *"
    return {"schedule": schedule, "jobTemplate": {"spec": _job(choice)}} | choice.part(
        0.3,
        concurrencyPolicy=lambda: choice.one(["Forbid", "Replace"]),
        suspend=choice.maybe,
        timeZone=lambda: choice.one(_ZONES),
        successfulJobsHistoryLimit=lambda: choice.number(0, 3),
        startingDeadlineSeconds=lambda: 9,
    )


def _service(choice: RandomChoice) -> Document:
    pods = Pods(choice)
    pairs = [(number, protocol) for number in (80, 443) for protocol in ("TCP", "UDP")]

    def port(number: int, protocol: str) -> Document:
        name = f"{protocol.lower()}-{number}"
        more = choice.part(
            0.4, targetPort=lambda: choice.one([80, 8080, "web"]), appProtocol=lambda: "http"
        )
        if protocol != "TCP" or choice.maybe():
            more["protocol"] = protocol
        return {"name": name, "port": number} | more

    spec: Document = {"ports": [port(*each) for each in choice.some(pairs, 3, least=1)]}
    return spec | choice.part(
        0.3,
        selector=pods.labels,
        clusterIP=lambda: "None",
        type=lambda: choice.one(["ClusterIP", "NodePort", "LoadBalancer"]),
        sessionAffinity=lambda: choice.one(["ClientIP", "None"]),
        publishNotReadyAddresses=choice.maybe,
        externalIPs=lambda: choice.some(["192.0.2.1", "192.0.2.2"]),
        internalTrafficPolicy=lambda: "Local",
        externalTrafficPolicy=lambda: "Local",
        ipFamilyPolicy=lambda: "SingleStack",
        loadBalancerSourceRanges=lambda: ["192.0.2.0/24"],
    )


def _network_policy(choice: RandomChoice) -> Document:
    pods = Pods(choice)
    ports = [{"port": choice.one([80, "web"])}, {"protocol": "UDP", "port": 53}]
    return {"podSelector": pods.selector()} | choice.part(
        0.5,
        ingress=lambda: [
            choice.part(
                0.5,
                ports=lambda: choice.some(ports),
                from_=lambda: [{"podSelector": pods.selector()}],
            )
        ],
        egress=lambda: choice.one([[], [{}]]),
        policyTypes=lambda: choice.some(["Ingress", "Egress"]),
    )


def _ingress(choice: RandomChoice) -> Document:
    backend = {"service": {"name": "s", "port": choice.one([{"number": 80}, {"name": "web"}])}}
    path = {"path": choice.one(["/", "/a"]), "pathType": "Prefix", "backend": backend}
    return {"rules": [{"host": "example.com", "http": {"paths": [path]}}]} | choice.part(
        0.3,
        defaultBackend=lambda: backend,
        ingressClassName=Pods(choice).text,
        tls=lambda: [{"hosts": ["example.com"], "secretName": "t"}],
    )


def _budget(choice: RandomChoice) -> Document:
    amount = choice.one([1, "50%"])
    limit = choice.one([{"minAvailable": amount}, {"maxUnavailable": amount}, {}])
    return limit | choice.part(
        0.5,
        selector=Pods(choice).selector,
        unhealthyPodEvictionPolicy=lambda: "AlwaysAllow",
    )


def _claim(choice: RandomChoice) -> Document:
    return Pods(choice).claim() | choice.part(
        0.2, volumeMode=lambda: "Block", volumeName=lambda: "v", selector=Pods(choice).selector
    )


def _autoscaler(choice: RandomChoice) -> Document:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    return {"scaleTargetRef": target, "maxReplicas": choice.number(2, 3)} | choice.part(
        0.4,
        minReplicas=lambda: choice.number(1, 2),
        metrics=lambda: [metric],
        behavior=lambda: {
            "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}
        },
    )


def _lease(choice: RandomChoice) -> Document:
    return choice.part(
        0.6,
        holderIdentity=Pods(choice).text,
        leaseDurationSeconds=lambda: choice.number(1, 3),
        acquireTime=lambda: "2026-01-01T00:00:00.000000Z",
        renewTime=lambda: choice.one(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z"]),
        leaseTransitions=lambda: choice.number(0, 3),
    )


class Kind:
    """A built-in kind.

    Attributes:
        resource: the resource of its objects.
        status: whether it has a status subresource.
    """

    def __init__(
        self,
        group: str,
        plural: str,
        kind: str,
        make: Callable[[RandomChoice], Document],
        *,
        status: bool = True,
        version: str = "v1",
    ) -> None:
        self.resource = Resource(group, version, plural, kind)
        self.status = status
        self._make = make

    def document(self, choice: RandomChoice) -> Document:
        """Return an object without apiVersion, kind and name."""
        return {"metadata": _metadata(choice)} | self._make(choice)


def _spec(make: Callable[[RandomChoice], Document]) -> Callable[[RandomChoice], Document]:
    return lambda choice: {"spec": make(choice)}


def _config_map(choice: RandomChoice) -> Document:
    texts = {key: Pods(choice).text() for key in choice.some(["a", "b", "c"])}
    return choice.part(
        0.8, data=lambda: texts, binaryData=lambda: choice.one([{}, {"d": "eA=="}])
    ) | choice.part(0.02, immutable=lambda: True)


def _secret(choice: RandomChoice) -> Document:
    return choice.part(
        0.6,
        data=lambda: {key: choice.one(["eA==", "eQ=="]) for key in choice.some(["a", "b"])},
        stringData=lambda: {key: Pods(choice).text() for key in choice.some(["b", "c"])},
        type=lambda: "Opaque",
    )


def _account(choice: RandomChoice) -> Document:
    return choice.part(
        0.5,
        secrets=lambda: [{"name": each} for each in choice.some(["s", "t"])],
        imagePullSecrets=lambda: [{"name": each} for each in choice.some(["s", "t"])],
        automountServiceAccountToken=choice.maybe,
    )


def _role(choice: RandomChoice) -> Document:
    rule = {
        "apiGroups": [""],
        "resources": choice.some(["pods", "jobs"], least=1),
        "verbs": ["get"],
    }
    return choice.part(0.8, rules=lambda: [rule])


def _pod_template(choice: RandomChoice) -> Document:
    return {"template": Pods(choice).template({})}


def _pod(choice: RandomChoice) -> Document:
    return {"spec": Pods(choice).spec() | {"automountServiceAccountToken": False}}


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
