"""Warnings about pods and pod templates: valid, but hardly what the author intended.

Semantics and texts: ``k8s.io/kubernetes`` ``pkg/api/pod/warnings.go``.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_value_fault
from traincrew.local.quantity import parse

from .ports import container_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["warn_of_address", "warn_of_claim", "warn_of_template"]

_ZONE = "failure-domain.beta.kubernetes.io"
_OLD_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    f"{_ZONE}/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    f"{_ZONE}/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_OLD_VOLUMES = {  # in upstream's order
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "ephemeral": "",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTES = ("memory", "ephemeral-storage")
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def warn_of_template(template: Document, path: str) -> Iterator[str]:
    """Yield warnings about a pod template or a pod.

    Args:
        template: metadata and spec, defaulted and valid.
        path: path of the template; empty for a pod.
    """
    spec, annotations = field(template, "spec"), field(template, "metadata", "annotations")
    prefix = f"{path}." if path else ""
    here, notes = f"{prefix}spec", f"{prefix}metadata.annotations"
    if not _PLACEMENT.isdisjoint(spec):
        yield from _placement(spec, here)
    if annotations:
        for key, text in _OLD_ANNOTATIONS.items():
            if key in annotations:
                yield f"{notes}[{key}]: {text}"
    if "volumes" in spec:
        yield from _volumes(spec, here)
    if "hostAliases" in spec:
        yield from _repeated(spec, "hostAliases", "ip", here)
    if "imagePullSecrets" in spec:
        yield from _repeated(spec, "imagePullSecrets", "name", here)
        for index, secret in enumerate(items(spec, "imagePullSecrets")):
            if not secret.get("name"):
                yield f'{here}.imagePullSecrets[{index}].name: invalid empty name ""'
    if "overhead" in spec:
        yield from _fractions(field(spec, "overhead"), f"{here}.overhead")
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in annotations and not field(spec, "securityContext").get("seccompProfile"):
        yield f"{notes}[{key}]: {_SECCOMP}"
    containers = list(_containers(spec, here))
    for container, place in containers:
        yield from _container(container, place, annotations, notes)
    if any("ports" in container for container, _ in containers):
        yield from container_ports(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{here}.terminationGracePeriodSeconds: {text}"
    if "affinity" in spec:
        for kind in ("podAffinity", "podAntiAffinity"):
            yield from _null_selectors(field(spec, "affinity", kind), f"{here}.affinity.{kind}")
    if "dnsConfig" in spec:
        for index, server in enumerate(field(spec, "dnsConfig").get("nameservers") or ()):
            yield from warn_of_address(server, f"{here}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(items(spec, "hostAliases")):
        yield from warn_of_address(alias.get("ip", ""), f"{here}.hostAliases[{index}].ip")


_PLACEMENT = frozenset({"affinity", "nodeSelector", "topologySpreadConstraints"})


def _placement(spec: Document, here: str) -> Iterator[str]:
    for key in field(spec, "nodeSelector"):
        if key in _OLD_NODE_LABELS:
            yield f"{here}.nodeSelector[{key}]: {_OLD_NODE_LABELS[key]}"
    nodes, place = field(spec, "affinity", "nodeAffinity"), f"{here}.affinity.nodeAffinity"
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(items(nodes, name, "nodeSelectorTerms")):
        where = f"{place}.{name}.nodeSelectorTerms[{index}]"
        yield from _node_term(term, where, values=False)
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(items(nodes, name)):
        where = f"{place}.{name}[{index}].preference"
        yield from _node_term(field(weighted, "preference"), where, values=True)
    for index, spread in enumerate(items(spec, "topologySpreadConstraints")):
        where, key = f"{here}.topologySpreadConstraints[{index}]", spread.get("topologyKey", "")
        if key in _OLD_NODE_LABELS:
            yield f"{where}.topologyKey: {key} is {_OLD_NODE_LABELS[key]}"
        if spread.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NULL_SELECTOR}"


def _node_term(term: Document, path: str, *, values: bool) -> Iterator[str]:
    for index, expression in enumerate(items(term, "matchExpressions")):
        here, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if key in _OLD_NODE_LABELS:
            yield f"{here}.key: {key} is {_OLD_NODE_LABELS[key]}"
        for position, value in enumerate(expression.get("values") or () if values else ()):
            fault = label_value_fault(value)
            if fault:
                yield f"{here}.values[{position}]: {value} is invalid, {fault}"


def _volumes(spec: Document, here: str) -> Iterator[str]:
    volumes = items(spec, "volumes")
    for index, volume in enumerate(volumes):
        if _OLD_VOLUMES.keys().isdisjoint(volume):
            continue
        for kind, text in _OLD_VOLUMES.items():
            if kind not in volume:
                continue
            place = f"{here}.volumes[{index}].{'storageOS' if kind == 'storageos' else kind}"
            if text:
                yield f"{place}: {text}"
            elif "volumeClaimTemplate" in volume[kind]:
                claim = field(volume, kind, "volumeClaimTemplate", "spec")
                yield from warn_of_claim(claim, f"{place}.volumeClaimTemplate.spec")
    for volume in volumes:
        if not _PATHS.isdisjoint(volume):
            yield from _overlaps(volume)


_PATHS = frozenset({"configMap", "downwardAPI", "projected", "secret"})
"""The volumes with paths."""

_Place = tuple[str, str]
"""A path in a volume, and its source."""


def _overlaps(volume: Document) -> Iterator[str]:
    name = _quoted(volume.get("name", ""))
    for kind, what in (("configMap", "name"), ("secret", "secretName"), ("downwardAPI", "")):
        if kind not in volume:
            continue
        paths = [(item.get("path", ""), "") for item in items(volume, kind, "items")]
        described = f"{kind[0].upper()}{kind[1:]}"
        if what:
            described += f" {_quoted(volume.get(kind, {}).get(what, ''))}"
        for _, text in _colliding(paths):
            yield f"volume {name} ({described}): overlapping paths: {text}"
    if "projected" not in volume:
        return
    sources = list(items(volume, "projected", "sources"))
    places = [
        (index, place) for index, source in enumerate(sources) for place in _projected(source)
    ]
    texts: dict[int, list[str]] = {}
    for position, text in _colliding([place for _, place in places]):
        texts.setdefault(places[position][0], []).append(text)
    for index, source in enumerate(sources):
        if not source:
            yield f"volume {name} (Projected) has no sources provided"
        for text in texts.get(index, ()):
            yield f"volume {name} (Projected): overlapping paths: {text}"


def _projected(source: Document) -> list[_Place]:
    for kind in ("configMap", "secret", "downwardAPI"):
        if "items" in field(source, kind):
            described = f"{kind[0].upper()}{kind[1:]}"
            if kind != "downwardAPI":
                described += f" {_quoted(source[kind].get('name', ''))}"
            return [(item.get("path", ""), described) for item in items(source, kind, "items")]
    if "serviceAccountToken" in source:
        return [(source["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    if "clusterTrustBundle" in source:
        bundle = source["clusterTrustBundle"]
        described = _quoted(bundle.get("name", bundle.get("signerName", "")))
        return [(bundle.get("path", ""), f"ClusterTrustBundle {described}")]
    certificate = field(source, "podCertificate")
    fields = {
        "certificateChainPath": "chain",
        "keyPath": "key",
        "credentialBundlePath": "credential bundle",
    }
    return [
        (certificate[key], f"PodCertificate {word}")
        for key, word in fields.items()
        if certificate.get(key)
    ]


_MAX_PAIRS = 500  # more than a response has room for


def _colliding(places: list[_Place]) -> list[tuple[int, str]]:
    """Return the paths that equal, contain or are below an earlier one, with their positions."""
    paths = [(f"{path}/", index) for index, (raw, _) in enumerate(places) if (path := _bare(raw))]
    if len(paths) < 2:
        return []
    paths.sort()
    # In this order, what a path contains follows it directly.
    containing: list[tuple[str, int]] = []
    pairs: list[tuple[int, int]] = []
    for path, index in paths:
        while containing and not path.startswith(containing[-1][0]):
            containing.pop()
        pairs.extend((max(index, other), min(index, other)) for _, other in containing)
        if len(pairs) > _MAX_PAIRS:
            break
        containing.append((path, index))
    found = []
    for later, earlier in sorted(pairs[:_MAX_PAIRS]):
        both = [_described(_bare(places[each][0]), places[each][1]) for each in (later, earlier)]
        found.append((later, " with ".join(both)))
    return found


def _bare(path: str) -> str:
    return path.rstrip("/")


def _described(path: str, source: str) -> str:
    return f"{_quoted(path)} ({source})" if source else _quoted(path)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _repeated(spec: Document, key: str, name: str, here: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items(spec, key) if key in spec else ()):
        value = item.get(name, "")
        if value in seen:
            yield f'{here}.{key}[{index}].{name}: duplicate {name} "{value}"'
        seen.add(value)


def _fractions(amounts: Document, path: str, names: tuple[str, ...] = _BYTES) -> Iterator[str]:
    """Yield warnings about fractions of a byte."""
    for name in names:
        amount = amounts.get(name)
        if amount is not None and _is_fraction(amount):
            yield f'{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _is_fraction(amount: Any) -> bool:
    # Without a decimal point, only these suffixes can make a fraction.
    text = str(amount)
    if not text.endswith(("n", "u", "m")) and "." not in text and "e-" not in text.lower():
        return False
    return bool(parse(amount).denominator != 1)


def _containers(spec: Document, here: str) -> Iterator[tuple[Document, str]]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(items(spec, key)):
            yield container, f"{here}.{key}[{index}]"


def _container(container: Document, path: str, annotations: Document, notes: str) -> Iterator[str]:
    if annotations:
        yield from _profiles(container, annotations, notes)
    resources = container.get("resources")
    if resources:
        for name in _BYTES:
            for part in ("limits", "requests"):
                if name in (amounts := field(resources, part)):
                    yield from _fractions(amounts, f"{path}.resources.{part}", (name,))
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            reference, value = f"$({name})", variable.get("value", "")
            if "valueFrom" in variable or value == reference or reference not in value:
                text = f'hides previous definition of "{name}", which may be dropped'
                yield f"{path}.env[{index}]: {text} when using apply"
        seen.add(name)


def _profiles(container: Document, annotations: Document, notes: str) -> Iterator[str]:
    name, context = container.get("name", ""), field(container, "securityContext")
    key = f"container.seccomp.security.alpha.kubernetes.io/{name}"
    if key in annotations and not context.get("seccompProfile"):
        yield f"{notes}[{key}]: {_SECCOMP}"
    key = f"container.apparmor.security.beta.kubernetes.io/{name}"
    if (
        key in annotations
        and not context.get("appArmorProfile")
        and notes != "metadata.annotations"
    ):
        yield f'{notes}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _null_selectors(affinity: Document, path: str) -> Iterator[str]:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(items(affinity, name)):
        if term.get("labelSelector") is None:
            yield f"{path}.{name}[{index}].labelSelector: {_NULL_SELECTOR}"
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(items(affinity, name)):
        if field(term, "podAffinityTerm").get("labelSelector") is None:
            yield f"{path}.{name}[{index}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}"


def warn_of_claim(spec: Document, path: str) -> Iterator[str]:
    """Yield warnings about the spec of a PersistentVolumeClaim."""
    for part in ("requests", "limits"):
        amounts = field(spec, "resources", part)
        yield from _fractions(amounts, f"{path}.resources.{part}", ("storage",))


def warn_of_address(value: str, path: str) -> Iterator[str]:
    """Yield warnings about an IP address in a non-canonical form."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return  # invalid addresses (also leading zeros) are refused by validation
    if address.version == 4:
        return
    if address.ipv4_mapped is not None:
        text = f'non-standard IP address "{value}" is invalid: use "{address.ipv4_mapped}"'
        yield f"{path}: {text}"
    elif str(address) != value:
        text = f'IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")'
        yield f"{path}: {text}"
