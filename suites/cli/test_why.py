"""`traincrew why` for situations that are made on a cluster for real."""

import asyncio
import json
import time
from typing import Any

import pytest

from chainerjobs import IMAGE, chainer_job
from cli.anycluster import Embedded, embedded
from harness import CHAINER_JOBS, ELASTIC_JOBS
from traincrew.cli.jobview.why import Explanation, explain
from traincrew.cli.watching.gather import gather
from traincrew.engine.client import Client
from traincrew.engine.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Resource,
)

__all__ = ["embedded"]

SECONDS = 60.0
LIMITED, RANGED, COUNTED, GUARDED = "limited", "ranged", "counted", "guarded"
ALONE = "alone"
"""A namespace whose pods keep others away."""
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
UNREACHABLE = {
    "metadata": {"name": "guard"},
    "webhooks": [
        {
            "name": "guard.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": GUARDED}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "operations": ["CREATE"],
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
    ],
}


def made(name: str, pod: Any = None, *, workers: int = 0, policy: Any = None,
         namespace: str = "default", **container: Any) -> dict[str, Any]:  # fmt: skip
    """A ChainerJob of a master with these fields, and workers with the same container."""
    # The first process of a container ignores SIGTERM unless it handles it.
    quick = {"terminationGracePeriodSeconds": 1, **(pod or {})}
    return chainer_job(
        name, workers=workers, namespace=namespace, pod=quick, container=container, policy=policy
    )


def elastic(pod: Any) -> dict[str, Any]:
    """An ElasticJob of a worker with these fields: pods of a ChainerJob have their own account."""
    template = {"spec": {**pod, "containers": [{"name": "elasticjob-worker", "image": IMAGE}]}}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"namespace": "default"},
        "spec": {"replicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def killed_by(signal: str) -> list[str]:
    """A program that a signal ends; the first process of a container ignores most of them."""
    return shell(f"sh -c 'kill -{signal} $$$$'; exit $?")


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


MOUNT = [{"name": "v", "mountPath": "/v"}]
SOURCE = "valueFrom"
LABEL = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
ANY = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SITUATIONS = {
    "insufficient-cpu": made("c", resources={"requests": {"cpu": "4000"}}),
    "insufficient-memory": made("c", resources={"requests": {"memory": "4000Ti"}}),
    "insufficient-gpu": made("c", resources={"limits": {"nvidia.com/gpu": "64"}}),
    "insufficient-resource": made("c", resources={"limits": {"example.com/fpga": "1"}}),
    "insufficient-storage": made("c", resources={"requests": {"ephemeral-storage": "4000Ti"}}),
    "ports-taken": made("c", workers=2, ports=[{"containerPort": 80, "hostPort": 8199}]),
    "other-pods-forbid": made(
        "c", {"affinity": {"podAntiAffinity": {REQUIRED: [ANY]}}}, workers=2, namespace=ALONE
    ),
    "spread": made("c", {"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "absent", "whenUnsatisfiable": "DoNotSchedule"}]}),
    "unschedulable": made("c", {"schedulerName": "absent"}),
    "node-selector": made("c", {"nodeSelector": {"disk": "fast"}}),
    "other-pods-wanted": made("c", {"affinity": {"podAffinity": {REQUIRED: [LABEL]}}}),
    "scheduling-gated": made("c", {"schedulingGates": [{"name": "example.com/queue"}]}),
    "missing-claim": made(
        "c", volume(persistentVolumeClaim={"claimName": "data"}), volumeMounts=MOUNT
    ),
    "no-environment": made("c", image="example.com/nobody/knows:1"),
    "image-name": made("c", image="Not/An Image"),
    "image-never-pulled": made("c", image="traincrew/mxnet:0.1.0", imagePullPolicy="Never"),
    "no-output": made(
        "c", command=shell("for i in $(seq 12); do echo epoch $i; sleep 0.3; done; sleep 600")
    ),
    "missing-key": made(
        "c",
        env=[{"name": "A", SOURCE: {"configMapKeyRef": {"name": "settings", "key": "lr"}}}],
    ),
    "missing-configmap": made("c", env=[
        {"name": "A", SOURCE: {"configMapKeyRef": {"name": "absent", "key": "lr"}}}]),
    "missing-secret": made("c", volume(secret={"secretName": "absent"}), volumeMounts=MOUNT),
    "must-not-run-as-root": made(
        "c", {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}
    ),
    "command-not-found": made("c", command=["trian"]),
    "init-container-failed": made("c", {"initContainers": [
        {"name": "prepare", "image": IMAGE, "command": shell("exit 3")}]}),
    "initializing": made("c", {"initContainers": [
        {"name": "prepare", "image": IMAGE, "command": ["sleep", "600"]}]}),
    "program-failed": made("c", command=shell("echo no data at /data; exit 3")),
    "killed": made("c", command=shell("exit 137")),
    "readiness-probe": made("c", workers=1, readinessProbe={
        "exec": {"command": ["false"]}, "periodSeconds": 1}),
    "command-not-executable": made("c", command=shell("echo > /tmp/a; /tmp/a")),
    "aborted": made("c", command=shell("exit 134")),
    "bus-error": made("c", command=killed_by("BUS")),
    "segmentation-fault": made("c", command=killed_by("SEGV")),
    "terminated": made("c", command=shell("exit 143")),
    "no-progress": made("c", policy={"progressDeadlineSeconds": 1}),
    "pod-deadline": made("c", {"activeDeadlineSeconds": 1}),
    "host-path": made(
        "c", volume(hostPath={"path": "/absent", "type": "Directory"}), volumeMounts=MOUNT
    ),
    "missing-service-account": elastic({"serviceAccountName": "absent"}),
    "missing-priority-class": made("c", {"priorityClassName": "absent"}, workers=1),
    "missing-runtime-class": made("c", {"runtimeClassName": "absent"}, workers=1),
    "quota": made("c", namespace=LIMITED),
    "quota-needs-requests": made("c", namespace=COUNTED),
    "webhook-unreachable": made("c", namespace=GUARDED),
    "limit-range": made("c", namespace=RANGED, resources={"limits": {"cpu": "2"}}),
    "deadline": made("c", policy={"activeDeadlineSeconds": 1}),
    "suspended": made("c", policy={"suspend": True}),
    "foreign-child": made("c", workers=1),
    "running": made("c"),
    "succeeded": made("c", command=["true"]),
}  # fmt: skip


async def prepare(client: Client) -> None:
    for name in (LIMITED, RANGED, COUNTED, GUARDED, ALONE):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
    await client.create(RESOURCE_QUOTAS, quota, LIMITED)
    counted = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "4"}}}
    await client.create(RESOURCE_QUOTAS, counted, COUNTED)
    await client.create(WEBHOOKS, UNREACHABLE)
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    await client.create(LIMIT_RANGES, {"metadata": {"name": "small"}, "spec": limits}, RANGED)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "settings"}}, "default")
    template = {
        "metadata": {"labels": {"a": "c"}},
        "spec": {"containers": [{"name": "a", "image": IMAGE}]},
    }
    foreign = {
        "metadata": {"name": "foreign-child-workerset-ws0"},
        "spec": {
            "serviceName": "a",
            "replicas": 0,
            "selector": {"matchLabels": {"a": "c"}},
            "template": template,
        },
    }
    await client.create(STATEFUL_SETS, foreign, "default")
    for cause, document in SITUATIONS.items():
        document["metadata"]["name"] = cause
        resource = CHAINER_JOBS if document["kind"] == "ChainerJob" else ELASTIC_JOBS
        await client.create(resource, document, document["metadata"]["namespace"])


@pytest.fixture(scope="module")
def situations(embedded: Embedded) -> Embedded:
    embedded.ask(prepare)
    return embedded


@pytest.mark.parametrize("cause", SITUATIONS)
def test_a_situation_has_its_explanation(situations: Embedded, cause: str) -> None:
    namespace = SITUATIONS[cause]["metadata"]["namespace"]

    async def look(client: Client) -> Explanation:
        deadline = time.monotonic() + SECONDS
        while True:
            found = explain((await gather(client, cause, namespace)).facts)
            if found.cause == cause or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)

    found = situations.ask(look)
    assert found.cause == cause, found
    assert found.evidence
    assert cause in found.text
    assert found.fix or cause in {"running", "succeeded"}


def test_what_is_printed(situations: Embedded) -> None:
    lines = situations("why", "chj/suspended").stdout.splitlines()
    assert lines[0].startswith("ChainerJob suspended is suspended: it has no pods until")
    assert lines[1].startswith("  condition Suspended=True: ChainerJobSuspended")
    assert lines[-1].startswith("What to do: set suspend to false")
    found = json.loads(situations("why", "suspended", "-o", "json").stdout)
    assert (found["cause"], found["kind"], found["name"]) == (
        "suspended",
        "ChainerJob",
        "suspended",
    )
    assert found["namespace"] == "default"
    assert found["notes"] == []
    assert found["evidence"]
