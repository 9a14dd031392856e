"""The operator's namespace, Deployment, Service, NetworkPolicy and disruption budget."""

from __future__ import annotations

from traincrew.operator.kinds import OF_OTHERS
from traincrew.operator.manifests import monitoring
from traincrew.operator.manifests.template import (
    Document,
    Image,
    Merged,
    Namespace,
    Text,
    Value,
    When,
    optional,
    text,
)
from traincrew.operator.manifests.values import NAME

_NAME = Value("name")
_PORT = "metrics"
_SECURE_PORT = "metrics-secure"
_SECURE = "metrics.secure.enabled"
_SCRAPER_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105
_PROGRESS_PORT = "progress"
_USER = 65532
"""User and group ID: no particular account; "nonroot" in many base images."""
POD_SECURITY = "restricted"


def _labels() -> Document:
    return {"app": _NAME}


def _metadata() -> Document:
    return {"name": _NAME, "namespace": Namespace(), "labels": _labels()}


def field_ref(path: str) -> Document:
    """Return a reference to a field of the pod.

    Server-side apply owns it as a whole. So it has the apiVersion that the API server would add:
    what lacks it conflicts with whoever applied the same manifest in another way.
    """
    return {"apiVersion": "v1", "fieldPath": path}


def namespace() -> Document:
    """Return the operator's namespace. Jobs run in others, with their own Pod Security levels."""
    level = "pod-security.kubernetes.io"
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": Namespace(),
            "labels": {f"{level}/enforce": POD_SECURITY, f"{level}/enforce-version": "latest"},
        },
    }


def _progress_name() -> Text:
    return text(_NAME, "-progress")


def _arguments() -> list[object]:
    watched = Value("watchNamespace")
    return [
        "operator",
        # The pod's own address: on a network that pods share, each replica needs a port of its own.
        text("--metrics-address=$(POD_IP):", Value("metrics.port")),
        When(_SECURE, text("--metrics-secure-address=$(POD_IP):", Value("metrics.secure.port"))),
        When("progress.enabled", text("--progress-address=$(POD_IP):", Value("progress.port"))),
        When("progress.enabled", text("--progress-service=", _NAME, "-progress")),
        When("progress.enabled", text("--progress-metrics=", Value("progress.metrics"))),
        text("--helper-image=", Image("helperImage")),
        text("--git-image=", Image("gitImage")),
        text("--workers=", Value("workers")),
        text("--gang-scheduling=", Value("gangScheduling")),
        *(When(f"kinds.{kind}", f"--kinds={kind}") for kind in OF_OTHERS),
        text("--log-level=", Value("log.level")),
        text("--log-format=", Value("log.format")),
        When("watchNamespace", text("--namespace=", watched)),
        # Operators of different namespaces run side by side; of the same namespace, only one leads.
        When("watchNamespace", text("--lease-namespace=", watched)),
        When("leaderElection.enabled", "--no-leader-elect", negated=True),
        *(
            When(path, text(f"--leader-elect-{flag}=", Value(path)))
            for path, flag in (
                ("leaderElection.leaseDuration", "lease-duration"),
                ("leaderElection.renewDeadline", "renew-deadline"),
                ("leaderElection.retryPeriod", "retry-period"),
            )
        ),
    ]


def _probe(path: str, **times: int) -> Document:
    return {"httpGet": {"path": path, "port": _PORT}, **times}


def pod_security() -> Document:
    """Return the security context of pods with the operator's image."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Document:
    """Return the security context of containers with the operator's image."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _container() -> Document:
    return {
        "name": NAME,
        "image": Image("image"),
        "imagePullPolicy": Value("image.pullPolicy"),
        "args": _arguments(),
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": field_ref("status.podIP")}}],
        "ports": [
            {"name": _PORT, "containerPort": Value("metrics.port")},
            When(_SECURE, {"name": _SECURE_PORT, "containerPort": Value("metrics.secure.port")}),
            When(
                "progress.enabled",
                {"name": _PROGRESS_PORT, "containerPort": Value("progress.port")},
            ),
        ],
        # Ready when the caches are synced, leader or not; a standby must be ready to take over.
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5),
        "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=5),
        "resources": Value("resources"),
        "securityContext": container_security(),
    }


def _spread(topology: str) -> Document:
    """Return a constraint that prefers different nodes or zones, but does not require them."""
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels()},
        # Replicas of the old version do not count while a new one is rolled out.
        "matchLabelKeys": ["pod-template-hash"],
    }


def deployment() -> Document:
    """Return the operator's Deployment: one replica leads, the others stand by."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": Value("replicas"),
            "selector": {"matchLabels": _labels()},
            "template": {
                "metadata": {
                    "labels": Merged(_labels(), "podLabels"),
                    "annotations": optional("podAnnotations"),
                },
                "spec": {
                    "serviceAccountName": _NAME,
                    "automountServiceAccountToken": True,
                    "enableServiceLinks": False,
                    "imagePullSecrets": optional("imagePullSecrets"),
                    "priorityClassName": optional("priorityClassName"),
                    "nodeSelector": optional("nodeSelector"),
                    "tolerations": optional("tolerations"),
                    "affinity": optional("affinity"),
                    "topologySpreadConstraints": [
                        _spread("kubernetes.io/hostname"),
                        _spread("topology.kubernetes.io/zone"),
                    ],
                    "securityContext": pod_security(),
                    "containers": [_container()],
                },
            },
        },
    }


def disruption_budget() -> Document:
    """Return a budget that lets drains evict one replica at a time, and any that is not ready."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": _labels()},
        },
    }


def service() -> Document:
    """Return the headless Service for the metrics of each replica."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_metadata(), "name": text(_NAME, "-metrics")},
        "spec": {
            "clusterIP": "None",
            "selector": _labels(),
            "ports": [
                When(
                    _SECURE,
                    {"name": _PORT, "port": Value("metrics.port"), "targetPort": _PORT},
                    negated=True,
                ),
                When(
                    _SECURE,
                    {
                        "name": _SECURE_PORT,
                        "port": Value("metrics.secure.port"),
                        "targetPort": _SECURE_PORT,
                    },
                ),
            ],
        },
    }


def progress_service() -> When:
    """Return the Service for reports of progress. The leader makes itself its one endpoint."""
    return When(
        "progress.enabled",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**_metadata(), "name": _progress_name()},
            "spec": {"ports": [{"name": _PROGRESS_PORT, "port": Value("progress.port")}]},
        },
    )


def network_policy() -> When:
    """Return the NetworkPolicy that lets only those who scrape the metrics connect to them.

    Pods of jobs are in any namespace, so everybody may connect to the port for reports.

    Probes need no rule: a pod's own node may always connect to it. What the operator connects to is
    not restricted, because no selector names the API server.
    """
    ports = [
        When(_SECURE, {"protocol": "TCP", "port": _PORT}, negated=True),
        When(_SECURE, {"protocol": "TCP", "port": _SECURE_PORT}),
    ]
    return When(
        "networkPolicy.enabled",
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": _metadata(),
            "spec": {
                "podSelector": {"matchLabels": _labels()},
                "policyTypes": ["Ingress"],
                # A rule without peers would allow everybody; no rule allows nobody.
                "ingress": [
                    When(
                        "networkPolicy.from",
                        {"from": Value("networkPolicy.from"), "ports": ports},
                    ),
                    When(
                        "progress.enabled",
                        {"ports": [{"protocol": "TCP", "port": _PROGRESS_PORT}]},
                    ),
                ],
            },
        },
    )


def service_monitor() -> When:
    """Return the ServiceMonitor that lets the Prometheus operator scrape the metrics."""
    scraped = {
        "interval": Value("metrics.serviceMonitor.interval"),
        # `namespace` is that of the jobs, not of the operator.
        "honorLabels": True,
    }
    return When(
        "metrics.serviceMonitor.enabled",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {**_metadata(), "labels": optional("metrics.serviceMonitor.labels")},
            "spec": {
                "selector": {"matchLabels": _labels()},
                "endpoints": [
                    When(_SECURE, {"port": _PORT, **scraped}, negated=True),
                    When(
                        _SECURE,
                        {
                            "port": _SECURE_PORT,
                            "scheme": "https",
                            "bearerTokenFile": _SCRAPER_TOKEN,
                            # The operator makes its certificate itself.
                            "tlsConfig": {"insecureSkipVerify": True},
                            **scraped,
                        },
                    ),
                ],
            },
        },
    )


def prometheus_rule() -> When:
    """Return the alerts as an object of the Prometheus operator."""
    return When(
        "metrics.prometheusRule.enabled",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {**_metadata(), "labels": optional("metrics.prometheusRule.labels")},
            "spec": monitoring.rule_groups(),
        },
    )
