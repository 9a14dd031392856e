"""Rules for the volumes of a pod, and for references that env variables use as well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.fields import one_of
from traincrew.local.apiserver.kinds.shared.meta import annotation_rules, labels
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    config_map_key_fault,
    label_fault,
    qualified_name_fault,
    subdomain_fault,
)
from traincrew.local.quantity import parse

from .resources import claim_spec

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "PULL_POLICIES",
    "descending_path",
    "field_reference",
    "key_reference",
    "path_without_backsteps",
    "resource_reference",
    "source_rules",
    "volumes",
]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS = frozenset((*_ENV_FIELDS, *_VOLUME_FIELDS, "spec.restartPolicy", "status.phase"))
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def volumes(
    found: list[Cause], spec: Document, path: str, *, is_pod: bool = False
) -> dict[str, Document]:
    """Validate all volumes of a pod spec.

    Args:
        found: causes are added to it.
        spec: the pod spec.
        path: path of its volumes.
        is_pod: whether it is a Pod's own, not a template's.

    Returns:
        The valid ones by name.
    """
    known: dict[str, Document] = {}
    for index, volume in enumerate(items(spec, "volumes")):
        here = f"{path}[{index}]"
        faults: list[Cause] = []
        if is_pod and "image" in volume and not field(volume, "image").get("reference"):
            faults.append(why.required(f"{here}.image.reference"))
        _source(faults, volume, here)
        name = volume.get("name", "")
        if name:
            fault = label_fault(name)
            if fault:
                faults.append(why.invalid(f"{here}.name", name, fault))
        else:
            faults.append(why.required(f"{here}.name"))
        if name in known:
            faults.append(why.duplicate(f"{here}.name", name))
        if faults:
            found.extend(faults)
        else:
            known[name] = volume
    return known


# In the order upstream checks them; the first one found is accepted, others are refused.
# fmt: off
_VOLUMES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret",
    "nfs", "iscsi", "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs",
    "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO",
    "csi", "ephemeral", "image",
)
# fmt: on


_ONE_TYPE = "may not specify more than 1 volume type"
_MISSPELT = {"downwardAPI": "downwarAPI"}
"""Names that upstream misspells in this message."""


_ORDER = {kind: index for index, kind in enumerate(_VOLUMES)}


def _order(kind: str) -> int:
    return _ORDER.get(kind, len(_ORDER))


def _source(found: list[Cause], volume: Document, path: str) -> None:
    kinds = [kind for kind in volume if kind != "name"]
    if len(kinds) > 1:
        kinds.sort(key=_order)
    if not kinds:
        found.append(why.required(path, "must specify a volume type"))
        return
    source_rules(found, kinds[0], field(volume, kinds[0]), f"{path}.{kinds[0]}")
    found.extend(
        why.forbidden(f"{path}.{_MISSPELT.get(kind, kind)}", _ONE_TYPE) for kind in kinds[1:]
    )


def source_rules(found: list[Cause], kind: str, source: Document, path: str) -> None:
    """Validate the source of a volume of a pod, or of a PersistentVolume with the same field."""
    check = _SOURCES.get(kind)
    if check is not None:
        check(found, source, path)


def _empty_dir(found: list[Cause], source: Document, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse(limit) < 0:
        detail = "SizeLimit field must be a valid resource quantity"
        found.append(why.forbidden(f"{path}.sizeLimit", detail))


def _host_path(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("path"):
        found.append(why.required(f"{path}.path"))
        return
    path_without_backsteps(found, source["path"], f"{path}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        found.append(why.not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES))


def _secret(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("secretName"):
        found.append(why.required(f"{path}.secretName"))
    _mode(found, source, "defaultMode", path)
    _keys(found, source, path)


def _config_map(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("name"):
        found.append(why.required(f"{path}.name"))
    _mode(found, source, "defaultMode", path)
    _keys(found, source, path)


def _downward(found: list[Cause], source: Document, path: str) -> None:
    _mode(found, source, "defaultMode", path)
    _downward_items(found, source, path)


def _downward_items(found: list[Cause], source: Document, path: str) -> None:
    for index, item in enumerate(items(source, "items")):
        here = f"{path}.items[{index}]"
        if not item.get("path"):
            found.append(why.required(f"{here}.path"))
        _local_path(found, item.get("path", ""), f"{here}.path")
        by_field, by_resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if by_field is not None:
            field_reference(found, by_field, f"{here}.fieldRef", volume=True)
            if by_resource is not None:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                found.append(why.invalid(here, "resource", detail))
        elif by_resource is not None:
            resource_reference(found, by_resource, f"{here}.resourceFieldRef", volume=True)
        else:
            found.append(why.required(path, "one of fieldRef and resourceFieldRef is required"))
        _mode(found, item, "mode", here)


def _claim(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("claimName"):
        found.append(why.required(f"{path}.claimName"))


def _image(found: list[Cause], source: Document, path: str) -> None:
    one_of(found, source, "pullPolicy", path, PULL_POLICIES)


def _nfs(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("path", "/").startswith("/"):
        found.append(why.invalid(f"{path}.path", source["path"], "must be an absolute path"))


_PROJECTIONS = (
    "clusterTrustBundle",
    "configMap",
    "downwardAPI",
    "podCertificate",
    "secret",
    "serviceAccountToken",
)


def _projected(found: list[Cause], source: Document, path: str) -> None:
    _mode(found, source, "defaultMode", path)
    for index, projection in enumerate(items(source, "sources")):
        here = f"{path}.sources[{index}]"
        kinds = [kind for kind in _PROJECTIONS if kind in projection]
        for kind in kinds[1:]:
            detail = "may not specify more than 1 volume type per source"
            found.append(why.forbidden(f"{here}.{kind}", detail))
        if not kinds:
            continue  # sic: projects nothing
        inner, place = field(projection, kinds[0]), f"{here}.{kinds[0]}"
        if kinds[0] in ("configMap", "secret"):
            if not inner.get("name"):
                found.append(why.required(f"{place}.name"))
            _keys(found, inner, place)
        elif kinds[0] == "downwardAPI":
            _downward_items(found, inner, place)
        elif kinds[0] == "serviceAccountToken":
            seconds = inner.get("expirationSeconds", 3600)
            if seconds < 600:
                detail = "may not specify a duration less than 10 minutes"
                found.append(why.invalid(f"{place}.expirationSeconds", seconds, detail))
            _local_path(found, inner.get("path", ""), f"{place}.path")


def _ephemeral(found: list[Cause], source: Document, path: str) -> None:
    if "volumeClaimTemplate" not in source:
        found.append(why.required(f"{path}.volumeClaimTemplate"))
        return
    template, here = field(source, "volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    labels(found, field(template, "metadata", "labels"), f"{here}.metadata.labels")
    annotation_rules(
        found, field(template, "metadata", "annotations"), f"{here}.metadata.annotations"
    )
    claim_spec(found, field(template, "spec"), f"{here}.spec")


_SOURCES = {
    "configMap": _config_map,
    "downwardAPI": _downward,
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "image": _image,
    "nfs": _nfs,
    "persistentVolumeClaim": _claim,
    "projected": _projected,
    "secret": _secret,
}


def _keys(found: list[Cause], source: Document, path: str) -> None:
    for index, item in enumerate(items(source, "items")):
        here = f"{path}.items[{index}]"
        for key in ("key", "path"):
            if not item.get(key):
                found.append(why.required(f"{here}.{key}"))  # noqa: PERF401 - nearly always none
        _local_path(found, item.get("path", ""), f"{here}.path")
        _mode(found, item, "mode", here)


def _mode(found: list[Cause], source: Document, key: str, path: str) -> None:
    mode = source.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        found.append(why.invalid(f"{path}.{key}", mode, _MODE))


def path_without_backsteps(found: list[Cause], value: str, path: str) -> None:
    """Refuse a path that leads upwards."""
    if ".." in value.split("/"):
        found.append(why.invalid(path, value, "must not contain '..'"))


def descending_path(found: list[Cause], value: str, path: str) -> None:
    """Validate a relative path that does not leave its directory."""
    if value.startswith("/"):
        found.append(why.invalid(path, value, "must be a relative path"))
    path_without_backsteps(found, value, path)


def _local_path(found: list[Cause], value: str, path: str) -> None:
    descending_path(found, value, path)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        found.append(why.invalid(path, value, "must not start with '..'"))


def field_reference(
    found: list[Cause], reference: Document, path: str, *, volume: bool = False
) -> None:
    """Validate a reference to a field of the pod itself."""
    wanted = reference.get("fieldPath", "")
    if not wanted:
        found.append(why.required(f"{path}.fieldPath"))
        return
    if reference.get("apiVersion", "v1") != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        found.append(why.invalid(f"{path}.fieldPath", wanted, detail))
        return
    match = _SUBSCRIPT.fullmatch(wanted)
    if match is not None:
        base, key = match.groups()
        if base not in ("metadata.annotations", "metadata.labels"):
            detail = "error converting fieldPath: field label does not support subscript: "
            found.append(why.invalid(f"{path}.fieldPath", wanted, detail + wanted))
            return
        fault = qualified_name_fault(key.lower() if base == "metadata.annotations" else key)
        if fault:
            found.append(why.invalid(path, key, fault))
        return
    supported = _VOLUME_FIELDS if volume else _ENV_FIELDS
    if wanted not in _KNOWN_FIELDS:
        detail = f"error converting fieldPath: field label not supported: {wanted}"
        found.append(why.invalid(f"{path}.fieldPath", wanted, detail))
    elif wanted not in supported:
        found.append(why.not_supported(f"{path}.fieldPath", wanted, supported))


def resource_reference(
    found: list[Cause], reference: Document, path: str, *, volume: bool = False
) -> None:
    """Validate a reference to a request or limit of a container."""
    resource = reference.get("resource", "")
    if volume and not reference.get("containerName"):
        found.append(why.required(f"{path}.containerName"))
    elif not resource:
        found.append(why.required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(
        ("limits.hugepages-", "requests.hugepages-")
    ):
        found.append(why.not_supported(f"{path}.resource", resource, _RESOURCES))


def key_reference(found: list[Cause], reference: Document, path: str) -> None:
    """Validate a reference to a key of a ConfigMap or Secret."""
    name, key = reference.get("name", ""), reference.get("key", "")
    fault = subdomain_fault(name)
    if fault:
        found.append(why.invalid(f"{path}.name", name, fault))
    if key:
        fault = config_map_key_fault(key)
        if fault:
            found.append(why.invalid(f"{path}.key", key, fault))
    else:
        found.append(why.required(f"{path}.key"))
