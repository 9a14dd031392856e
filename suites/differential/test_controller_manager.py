"""The real kube-controller-manager works with the embedded API server as with a real one.

Nothing else runs: no controller of ours, no scheduler, no kubelet. The test writes the status that
a kubelet would report.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from hack.cluster import binaries
from hack.cluster.certificates import Authority, service_account_key
from hack.cluster.processes import Process

from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import make_certificate

from .reference import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

Document = dict[str, Any]

PROGRAM = "kube-controller-manager"
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
DEADLINE = 40.0
NAMESPACE = "work"
NODE = "node-1"
# Errors in the program's log that occur with any API server.
EXPECTED_ERRORS = (
    "The manifest file is empty, ignoring",  # about options that are not set
    "is not as new as written version",  # its cache has not seen its own write yet; it retries
    "the object has been modified; please apply your changes",  # two controllers write one object
    "failed to get cpu resource metric value",  # there is no metrics server
    # The quota controller lists kinds that are not served here: docs/design/not-emulated.md.
    "failed to list *v1.DeviceClass:",
    "failed to list *v1.ResourceClaim:",
)
# Controllers of kinds the embedded server does not serve (docs/design/not-emulated.md), and that of
# token Secrets, whose use upstream's API server records.
ABSENT = (
    "certificatesigningrequest-approving",
    "certificatesigningrequest-cleaner",
    "certificatesigningrequest-signing",
    "device-taint-eviction",
    "ephemeral-volume",
    "legacy-serviceaccount-token-cleaner",
    "persistentvolume-attach-detach",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "podcertificaterequest-cleaner",
    "resourceclaim",
    "service-cidr",
    "validatingadmissionpolicy-status",
    "volumeattributesclass-protection",
)
CONTROLLERS = ",".join(["*", *(f"-{name}-controller" for name in ABSENT)])


class Cluster:
    """A client of the API, and a kubelet that only reports status."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def request(self, method: str, path: str, body: Any = None, kind: str = "") -> Document:
        headers = {"Content-Type": kind or "application/json"}
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._url + path, data=data, headers=headers
        ) as response:
            return {"code": response.status, **(await response.json())}

    async def create(self, path: str, document: Document) -> Document:
        answer = await self.request("POST", path, document)
        assert answer["code"] == 201, answer
        return answer

    async def merge(self, path: str, change: Document) -> Document:
        answer = await self.request("PATCH", path, change, "application/merge-patch+json")
        assert answer["code"] == 200, answer
        return answer

    async def until(
        self, what: str, condition: Callable[[], Awaitable[bool]], seconds: float = DEADLINE
    ) -> None:
        deadline = time.monotonic() + seconds
        while not await condition():
            assert time.monotonic() < deadline, f"after {seconds:.0f} s: {what}"
            await asyncio.sleep(0.1)

    async def field(self, path: str, *names: str) -> Any:
        value: Any = await self.request("GET", path)
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    async def gone(self, path: str) -> bool:
        return bool((await self.request("GET", path))["code"] == 404)

    async def join(self) -> None:
        """Create a node that stays ready for the whole test."""
        await self.create("/api/v1/nodes", {"metadata": {"name": NODE}})
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        condition = ready | {"lastHeartbeatTime": now, "lastTransitionTime": now}
        capacity = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        status = {"conditions": [condition], "capacity": capacity, "allocatable": capacity}
        await self.merge(f"/api/v1/nodes/{NODE}/status", {"status": status})

    async def run_kubelet(self) -> None:
        """Bind every pod, report it as running (or succeeded, if of a Job); remove deleted ones."""
        number = 0
        while True:
            for pod in (await self.request("GET", "/api/v1/pods"))["items"]:
                metadata = pod["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                if "deletionTimestamp" in metadata:
                    await self.request("DELETE", path, {"gracePeriodSeconds": 0})
                elif pod["status"].get("phase") == "Pending":
                    number += 1
                    target = {"target": {"kind": "Node", "name": NODE}}
                    await self.request("POST", f"{path}/binding", target | {"metadata": metadata})
                    await self._report(
                        pod, number, succeeded="job-name" in metadata.get("labels", {})
                    )
            await asyncio.sleep(0.1)

    async def _report(self, pod: Document, number: int, *, succeeded: bool) -> None:
        metadata, now = pod["metadata"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = "False" if succeeded else "True"
        ended = {"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now}}
        states = [
            {
                "name": container["name"],
                "ready": not succeeded,
                "restartCount": 0,
                "image": container["image"],
                "imageID": "",
                "state": ended if succeeded else {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ]
        address = f"10.244.0.{number % 250 + 1}"
        status = {
            "phase": "Succeeded" if succeeded else "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": states,
            "conditions": [
                {"type": name, "status": ready, "lastTransitionTime": now}
                for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        # The pod may be deleted by now.
        await self.request("PATCH", path, {"status": status}, "application/merge-patch+json")


@asynccontextmanager
async def controlled(directory: Path) -> AsyncIterator[tuple[Cluster, Process]]:
    """Run an API server with only the real controller manager."""
    async with AsyncExitStack() as stack:
        storage = Storage()
        stack.callback(storage.close)
        server = ApiServer(storage, secret="controller-manager-suite")
        certificate = make_certificate(directory)
        await server.start(certificate=certificate)
        stack.push_async_callback(server.stop)
        trusted = ssl.create_default_context(cadata=certificate.authority)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted),
                headers={"Authorization": f"Bearer {server.token}"},
            )
        )
        cluster = Cluster(server.url, session)
        config = directory / "kubeconfig"
        write_kubeconfig(config, server.kubeconfig())
        authority = Authority(directory / "certificates")
        key = service_account_key(authority.directory).key
        process = Process(PROGRAM, directory / "processes", directory / "logs" / f"{PROGRAM}.log")
        await asyncio.to_thread(binaries.build, PROGRAM, print)
        process.start([
            str(binaries.path(PROGRAM)),
            f"--kubeconfig={config}",
            "--leader-elect=false",
            f"--controllers={CONTROLLERS}",
            f"--root-ca-file={authority.certificate}",
            f"--service-account-private-key-file={key}",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ])  # fmt: skip
        stack.push_async_callback(asyncio.to_thread, process.stop)
        await cluster.join()
        kubelet = asyncio.create_task(cluster.run_kubelet())
        stack.callback(kubelet.cancel)
        yield cluster, process


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lacking := missing((PROGRAM,)):
        text = "kube-controller-manager cannot run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return tmp_path_factory.mktemp("controllers")


def template(app: str, image: str = "i:1", **spec: Any) -> Document:
    """Return a pod template."""
    containers = [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


async def check_deployment(cluster: Cluster) -> None:
    """Create, scale and roll a Deployment; check its endpoints and disruption budget."""
    apps, core = f"/apis/apps/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 2, "selector": selector, "template": template("web")}
    await cluster.create(f"{apps}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    ports = [{"port": 80, "name": "http"}]
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    await cluster.create(f"{core}/services", service)
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 3, "selector": selector}}
    await cluster.create(budgets, budget)

    async def settled(replicas: int) -> bool:
        live = await cluster.request("GET", f"{apps}/deployments/web")
        status = live.get("status", {})
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        return bool(
            status.get("observedGeneration") == live["metadata"]["generation"]
            and [status.get(name) for name in counts] == [replicas] * 3
        )

    await cluster.until("2 pods available", lambda: settled(2))
    await cluster.merge(f"{apps}/deployments/web/scale", {"spec": {"replicas": 4}})
    await cluster.until("4 pods available", lambda: settled(4))
    await cluster.merge(f"{apps}/deployments/web", {"spec": {"template": template("web", "i:2")}})
    await cluster.until("4 new pods available", lambda: settled(4))
    sets = (await cluster.request("GET", f"{apps}/replicasets"))["items"]
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 4]

    async def addressed() -> bool:
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        found = (await cluster.request("GET", slices))["items"]
        endpoints = [each for slice_ in found for each in slice_.get("endpoints") or ()]
        subsets = await cluster.field(f"{core}/endpoints/web", "subsets") or []
        classic = [each for subset in subsets for each in subset.get("addresses", ())]
        ready = [each for each in endpoints if each["conditions"].get("ready")]
        return len(ready) == len(endpoints) == len(classic) == 4

    await cluster.until("4 addresses in both kinds of endpoints", addressed)

    async def budgeted() -> bool:
        status = await cluster.field(f"{budgets}/web", "status")
        wanted = {"currentHealthy": 4, "desiredHealthy": 3, "disruptionsAllowed": 1}
        return bool(wanted.items() <= status.items())

    await cluster.until("the budget allows 1 disruption", budgeted)


async def check_stateful_set(cluster: Cluster) -> None:
    """Create pods one after the other, each with a claim; scale down from the last."""
    apps, core = f"/apis/apps/v1/namespaces/{NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec = {
        "replicas": 3,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template("db"),
        "volumeClaimTemplates": [claim],
    }
    await cluster.create(f"{apps}/statefulsets", {"metadata": {"name": "db"}, "spec": spec})

    async def has(count: int) -> bool:
        status = await cluster.field(f"{apps}/statefulsets/db", "status")
        return bool([status.get("replicas"), status.get("availableReplicas")] == [count] * 2)

    await cluster.until("3 pods of the StatefulSet", lambda: has(3))
    for index in range(3):
        answer = await cluster.request("GET", f"{core}/persistentvolumeclaims/data-db-{index}")
        assert answer["code"] == 200, answer
    await cluster.merge(f"{apps}/statefulsets/db", {"spec": {"replicas": 1}})
    await cluster.until("1 pod of the StatefulSet", lambda: has(1))
    assert await cluster.gone(f"{core}/pods/db-1")


async def check_job(cluster: Cluster) -> None:
    """Run four completions two at a time; a second, finished Job is cleaned up by its TTL."""
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    pod = template("sum", restartPolicy="Never")
    spec = {"completions": 4, "parallelism": 2, "template": pod}
    await cluster.create(jobs, {"metadata": {"name": "sum"}, "spec": spec})
    short = {"template": pod, "ttlSecondsAfterFinished": 0}
    await cluster.create(jobs, {"metadata": {"name": "short"}, "spec": short})

    async def complete() -> bool:
        status = await cluster.field(f"{jobs}/sum", "status")
        conditions = {each["type"] for each in status.get("conditions", ())}
        return bool(status.get("succeeded") == 4 and "Complete" in conditions)

    await cluster.until("the Job is complete", complete)
    await cluster.until("the short Job is cleaned up", lambda: cluster.gone(f"{jobs}/short"))


async def check_garbage(cluster: Cluster) -> None:
    """Check that dependents are deleted with their owner, or orphaned."""
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for policy in ("Background", "Foreground", "Orphan"):
        owner = await cluster.create(maps, {"metadata": {"name": f"owner-{policy.lower()}"}})
        name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
        child = f"child-{policy.lower()}"
        metadata = {"name": child, "ownerReferences": [reference | {"blockOwnerDeletion": True}]}
        await cluster.create(maps, {"metadata": metadata})
        await cluster.request("DELETE", f"{maps}/{name}", {"propagationPolicy": policy})
        await cluster.until(f"{name} is gone", partial(cluster.gone, f"{maps}/{name}"))
        if policy == "Orphan":
            assert not await cluster.field(f"{maps}/{child}", "metadata", "ownerReferences")
        else:
            await cluster.until(f"{child} is gone", partial(cluster.gone, f"{maps}/{child}"))


async def check_namespace(cluster: Cluster) -> None:
    """Check that a namespace gets its defaults, and is deleted with everything in it."""
    path = "/api/v1/namespaces/short-lived"
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "short-lived"}})

    async def provisioned() -> bool:
        names = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
        return not any([await cluster.gone(f"{path}/{name}") for name in names])

    await cluster.until("the namespace has account and certificates", provisioned)
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template("x"), "replicas": 2}
    await cluster.create(
        "/apis/apps/v1/namespaces/short-lived/deployments",
        {"metadata": {"name": "x"}, "spec": spec},
    )

    async def runs() -> bool:
        return len((await cluster.request("GET", f"{path}/pods"))["items"]) == 2

    await cluster.until("2 pods in the namespace", runs)
    await cluster.request("DELETE", path)
    await cluster.until("the namespace is gone", lambda: cluster.gone(path))
    assert (await cluster.request("GET", f"{path}/pods"))["items"] == []


async def check_quota_and_autoscaler(cluster: Cluster) -> None:
    """Check that a quota's usage is counted, and that an autoscaler reports missing metrics."""
    core = f"/api/v1/namespaces/{NAMESPACE}"
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "50"}}}
    await cluster.create(f"{core}/resourcequotas", quota)
    scalers = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 9}
    await cluster.create(scalers, {"metadata": {"name": "web"}, "spec": spec})

    async def counted() -> bool:
        used = await cluster.field(f"{core}/resourcequotas/q", "status", "used")
        return bool(used and int(used["configmaps"]) >= 1)

    await cluster.until("the quota is counted", counted)

    async def reports_missing_metrics() -> bool:
        conditions = await cluster.field(f"{scalers}/web", "status", "conditions") or ()
        reasons = {each["reason"] for each in conditions if each["type"] == "ScalingActive"}
        return reasons == {"FailedGetResourceMetric"}

    await cluster.until("the autoscaler misses its metrics", reports_missing_metrics)


def errors_of(log: Path) -> list[str]:
    """Return the log lines of level error or worse, without those a real server also causes."""
    lines = [line for line in log.read_text().splitlines() if re.match(r"[EF]\d{4} ", line)]
    return [line for line in lines if not any(text in line for text in EXPECTED_ERRORS)]


async def test_the_controllers_do_their_work(directory: Path) -> None:
    async with controlled(directory) as (cluster, process):
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        checks = (
            check_deployment,
            check_stateful_set,
            check_job,
            check_garbage,
            check_namespace,
            check_quota_and_autoscaler,
        )
        try:
            await asyncio.gather(*(check(cluster) for check in checks))
        except AssertionError as error:
            pytest.fail(f"{error}\n{process.tail(40)}", pytrace=False)
    faults = errors_of(process.log)
    assert not faults, "\n".join(faults)
