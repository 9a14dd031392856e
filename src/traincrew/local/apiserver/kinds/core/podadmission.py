"""Admission of pods: service account, priority, tolerations and RuntimeClass.

The rules are those of upstream's admission plugins ServiceAccount, Priority, RuntimeClass and
DefaultTolerationSeconds (``k8s.io/kubernetes/plugin/pkg/admission``).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.objectmeta import generate_name
from traincrew.local.apiserver.values.errors import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.errors import StatusError

__all__ = ["admit", "default_priority_class", "tolerate_lost_nodes"]

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a name
_TOKEN_SECONDS = 3607
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_LOST_NODES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_SECONDS = 300


def admit(storage: Storage, pod: Document, *, service_accounts: bool) -> None:
    """Complete a new pod in place, or reject it.

    Args:
        storage: Holds what it refers to.
        pod: The pod.
        service_accounts: Whether it gets an account, which has to exist, and its token.

    Raises:
        StatusError: 403 for a reference to an object that does not exist, or for a priority that
            is not that of the pod's class.
    """
    if service_accounts:
        _set_account(storage, pod)
    _set_priority(storage, pod)
    tolerate_lost_nodes(pod)
    _set_runtime(storage, pod)


def tolerate_lost_nodes(pod: Document) -> None:
    """Add the tolerations by which a pod stays on a lost node for five minutes, in place."""
    spec = pod["spec"]
    known = spec.get("tolerations") or []
    effective = [each for each in known if each.get("effect") in {None, "", "NoExecute"}]
    keys = {each.get("key") or "" for each in effective}
    if "" in keys:  # every taint
        return
    missing = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _LOST_SECONDS,
        }
        for key in _LOST_NODES
        if key not in keys
    ]
    if missing:
        spec["tolerations"] = known + missing


def _forbidden(pod: Document, why: str) -> StatusError:
    return forbidden("pods", "", pod["metadata"].get("name", ""), why)


def _set_account(storage: Storage, pod: Document) -> None:
    """Set the service account, mount its token into the containers, and give it its pull secrets.

    A controller creates the ``default`` account of each namespace; a pod may be created before it.
    """
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    entry = storage.get("serviceaccounts", (namespace, account))
    if entry is None and account != "default":
        raise _forbidden(
            pod,
            f"error looking up service account {namespace}/{account}: "
            f'serviceaccount "{account}" not found',
        )
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None and entry is not None:
        wanted = entry.obj.get("automountServiceAccountToken")
    if wanted is not False:
        _mount_token(spec)
    secrets = None if entry is None else entry.obj.get("imagePullSecrets")
    if secrets and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = copy.deepcopy(secrets)


def _mount_token(spec: Document) -> None:
    without = [
        container
        for container in _containers(spec)
        if all(each.get("mountPath") != TOKEN_PATH for each in container.get("volumeMounts") or ())
    ]
    if not without:
        return
    known = next(
        (
            volume["name"]
            for volume in spec.get("volumes") or ()
            if "projected" in volume and volume["name"].startswith(_TOKEN_VOLUME)
        ),
        None,
    )
    name = known or generate_name(_TOKEN_VOLUME)
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if known is None:
        spec["volumes"] = [*(spec.get("volumes") or ()), _token_volume(name)]


def _token_volume(name: str) -> Document:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}


def _containers(spec: Document) -> Iterator[Document]:
    yield from spec.get("initContainers") or ()
    yield from spec["containers"] or ()


def _set_priority(storage: Storage, pod: Document) -> None:
    spec = pod["spec"]
    wanted = spec.get("priorityClassName", "")
    chosen: Document | None = None
    if wanted:
        entry = storage.get(_PRIORITY_CLASSES, ("", wanted))
        if entry is not None:
            chosen = entry.obj
        elif wanted in _SYSTEM_PRIORITIES:
            chosen = {"value": _SYSTEM_PRIORITIES[wanted]}
        else:
            raise _forbidden(pod, f"no PriorityClass with name {wanted} was found")
    else:
        chosen = default_priority_class(storage)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    chosen = chosen or {}
    priority = chosen.get("value", 0)
    policy = chosen.get("preemptionPolicy", "PreemptLowerPriority")
    for what, field, computed in (
        ("integer value of priority", "priority", priority),
        ("string value of PreemptionPolicy", "preemptionPolicy", policy),
    ):
        given = spec.setdefault(field, computed)
        if given != computed:
            raise _forbidden(
                pod,
                f"the {what} ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {computed} from the given PriorityClass name",
            )


def default_priority_class(storage: Storage) -> Document | None:
    """Return the class of pods that name none: of several, that with the lowest value."""
    classes = [entry.obj for entry in storage.scan(_PRIORITY_CLASSES)]
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each.get("value", 0)), default=None)


def _set_runtime(storage: Storage, pod: Document) -> None:
    """Apply the overhead, node selector and tolerations of the pod's RuntimeClass."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    overhead: Document = {}
    if name:
        entry = storage.get(_RUNTIME_CLASSES, ("", name))
        if entry is None:
            raise _forbidden(pod, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = (entry.obj.get("overhead") or {}).get("podFixed") or {}
        _apply_scheduling(pod, entry.obj.get("scheduling") or {})
    if spec.get("overhead") and spec["overhead"] != overhead:
        raise _forbidden(
            pod,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            if overhead
            else "pod rejected: Pod Overhead set without corresponding RuntimeClass defined "
            "Overhead",
        )
    if overhead:
        spec["overhead"] = dict(overhead)


def _apply_scheduling(pod: Document, scheduling: Document) -> None:
    spec = pod["spec"]
    selector = scheduling.get("nodeSelector") or {}
    own = spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if own.get(key, value) != value:
            raise _forbidden(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}",
            )
    if selector:
        spec["nodeSelector"] = own | selector
    known = spec.get("tolerations") or []
    missing = [each for each in scheduling.get("tolerations") or () if each not in known]
    if missing:
        spec["tolerations"] = known + missing
