"""Admission and validation: chosen requests that both servers must refuse identically.

They complement the random writes of `test_differential.py`: security contexts, limit ranges and
quotas matter for the requests they refuse, which random choice rarely hits.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from .campaign import ACCOUNTS, NAMESPACES
from .compare import differences
from .requests import Resource
from .servers import serve_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .requests import Answer
    from .servers import Pair

Document = dict[str, Any]

PODS = Resource("", "v1", "pods", "Pod")


class ComparedNamespace:
    """A namespace of its own in both servers, in which every response is compared."""

    def __init__(self, pair: Pair, namespace: str) -> None:
        self.pair, self.namespace = pair, namespace
        self.lines: list[str] = []
        self.refused = 0

    async def offer(self, resource: Resource, document: Document) -> Document:
        """Create an object in both; return the response of the real server."""
        return await self._send("POST", resource, resource.path(self.namespace), document)

    async def put(self, resource: Resource, document: Document, subresource: str = "") -> Document:
        path = resource.path(self.namespace, document["metadata"]["name"], subresource)
        return await self._send("PUT", resource, path, document)

    async def get(self, resource: Resource, name: str) -> Document:
        return await self._send("GET", resource, resource.path(self.namespace, name), None)

    async def _send(
        self, method: str, resource: Resource, path: str, document: Document | None
    ) -> Document:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = None if document is None else json.dumps(head | document).encode()
        real, embedded = [
            await server.send(method, path, body, "application/json")
            for server in (self.pair.real, self.pair.embedded)
        ]
        self.refused += real.code >= 400
        found = differences(_comparable(real), _comparable(embedded))
        if found:
            self.lines += [f"{method} {path} {json.dumps(document)}", *found]
        answer: Document = json.loads(real.text)
        return answer

    def check(self) -> None:
        assert not self.lines, "\n".join(self.lines)


_METADATA = ("name", "annotations", "labels", "finalizers")
_MOMENT = "lastPhaseTransitionTime"


def _comparable(answer: Answer) -> Document:
    """Return a response without what every server assigns itself."""
    body = json.loads(answer.text)
    if body["kind"] == "Status":
        causes = sorted(map(json.dumps, (body.get("details") or {}).get("causes") or ()))
        # Upstream lists the contents of Go maps in random order.
        message = sorted(re.split(r", |: \[|\]", body["message"]))
        return {"code": answer.code, "message": message, "causes": list(dict.fromkeys(causes))}
    body = json.loads(answer.text.replace(body["metadata"]["uid"], "<uid>"))
    metadata = {key: body["metadata"].get(key) for key in _METADATA}
    status = {key: value for key, value in (body.get("status") or {}).items() if key != _MOMENT}
    spec = body.get("spec") or {}
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.pop("volumeMounts", None)
    spec.pop("volumes", None)
    for key in ("clusterIP", "clusterIPs"):
        spec.pop(key, None)
    for port in spec.get("ports", ()):
        port.pop("nodePort", None)
    return {"code": answer.code, "metadata": metadata, "spec": spec, "status": status}


@pytest.fixture
async def compared(kubeconfig: Path) -> AsyncIterator[ComparedNamespace]:
    async with serve_pair(kubeconfig) as pair:
        name = f"admission-{secrets.token_hex(4)}"
        await pair.create(NAMESPACES, "", {"metadata": {"name": name}})
        await pair.create(ACCOUNTS, name, {"metadata": {"name": "default"}})
        yield ComparedNamespace(pair, name)


def pod(name: str, container: Document | None = None, **spec: Any) -> Document:
    first = {"name": "main", "image": "busybox:1"} | (container or {})
    return {"metadata": {"name": name}, "spec": {"containers": [first]} | spec}


LARGE = 2**31
POD_CONTEXTS: list[Document] = [
    {"runAsUser": -1},
    {"runAsUser": LARGE},
    {"runAsUser": LARGE - 1, "runAsGroup": 0},
    {"runAsGroup": -1, "fsGroup": -1},
    {"fsGroup": LARGE},
    {"supplementalGroups": [1, -1, LARGE]},
    {"fsGroupChangePolicy": "Sometimes"},
    {"fsGroupChangePolicy": "OnRootMismatch"},
    {"supplementalGroupsPolicy": "Loose"},
    {"supplementalGroupsPolicy": "Strict"},
    {"seLinuxChangePolicy": "Never"},
    {"seLinuxChangePolicy": "MountOption"},
    {"seLinuxOptions": {"level": "s0:c1,c2"}},
    {"sysctls": [{"name": "", "value": "1"}]},
    {"sysctls": [{"name": "Kernel", "value": "1"}]},
    {"sysctls": [{"name": "a." * 200 + "b", "value": "1"}]},
    {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}] * 2},
    {"sysctls": [{"name": "net/ipv4/conf/eth0.1/x", "value": "1"}]},
    {"seccompProfile": {}},
    {"seccompProfile": {"type": "Strange"}},
    {"seccompProfile": {"type": "Localhost"}},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": "/absolute"}},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": "../up"}},
    {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}},
    {"appArmorProfile": {}},
    {"appArmorProfile": {"type": "Strange"}},
    {"appArmorProfile": {"type": "Localhost"}},
    {"appArmorProfile": {"type": "Localhost", "localhostProfile": ""}},
    {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}},
    {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}},
    {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}},
    {"windowsOptions": {"gmsaCredentialSpecName": "Not_A_Name"}},
    {"windowsOptions": {"gmsaCredentialSpec": ""}},
    {"windowsOptions": {"gmsaCredentialSpec": "a" * (64 * 1024 + 1)}},
    {"windowsOptions": {"runAsUserName": ""}},
    {"windowsOptions": {"runAsUserName": "a\tb"}},
    {"windowsOptions": {"runAsUserName": "a\\b\\c"}},
    {"windowsOptions": {"runAsUserName": "\\b"}},
    {"windowsOptions": {"runAsUserName": "a" * 256 + "\\b"}},
    {"windowsOptions": {"runAsUserName": "domain\\"}},
    {"windowsOptions": {"runAsUserName": "a" * 105}},
    {"windowsOptions": {"runAsUserName": ". ."}},
    {"windowsOptions": {"runAsUserName": "a@b"}},
    {"windowsOptions": {"runAsUserName": "domain\\user"}},
    {"windowsOptions": {"hostProcess": True}},
]
CONTAINER_CONTEXTS: list[Document] = [
    {"runAsUser": -1},
    {"runAsGroup": LARGE},
    {"procMount": "Hidden"},
    {"procMount": "Unmasked"},
    {"procMount": "Default"},
    {"allowPrivilegeEscalation": False, "privileged": True},
    {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN", "CHOWN"]}},
    {"allowPrivilegeEscalation": False, "capabilities": {"add": ["SYS_ADMIN"]}},
    {"allowPrivilegeEscalation": False, "privileged": True, "runAsUser": 5,
     "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"},
     "seLinuxOptions": {"user": "u"}, "windowsOptions": {"hostProcess": False},
     "capabilities": {"drop": ["ALL"]}},
    {"seccompProfile": {"type": "Localhost", "localhostProfile": ""}},
    {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
    {"appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}},
    {"windowsOptions": {"runAsUserName": "x" * 105, "gmsaCredentialSpecName": "-"}},
    {"windowsOptions": {"hostProcess": True}},
]  # fmt: skip
SPECS: list[Document] = [
    {"hostUsers": False, "hostNetwork": True},
    {"hostUsers": False, "hostPID": True, "hostIPC": True},
    {"hostPID": True, "shareProcessNamespace": True},
    {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}},
    {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net/a", "value": "1"}]}},
    {"hostIPC": True, "securityContext": {"sysctls": [
        {"name": name, "value": "1"}
        for name in ("kernel.shmmax", "kernel.msgmax", "kernel.sem", "fs.mqueue.a", "kernel.x")
    ]}},
    {"os": {"name": ""}},
    {"os": {"name": "plan9"}},
    {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "a"}}},
    {"os": {"name": "windows"}, "hostUsers": True, "hostPID": True, "hostIPC": True,
     "securityContext": {
         "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {"user": "u"},
         "seccompProfile": {"type": "Unconfined"}, "fsGroup": 1,
         "fsGroupChangePolicy": "Always", "sysctls": [{"name": "a.b", "value": "1"}],
         "runAsUser": 1, "runAsGroup": 1, "supplementalGroups": [1],
         "supplementalGroupsPolicy": "Merge", "seLinuxChangePolicy": "Recursive"}},
    {"os": {"name": "windows"}, "shareProcessNamespace": False, "containers": [
        {"name": "a", "image": "b", "securityContext": {
            "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {"user": "u"},
            "seccompProfile": {"type": "Unconfined"}, "capabilities": {},
            "readOnlyRootFilesystem": False, "privileged": False,
            "allowPrivilegeEscalation": True, "procMount": "Default", "runAsUser": 1,
            "runAsGroup": 1}}]},
    {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}},
     "containers": [
         {"name": "a", "image": "b",
          "securityContext": {"windowsOptions": {"hostProcess": False}}}]},
    {"hostNetwork": True, "containers": [
        {"name": "a", "image": "b", "securityContext": {"windowsOptions": {"hostProcess": True}}},
        {"name": "c", "image": "d"}]},
]  # fmt: skip


async def test_security_contexts(compared: ComparedNamespace) -> None:
    for number, context in enumerate(POD_CONTEXTS):
        await compared.offer(PODS, pod(f"pod-{number}", securityContext=context))
    for number, context in enumerate(CONTAINER_CONTEXTS):
        await compared.offer(PODS, pod(f"container-{number}", {"securityContext": context}))
        again = pod(f"init-{number}", initContainers=[
            {"name": "first", "image": "busybox:1", "securityContext": context}
        ])  # fmt: skip
        await compared.offer(PODS, again)
    for number, spec in enumerate(SPECS):
        await compared.offer(PODS, pod(f"spec-{number}", **spec))
    assert compared.refused > 60
    compared.check()


LIMITS = Resource("", "v1", "limitranges", "LimitRange")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
JOBS = Resource("batch", "v1", "jobs", "Job")


def limit_range(name: str, *limits: Document) -> Document:
    return {"metadata": {"name": name}, "spec": {"limits": list(limits)}}


BROKEN_LIMITS: list[Document] = [
    {"type": "Nothing"},
    {"type": ""},
    {"type": "example.com/own", "max": {"cpu": "1"}},
    {"type": "Container", "max": {"apples": "1"}},
    {"type": "Container", "max": {"pods": "1"}},
    {"type": "PersistentVolumeClaim", "max": {"pods": "1"}},
    {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}, "min": {"storage": "2Gi"}},
    {"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}},
    {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
    {"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}},
    {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "2"}},
    {"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1500m"}},
    {"type": "Container", "min": {"memory": "1Gi"}, "defaultRequest": {"memory": "1Mi"}},
    {"type": "Container", "max": {"memory": "1Mi"}, "defaultRequest": {"memory": "1Gi"}},
    {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
    {"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}, "min": {"cpu": "1"},
     "max": {"cpu": "2500m"}},
    {"type": "Container", "default": {"nvidia.com/gpu": "2"},
     "defaultRequest": {"nvidia.com/gpu": "1"}},
    {"type": "Container", "max": {"requests.nvidia.com/gpu": "1"}},
]  # fmt: skip


async def test_invalid_limit_ranges(compared: ComparedNamespace) -> None:
    for number, limit in enumerate(BROKEN_LIMITS):
        await compared.offer(LIMITS, limit_range(f"broken-{number}", limit))
    twice = limit_range("twice", *[{"type": "Pod", "max": {"cpu": "1"}}] * 2)
    await compared.offer(LIMITS, twice)
    await compared.offer(LIMITS, limit_range("none"))
    compared.check()


def asking(requests: Document | None = None, limits: Document | None = None) -> Document:
    given = {"requests": requests, "limits": limits}
    return {"resources": {key: value for key, value in given.items() if value is not None}}


ASKING: list[Document] = [
    {},
    asking({"cpu": "50m"}),
    asking({"cpu": "200m"}, {"cpu": "1"}),
    asking({"cpu": "200m"}, {"cpu": "5"}),
    asking({"cpu": "3"}, {"cpu": "3"}),
    asking({"cpu": "300m", "memory": "1Mi"}, {"cpu": "900m", "memory": "2Mi"}),
    asking({"memory": "1e3"}, {"memory": "1G"}),
    asking(None, {"cpu": "0"}),
    asking({"cpu": "0"}, {"cpu": "1"}),
    asking({"nvidia.com/gpu": "3"}, {"nvidia.com/gpu": "3"}),
]


@pytest.mark.parametrize(
    "limits",
    [
        [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}],
        [{"type": "Container", "default": {"memory": "1Gi", "cpu": "1"}}],
        [{"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}}],
        [{"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}}],
        [{"type": "Pod", "max": {"cpu": "2", "memory": "64Mi"}}],
        [{"type": "Pod", "min": {"cpu": "300m"}, "maxLimitRequestRatio": {"memory": "2"}}],
        [{"type": "Container", "max": {"nvidia.com/gpu": "2"}}],
        [{"type": "Container", "min": {"memory": "2Mi"}, "max": {"memory": "4Mi"}},
         {"type": "Pod", "max": {"memory": "5Mi"}}],
    ],
)  # fmt: skip
async def test_limit_ranges(compared: ComparedNamespace, limits: list[Document]) -> None:
    await compared.offer(LIMITS, limit_range("all", *limits))
    for number, container in enumerate(ASKING):
        await compared.offer(PODS, pod(f"a-{number}", container))
        init = [{"name": "first", "image": "busybox:1", **container}]
        await compared.offer(PODS, pod(f"b-{number}", container, initContainers=init))
        sidecar = [{**init[0], "restartPolicy": "Always"}, {**init[0], "name": "second"}]
        await compared.offer(PODS, pod(f"c-{number}", container, initContainers=sidecar))
    compared.check()


def claim(name: str, size: str, **spec: Any) -> Document:
    resources = {"requests": {"storage": size}}
    whole = {"accessModes": ["ReadWriteOnce"], "resources": resources} | spec
    return {"metadata": {"name": name}, "spec": whole}


async def test_limit_ranges_of_claims(compared: ComparedNamespace) -> None:
    bounds = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    await compared.offer(LIMITS, limit_range("all", bounds))
    for number, size in enumerate(["1Mi", "1Gi", "2Gi", "2049Mi", "1.5Gi"]):
        await compared.offer(CLAIMS, claim(f"claim-{number}", size))
    compared.check()


BROKEN_QUOTAS: list[Document] = [
    {"hard": {"apples": "1"}},
    {"hard": {"storage": "1"}},
    {"hard": {"-": "1"}},
    {"hard": {"cpu": "-1"}},
    {"hard": {"pods": "1500m"}},
    {"hard": {"count/jobs.batch": "1.5"}},
    {"hard": {"requests.nvidia.com/gpu": "1.5"}},
    {"hard": {"example.com/thing": "500m"}},
    {"hard": {"hugepages-2Mi": "1"}},
    {"hard": {"requests.hugepages-2Mi": "2Mi"}},
    {"hard": {"services": "1"}, "scopes": ["BestEffort"]},
    {"hard": {"cpu": "1", "pods": "1"}, "scopes": ["BestEffort"]},
    {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
    {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating", "Strange"]},
    {"hard": {"limits.cpu": "1"}, "scopes": ["PriorityClass"]},
    *(
        {"hard": {"pods": "1", "services": "1"}, "scopeSelector": {"matchExpressions": [each]}}
        for each in (
            {"scopeName": "PriorityClass", "operator": "In"},
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]},
            {"scopeName": "PriorityClass", "operator": "Like"},
            {"scopeName": "Terminating", "operator": "In", "values": ["a"]},
            {"scopeName": "Strange", "operator": "Exists"},
        )
    ),
]


async def test_invalid_quotas(compared: ComparedNamespace) -> None:
    for number, spec in enumerate(BROKEN_QUOTAS):
        await compared.offer(QUOTAS, {"metadata": {"name": f"broken-{number}"}, "spec": spec})
    fixed: Document = {"metadata": {"name": "fixed"}, "spec": {"hard": {"pods": "1"}}}
    await compared.offer(QUOTAS, fixed)
    await compared.put(QUOTAS, {**fixed, "spec": {**fixed["spec"], "scopes": ["BestEffort"]}})
    compared.check()


async def limit(
    compared: ComparedNamespace,
    name: str,
    hard: Document,
    used: Document | None = None,
    **spec: Any,
) -> None:
    """Create a quota and fill in its status, as the controller does."""
    quota = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    await compared.offer(QUOTAS, quota)
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    await compared.put(QUOTAS, {**quota, "status": status}, "status")


async def test_quotas_of_pods(compared: ComparedNamespace) -> None:
    hard = {"pods": "5", "requests.cpu": "1", "limits.memory": "1Gi", "count/pods": "6"}
    await limit(compared, "compute", hard)
    for number in range(8):
        container = asking({"cpu": "200m"}, {"memory": "100Mi"})
        await compared.offer(PODS, pod(f"a-{number}", container))
        await compared.get(QUOTAS, "compute")
    for number, container in enumerate(ASKING):
        await compared.offer(PODS, pod(f"b-{number}", container))
    await compared.get(QUOTAS, "compute")
    compared.check()


@pytest.mark.parametrize(
    ("hard", "spec"),
    [
        ({"cpu": "1", "memory": "64Mi"}, {}),
        ({"requests.nvidia.com/gpu": "4"}, {}),
        ({"limits.cpu": "2", "requests.memory": "1G"}, {}),
        ({"requests.ephemeral-storage": "1Gi", "limits.ephemeral-storage": "1Gi"}, {}),
        ({"pods": "1"}, {"scopes": ["BestEffort"]}),
        ({"pods": "1", "cpu": "1"}, {"scopes": ["NotBestEffort"]}),
        ({"pods": "2"}, {"scopes": ["NotTerminating", "NotBestEffort"]}),
        ({"pods": "0"}, {"scopes": ["Terminating"]}),
        ({"pods": "1"}, {"scopes": ["CrossNamespacePodAffinity"]}),
        ({"pods": "1"}, {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}}),
        ({"pods": "1"}, {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In",
             "values": ["system-node-critical"]}]}}),
    ],
)  # fmt: skip
async def test_quotas_in_scopes(
    compared: ComparedNamespace, hard: Document, spec: Document
) -> None:
    await limit(compared, "some", hard, **spec)
    for number, container in enumerate(ASKING):
        await compared.offer(PODS, pod(f"a-{number}", container))
    for number in range(2):
        await compared.offer(PODS, pod(f"short-{number}", activeDeadlineSeconds=5))
        elsewhere = {"topologyKey": "zone", "namespaces": ["x"]}
        near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
        await compared.offer(PODS, pod(f"near-{number}", affinity=near))
        high: Document = {"priorityClassName": "system-node-critical"}
        await compared.offer(PODS, pod(f"high-{number}", **high))
    await compared.get(QUOTAS, "some")
    compared.check()


async def test_quotas_without_a_known_usage(compared: ComparedNamespace) -> None:
    await limit(compared, "unknown", {"pods": "5", "cpu": "1"}, {"pods": "1"})
    await compared.offer(PODS, pod("a", asking({"cpu": "1"})))
    await compared.offer(PODS, pod("b"))
    await compared.get(QUOTAS, "unknown")
    compared.check()


async def test_quotas_of_other_objects(compared: ComparedNamespace) -> None:
    hard = {"services": "3", "services.nodeports": "1", "services.loadbalancers": "1",
            "persistentvolumeclaims": "3", "requests.storage": "10Gi", "configmaps": "2",
            "gold.storageclass.storage.k8s.io/requests.storage": "4Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "count/jobs.batch": "1", "count/services": "5"}  # fmt: skip
    await limit(compared, "objects", hard)
    port = {"port": 80}
    for name, spec in {
        "a": {"ports": [port]},
        "b": {"ports": [port, {"port": 81, "name": "x"}], "type": "NodePort"},
        "c": {"ports": [port], "type": "NodePort"},
        "d": {"ports": [port], "type": "LoadBalancer"},
        "e": {"ports": [port], "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
        "f": {"ports": [port], "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
        "g": {"ports": [port]},
        "h": {"ports": [port]},
    }.items():
        await compared.offer(SERVICES, {"metadata": {"name": name}, "spec": spec})
    for name, size in {"a": "3Gi", "b": "2Gi", "c": "5000M", "d": "2Gi", "e": "1.5"}.items():
        more = {"storageClassName": "gold"} if name in "abd" else {}
        await compared.offer(CLAIMS, claim(name, size, **more))
    for name in "abc":
        await compared.offer(CONFIG_MAPS, {"metadata": {"name": name}})
        template = {**pod("x", restartPolicy="Never"), "metadata": {}}
        await compared.offer(JOBS, {"metadata": {"name": name}, "spec": {"template": template}})
    await compared.get(QUOTAS, "objects")
    compared.check()


CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)


def priority_class(name: str, value: int, **more: Any) -> Document:
    return {"metadata": {"name": name}, "value": value, **more}


async def test_priorities(compared: ComparedNamespace) -> None:
    start = compared.namespace
    quiet, first, second = (f"{start}-{name}" for name in ("quiet", "first", "second"))
    await compared.offer(CLASSES, priority_class(quiet, 7, preemptionPolicy="Never"))
    given: list[Document] = [
        {"priority": 5},
        {"priority": 0},
        {"priority": -1},
        {"preemptionPolicy": "Never"},
        {"preemptionPolicy": "PreemptLowerPriority"},
        {"priorityClassName": quiet},
        {"priorityClassName": quiet, "priority": 7, "preemptionPolicy": "Never"},
        {"priorityClassName": quiet, "priority": 8},
        {"priorityClassName": quiet, "preemptionPolicy": "PreemptLowerPriority"},
        {"priorityClassName": "system-node-critical", "priority": 1},
        {"priorityClassName": f"{start}-unknown", "priority": 1},
    ]
    for number, spec in enumerate(given):
        await compared.offer(PODS, pod(f"a-{number}", **spec))
    await compared.offer(CLASSES, priority_class(first, 9, globalDefault=True))
    await compared.offer(CLASSES, priority_class(second, 3, globalDefault=True))
    await compared.offer(CLASSES, priority_class(second, 3))
    await compared.put(CLASSES, priority_class(second, 3, globalDefault=True))
    await compared.put(CLASSES, priority_class(first, 9, globalDefault=True, description="x"))
    for number, spec in enumerate(given):
        await compared.offer(PODS, pod(f"b-{number}", **spec))
    # Other tests share the servers.
    await compared.put(CLASSES, priority_class(first, 9))
    compared.check()
    assert compared.refused == 17


VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
HOST: Document = {"hostPath": {"path": "/data"}}
VOLUME_SPECS: list[Document] = [
    HOST,
    {},
    {"hostPath": {"path": ""}},
    {"hostPath": {"path": "/a/../b"}},
    {"hostPath": {"path": "./data"}},
    {"hostPath": {"path": "/a", "type": "Nothing"}},
    {"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
    HOST | {"nfs": {"server": "a", "path": "/"}},
    {"nfs": {"server": "a", "path": "b"}},
    {"local": {"path": "/a"}},
    {"local": {"path": "../a"}, "nodeAffinity": {}},
    {"csi": {"driver": "", "volumeHandle": ""}},
    HOST | {"claimRef": {"namespace": "default", "name": "c"}},
    HOST | {"accessModes": []},
    HOST | {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]},
    HOST | {"accessModes": ["Sometimes"]},
    HOST | {"capacity": {}},
    HOST | {"capacity": {"storage": "0", "cpu": "1"}},
    HOST | {"persistentVolumeReclaimPolicy": "Forget"},
    HOST | {"storageClassName": "A_b"},
    HOST | {"volumeMode": "Tape"},
    HOST | {"mountOptions": ["ro"]},
]


async def test_persistent_volumes(compared: ComparedNamespace) -> None:
    usual: Document = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    for number, spec in enumerate(VOLUME_SPECS):
        meta = {"name": f"{compared.namespace}-{number}"}
        await compared.offer(VOLUMES, {"metadata": meta, "spec": usual | spec})
    first = {"name": f"{compared.namespace}-0"}
    for change in (
        {"hostPath": {"path": "/other"}},
        {"volumeMode": "Block"},
        {"mountOptions": ["x"]},
    ):
        await compared.put(VOLUMES, {"metadata": first, "spec": usual | HOST | change})
    compared.check()


async def test_claims_and_volumes_are_protected(compared: ComparedNamespace) -> None:
    for name, finalizers in (("a", []), ("b", ["example.com/mine"])):
        made = claim(name, "1Gi")
        made["metadata"]["finalizers"] = finalizers
        answer = await compared.offer(CLAIMS, made)
        assert answer["metadata"]["finalizers"] == [*finalizers, "kubernetes.io/pvc-protection"]
        # A client that replaces the whole object drops it; the controller adds it again.
        await compared.put(CLAIMS, made)
        await compared.get(CLAIMS, name)
    compared.check()
