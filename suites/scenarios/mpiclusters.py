"""The MPIClusters of the scenarios, whose pods run only a shell, and what happens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import CONFIG_MAPS

from .context import is_ready, uid
from .manifests import GATE, IMAGE, WAIT

if TYPE_CHECKING:
    from traincrew.engine.resources import Resource

    from .context import ScenarioContext
    from .recording import Document

_WAIT_FOR_HOSTFILE = """\
for i in $(seq 60); do
  [ "$(cat "$HOSTFILE")" = "@TEXT@" ] && break
  sleep 1
done
cat "$HOSTFILE"
"""
_NAME = "mpicluster.traincrew.dev/name"
_ALWAYS = {"exec": {"command": ["true"]}, "periodSeconds": 1}
"""The pods have no sshd, so nothing listens on its port."""
_INIT = '#!/bin/sh\nexec sh -c "$*"\n'
"""`/init.sh` of the images starts sshd, and then the command that it is given."""


def template(container: str, **fields: Any) -> Document:
    """Return a pod template with a container that runs a shell script."""
    found = {"name": container, "image": IMAGE, "readinessProbe": _ALWAYS, **fields}
    return {"spec": {"containers": [found], "terminationGracePeriodSeconds": 5}}


def interactive(name: str, *, workers: int = 1, **spec: Any) -> Document:
    """Return a cluster whose master waits; further fields are the spec's."""
    return {
        "apiVersion": "traincrew.dev/v1alpha1",
        "kind": "MPICluster",
        "metadata": {"name": name},
        "spec": {
            "master": {"template": template("mpi-master", command=["sh", "-c", WAIT])},
            "workers": {
                "replicas": workers,
                "template": template("mpi-worker", command=["sh", "-c", WAIT]),
            },
            **spec,
        },
    }


async def one_shot(
    context: ScenarioContext, name: str, script: str = GATE, *, workers: int = 1, **spec: Any
) -> Document:
    """Return a cluster that ends with a script; the ConfigMap that it needs is created."""
    metadata = {"name": "init"}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await context.client.create(
        CONFIG_MAPS, {**document, "data": {"init.sh": _INIT}}, context.namespace
    )
    job = interactive(name, workers=workers, **spec)
    mount = {"name": "init", "mountPath": "/init.sh", "subPath": "init.sh"}
    master = template("mpi-master", volumeMounts=[mount])
    volume = {"name": "init", "configMap": {"name": "init", "defaultMode": 0o555}}
    master["spec"]["volumes"] = [volume]
    job["spec"]["master"] = {"oneShot": {"command": script}, "template": master}
    return job


def hosts(context: ScenarioContext, name: str) -> dict[str, Document]:
    """Return the newest pods of a cluster by the rest of their name, such as ``worker-0``."""
    return {
        pod["metadata"]["name"].removeprefix(f"{name}-"): pod
        for pod in context.recording.all("Pod")
        if pod["metadata"].get("labels", {}).get(_NAME) == name
    }


async def ready(
    context: ScenarioContext, name: str, *wanted: str, after: Document | None = None
) -> dict[str, Document]:
    """Wait until exactly these pods are there and ready; return them.

    Args:
        context: The scenario.
        name: The cluster.
        wanted: Their names, without that of the cluster.
        after: A pod that must not be among them any more.
    """

    def found() -> dict[str, Document] | None:
        pods = hosts(context, name)
        if set(pods) != set(wanted) or not all(map(is_ready, pods.values())):
            return None
        old = after is not None and uid(after) in set(map(uid, pods.values()))
        return None if old else pods

    pods: dict[str, Document] = await context.until(f"{wanted} of {name} are ready", found)
    return pods


async def hostfile(context: ScenarioContext, name: str, *wanted: str) -> None:
    """Wait until a hostfile lists these pods, and check that the master reads it."""
    text = "".join(f"{name}-{each}.{name}\n" for each in wanted)

    def written() -> bool:
        found = context.recording.find("ConfigMap", f"{name}-assets")
        return found is not None and found["data"]["hostfile"] == text

    await context.until(f"the hostfile of {name} lists {wanted}", written)
    script = _WAIT_FOR_HOSTFILE.replace("@TEXT@", text.strip())
    assert await context.execute(hosts(context, name)["master"], script) == text


async def scale(context: ScenarioContext, resource: Resource, name: str, replicas: int) -> None:
    """Scale a cluster or its StatefulSet as ``kubectl scale`` does."""
    await context.client.request(
        "PATCH",
        resource.path(context.namespace, name, "scale"),
        body={"spec": {"replicas": replicas}},
        content_type="application/merge-patch+json",
    )


async def at_rest(context: ScenarioContext, name: str, *left: str) -> None:
    """Wait until only these pods are left and nothing changes any more."""
    await context.until(f"only {left} are left", lambda: set(hosts(context, name)) == set(left))
    await context.at_rest()
