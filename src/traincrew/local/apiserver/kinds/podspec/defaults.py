"""Static defaults of pods and pod templates (``pkg/apis/core/v1/defaults.go``).

Documents come straight from requests: values of an unexpected type are left unchanged here and
refused by validation afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.defaults import default_phase
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["default_claim", "default_pod_spec", "default_template"]


_DEFAULT_MODE = 0o644

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def _pull_policy(image: Any) -> str:
    """Return Always for the tag ``latest``, explicit or implied, and IfNotPresent otherwise."""
    if type(image) is not str or "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _http_get(action: Any) -> None:
    if type(action) is dict:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _probe(probe: Document) -> None:
    # Zero is treated like a missing field, as in Go.
    for key, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(key):
            probe[key] = value
    _http_get(probe.get("httpGet"))
    if type(probe.get("grpc")) is dict:
        probe["grpc"].setdefault("service", "")


def _field_reference(source: Document) -> None:
    reference = source.get("fieldRef")
    if type(reference) is dict:
        reference.setdefault("apiVersion", "v1")
    reference = source.get("resourceFieldRef")
    if type(reference) is dict:
        reference.setdefault("divisor", "0")


def _container(container: Document) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image"))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    container.setdefault("resources", {})
    if "ports" in container:
        for port in items(container, "ports"):
            if not port.get("protocol"):
                port["protocol"] = "TCP"
    if "env" in container:
        for variable in items(container, "env"):
            source = variable.get("valueFrom")
            if type(source) is dict:
                _field_reference(source)
                if type(source.get("fileKeyRef")) is dict:
                    source["fileKeyRef"].setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if type(probe) is dict:
            _probe(probe)
    lifecycle = container.get("lifecycle")
    if type(lifecycle) is dict:
        _http_get(field(lifecycle, "postStart").get("httpGet"))
        _http_get(field(lifecycle, "preStop").get("httpGet"))


def _downward(source: Document) -> None:
    for item in items(source, "items"):
        _field_reference(item)


def _claim_spec(spec: Document) -> None:
    """Fill in the defaults of the spec of a PersistentVolumeClaim, in place."""
    spec.setdefault("volumeMode", "Filesystem")
    if type(spec.get("resources")) is not dict:
        spec.setdefault("resources", {})


_SOURCE_DEFAULTS: dict[str, Document] = {
    "secret": {"defaultMode": _DEFAULT_MODE},
    "configMap": {"defaultMode": _DEFAULT_MODE},
    "downwardAPI": {"defaultMode": _DEFAULT_MODE},
    "projected": {"defaultMode": _DEFAULT_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "kind": "Shared",
        "fsType": "ext4",
        "readOnly": False,
    },
}


def _volume(volume: Document) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
        return
    for kind, values in _SOURCE_DEFAULTS.items():
        source = volume.get(kind)
        if type(source) is dict:
            for key, value in values.items():
                source.setdefault(key, value)
    if "downwardAPI" in volume:
        _downward(field(volume, "downwardAPI"))
    if "projected" in volume:
        for source in items(volume, "projected", "sources"):
            token = source.get("serviceAccountToken")
            if type(token) is dict:
                token.setdefault("expirationSeconds", 3600)
            _downward(field(source, "downwardAPI"))
    image = volume.get("image")
    if type(image) is dict and not image.get("pullPolicy"):
        image["pullPolicy"] = _pull_policy(image.get("reference"))
    if "ephemeral" in volume:
        template = field(volume, "ephemeral").get("volumeClaimTemplate")
        if type(template) is dict and type(template.setdefault("spec", {})) is dict:
            _claim_spec(template["spec"])


def default_pod_spec(spec: Any) -> None:
    """Fill in the defaults of any pod spec, of a Pod or of a template, in place."""
    if type(spec) is not dict:
        return
    for key, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(key):
            spec[key] = value
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in _CONTAINER_LISTS:
        if name in spec:
            for container in items(spec, name):
                _container(container)
    if "volumes" in spec:
        for volume in items(spec, "volumes"):
            _volume(volume)


def default_template(template: Any) -> None:
    """Fill in the defaults of a pod template, in place."""
    if type(template) is dict:
        template.setdefault("metadata", {})
        template.setdefault("spec", {})
        default_pod_spec(template.get("spec"))


def default_claim(obj: Document) -> None:
    """Fill in the defaults of a PersistentVolumeClaim, in place."""
    if type(obj.get("spec")) is dict:
        _claim_spec(obj["spec"])
    default_phase(obj, "Pending")
