"""Turns the values of the chart kube-openmpi into an MPICluster.

The documents below are written once, and rendered twice: here for `traincrew mpi`, and by the chart
(`traincrew.predecessors.openmpi`), whose templates are generated from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from traincrew.api.expressions import (
    All,
    Either,
    Encoded,
    Filled,
    ForEach,
    Get,
    Node,
    Number,
    Same,
    Shortened,
    When,
    built,
    get,
    gets,
    text,
)
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


def value(key: str) -> Get:
    """Return the expression of a value by its key, such as ``mpiWorkers.num``."""
    return get(f"values.{key}")


# -- the documents; the variables are the values, and the name of the cluster ----------------------

NAME = get("name")
APP_NAME = Shortened(value("nameOverride"), MAX_APP_NAME)
"""The name as kube-openmpi shortens it; empty if it is the default."""
SECRET_NAME = text(NAME, "-ssh-key")
HAS_KEYS = All(value("sshKey.id_rsa"), value("sshKey.id_rsa_pub"))
IS_EXEC = Same(value("transport"), EXEC)


def _if_enabled(section: str, part: Any) -> When:
    return When(value(f"{section}.enabled"), part)


def _unless_0(node: Node) -> When:
    return When(Filled(Number(node)), Number(node))


def _template(role: str, container: str) -> Document:
    scheduling = f"{role}.customScheduling"
    return {
        "spec": {
            "schedulerName": _if_enabled(scheduling, value(f"{scheduling}.schedulerName")),
            "securityContext": value(f"{role}.securityContext"),
            "imagePullSecrets": value("image.pullSecrets"),
            "nodeSelector": value(f"{role}.nodeSelector"),
            "tolerations": value(f"{role}.tolerations"),
            "affinity": value(f"{role}.affinity"),
            "volumes": value(f"{role}.volumes"),
            "containers": [
                {
                    "name": container,
                    "image": text(value("image.repository"), ":", value("image.tag")),
                    "imagePullPolicy": value("image.pullPolicy"),
                    "resources": value(f"{role}.resources"),
                    "volumeMounts": value(f"{role}.volumeMounts"),
                }
            ],
        }
    }


IS_GANG = All(
    value("mpiWorkers.customScheduling.enabled"),
    value("mpiWorkers.customScheduling.schedulerName"),
    Same(value("mpiWorkers.podManagementPolicy"), "Parallel"),
)
"""With another scheduler, the workers are placed together, as kube-batchd did for kube-openmpi.
Workers that are created one after the other cannot be."""
_BUDGET = "mpiWorkers.customScheduling.podDisruptionBudget"
CLUSTER: Document = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": {"name": NAME},
    "spec": {
        "appName": APP_NAME,
        "transport": When(IS_EXEC, value("transport")),
        "hostfile": {
            "autoUpdate": value("mpiMaster.autoUpdateHostfile.enabled"),
            "updateSeconds": Number(value("mpiMaster.autoUpdateHostfile.updateEvery")),
        },
        "ssh": {
            "keySecretName": When(HAS_KEYS, SECRET_NAME),
            "gateway": {
                "enabled": _if_enabled("sshGateway", True),
                "nodePort": _if_enabled("sshGateway", Number(value("sshGateway.nodePort"))),
            },
        },
        "networkPolicy": {"enabled": _if_enabled("networkPolicy", True)},
        "master": {
            "oneShot": _if_enabled(
                "mpiMaster.oneShot",
                {
                    "command": value("mpiMaster.oneShot.command"),
                    "scaleDownWorkers": value("mpiMaster.oneShot.autoScaleDownWorkers"),
                },
            ),
            "template": _template("mpiMaster", MASTER_CONTAINER),
        },
        "workers": {
            "replicas": Number(value("mpiWorkers.num")),
            "podManagementPolicy": value("mpiWorkers.podManagementPolicy"),
            "podDisruptionBudget": {
                "enabled": _if_enabled("mpiWorkers.customScheduling", _if_enabled(_BUDGET, True))
            },
            "template": _template("mpiWorkers", WORKER_CONTAINER),
        },
        "runPolicy": {
            "schedulingPolicy": {"minAvailable": When(IS_GANG, Number(value("mpiWorkers.num")))}
        },
        "codeSync": ForEach(
            value("appCodesToSync"),
            "code",
            {
                "name": get("code.name"),
                "repository": get("code.gitRepo"),
                "branch": get("code.gitBranch"),
                "timeoutSeconds": _unless_0(get("code.fetchWaitSecond")),
                "updateSeconds": _unless_0(get("code.updateEvery")),
                "mountPath": get("code.mountPath"),
                "subPath": get("code.subPath"),
                "secretName": get("code.gitSecretName"),
            },
        ),
    },
}

SECRET: Document = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": SECRET_NAME,
        "labels": {
            "app": Either(APP_NAME, DEFAULT_APP_NAME),
            "chart": CHART_LABEL,
            "release": NAME,
            "heritage": HERITAGE,
        },
    },
    "type": "Opaque",
    "data": {
        "id_rsa": Encoded(value("sshKey.id_rsa")),
        "id_rsa.pub": Encoded(value("sshKey.id_rsa_pub")),
        "authorized_keys": Encoded(value("sshKey.id_rsa_pub")),
    },
}
"""The Secret with the keys, if the values have some."""


# -- what becomes of values -----------------------------------------------------------------------


def documents(values: Document, name: str, namespace: str | None = None) -> list[Document]:
    """Return the MPICluster that values describe, behind the Secret if they have keys.

    Args:
        values: Valid values, as `traincrew.api.kinds.mpicluster.values.merged` returns them.
        name: The name of the cluster: the Helm release name.
        namespace: The namespace, if it is to be in the documents.
    """
    scope = {"values": values, "name": name}
    found = [cluster(values, name)]
    if HAS_KEYS.value(scope):
        found.insert(0, built(SECRET, scope))
    if namespace:
        for document in found:
            metadata = document["metadata"]
            document["metadata"] = {"name": name, "namespace": namespace} | metadata
    return found


def cluster(values: Document, name: str) -> Document:
    """Return the MPICluster; what is not set, or empty, is left out."""
    document: Document = built(CLUSTER, {"values": values, "name": name})
    return document


@cache
def fields() -> dict[str, list[str]]:
    """Return the fields of ``spec`` that each key of the values becomes, by its path."""
    found: dict[str, list[str]] = {}
    for key, field in _places(CLUSTER["spec"], "", {"values": ""}, ()):
        found.setdefault(key, []).append(field)
    return found


def _places(
    part: Any, field: str, prefixes: Mapping[str, str], tested: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the keys in a part, each with its field.

    Args:
        part: A part of the document.
        field: Its path.
        prefixes: The variables, each with the path of what it stands for.
        tested: The keys of the innermost condition: that is what a constant becomes, or a mapping.
    """
    match part:
        case Node():
            keys = _keys(part, prefixes) or tested
            yield from ((key, field) for key in keys)
        case When(test, inner):
            yield from _places(inner, field, prefixes, _keys(test, prefixes))
        case ForEach(over, variable, inner):
            (key,) = _keys(over, prefixes)
            yield key, field
            yield from _places(inner, f"{field}[]", {**prefixes, variable: f"{key}[]."}, ())
        case Mapping():
            yield from ((key, field) for key in tested)
            for name, inner in part.items():
                yield from _places(inner, f"{field}.{name}".lstrip("."), prefixes, ())
        case list():
            for inner in part:
                yield from _places(inner, f"{field}[]", prefixes, ())
        case bool():
            yield from ((key, field) for key in tested)


def _keys(node: Node, prefixes: Mapping[str, str]) -> tuple[str, ...]:
    found = (each for each in gets(node) if each.variable in prefixes)
    return tuple(dict.fromkeys(prefixes[each.variable] + ".".join(each.keys) for each in found))
