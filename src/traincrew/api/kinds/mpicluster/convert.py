"""Turns the values of the chart kube-openmpi into an MPICluster.

The chart (`traincrew.predecessors.openmpi`) does the same with Helm's templates.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.kinds.mpicluster.types import (
    API_VERSION,
    DEFAULT_APP_NAME,
    KIND,
    MASTER_CONTAINER,
    WORKER_CONTAINER,
)

CHART_LABEL = "kube-openmpi-0.7.0"
"""Value of the label ``chart`` of what a cluster owns: the chart whose objects these are."""
HERITAGE = "traincrew"
MAX_APP_NAME = 63

Document = dict[str, Any]


def documents(values: Document, name: str, namespace: str | None = None) -> list[Document]:
    """Return the MPICluster that values describe, behind the Secret if they have keys.

    Args:
        values: Valid values, as `traincrew.api.kinds.mpicluster.values.merged` returns them.
        name: The name of the cluster: what a release is for Helm.
        namespace: The namespace, if it is to be in the documents.
    """
    found = [cluster(values, name)]
    if _has_keys(values):
        found.insert(0, secret(values, name))
    if namespace:
        for document in found:
            metadata = document["metadata"]
            document["metadata"] = {"name": name, "namespace": namespace} | metadata
    return found


def secret(values: Document, name: str) -> Document:
    """Return the Secret with the keys that values have."""
    keys = values["sshKey"]
    public = _encoded(keys["id_rsa_pub"])
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _secret_name(name),
            "labels": {
                "app": _app_name(values) or DEFAULT_APP_NAME,
                "chart": CHART_LABEL,
                "release": name,
                "heritage": HERITAGE,
            },
        },
        "type": "Opaque",
        "data": {
            "id_rsa": _encoded(keys["id_rsa"]),
            "id_rsa.pub": public,
            "authorized_keys": public,
        },
    }


def cluster(values: Document, name: str) -> Document:
    """Return the MPICluster; what is not set, or empty, is left out."""
    hostfile = values.get("mpiMaster", {}).get("autoUpdateHostfile", {})
    gateway = values.get("sshGateway", {})
    spec = {
        "appName": _app_name(values),
        "transport": EXEC if values.get("transport") == EXEC else None,
        "hostfile": _filled(
            {
                "autoUpdate": hostfile.get("enabled"),
                "updateSeconds": _number(hostfile.get("updateEvery")),
            }
        ),
        "ssh": _filled(
            {
                "keySecretName": _secret_name(name) if _has_keys(values) else None,
                "gateway": _filled({"enabled": True, "nodePort": _number(gateway.get("nodePort"))})
                if gateway.get("enabled")
                else None,
            }
        ),
        "networkPolicy": {"enabled": True}
        if values.get("networkPolicy", {}).get("enabled")
        else None,
        "master": _master(values),
        "workers": _workers(values),
        "codeSync": [_code(each) for each in values.get("appCodesToSync", [])],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": _filled(spec),
    }


def _master(values: Document) -> Document:
    given = values.get("mpiMaster", {})
    one_shot = given.get("oneShot", {})
    command = _filled(
        {
            "command": one_shot.get("command"),
            "scaleDownWorkers": one_shot.get("autoScaleDownWorkers"),
        }
    )
    return _filled(
        {
            "oneShot": command if one_shot.get("enabled") else None,
            "template": _template(values, given, MASTER_CONTAINER),
        }
    )


def _workers(values: Document) -> Document:
    given = values.get("mpiWorkers", {})
    scheduling = given.get("customScheduling", {})
    budget = scheduling.get("podDisruptionBudget", {})
    return _filled(
        {
            "replicas": _number(given.get("num")),
            "podManagementPolicy": given.get("podManagementPolicy"),
            "podDisruptionBudget": {"enabled": True}
            if scheduling.get("enabled") and budget.get("enabled")
            else None,
            "template": _template(values, given, WORKER_CONTAINER),
        }
    )


def _template(values: Document, given: Document, container: str) -> Document:
    image = values.get("image", {})
    scheduling = given.get("customScheduling", {})
    pod = {
        "schedulerName": scheduling.get("schedulerName") if scheduling.get("enabled") else None,
        "securityContext": given.get("securityContext"),
        "imagePullSecrets": image.get("pullSecrets"),
        "nodeSelector": given.get("nodeSelector"),
        "tolerations": given.get("tolerations"),
        "affinity": given.get("affinity"),
        "volumes": given.get("volumes"),
        "containers": [
            _filled(
                {
                    "name": container,
                    "image": f"{image.get('repository')}:{image.get('tag')}",
                    "imagePullPolicy": image.get("pullPolicy"),
                    "resources": given.get("resources"),
                    "volumeMounts": given.get("volumeMounts"),
                }
            )
        ],
    }
    return {"spec": _filled(pod)}


def _code(given: Document) -> Document:
    return _filled(
        {
            "name": given["name"],
            "repository": given["gitRepo"],
            "branch": given.get("gitBranch"),
            "timeoutSeconds": _number(given.get("fetchWaitSecond")) or None,
            "updateSeconds": _number(given.get("updateEvery")) or None,
            "mountPath": given["mountPath"],
            "subPath": given.get("subPath"),
            "secretName": given.get("gitSecretName"),
        }
    )


def _has_keys(values: Document) -> bool:
    keys = values.get("sshKey", {})
    return bool(keys.get("id_rsa") and keys.get("id_rsa_pub"))


def _secret_name(name: str) -> str:
    return f"{name}-ssh-key"


def _app_name(values: Document) -> str:
    """Return the name as kube-openmpi shortens it; empty if it is the default."""
    return str(values.get("nameOverride", ""))[:MAX_APP_NAME].removesuffix("-")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _filled(mapping: Document) -> Document:
    """Return the entries that are set and not empty; false and 0 are values."""
    return {key: value for key, value in mapping.items() if value not in (None, "", [], {})}
