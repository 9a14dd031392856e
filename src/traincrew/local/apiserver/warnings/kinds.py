"""Warnings about objects of every kind: the ``Warning`` headers of a successful write.

One function per kind. Semantics and texts: upstream's ``WarningsOnCreate`` and ``WarningsOnUpdate``
of every kind's strategy. Most updates get warnings only if the desired state has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from traincrew.local.apiserver.values.codec import encode_sorted
from traincrew.local.apiserver.values.documents import Document, field, items
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION, label_fault

from .pod import claim_spec, ip_address, pod_template

__all__ = ["advise", "repeated_owners"]

_Advice = Callable[[Document, Document | None], Iterator[str]]


def _label_name(obj: Document, where: str = "Pod names and hostnames") -> Iterator[str]:
    name = obj["metadata"].get("name", "")
    fault = label_fault(name)
    if fault:
        yield (
            f"metadata.name: this is used in {where}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{fault}]"
        )


def _same_generation(obj: Document, old: Document | None) -> bool:
    return old is not None and (
        obj["metadata"].get("generation") == old["metadata"].get("generation")
    )


def _replicas(obj: Document, old: Document | None) -> Iterator[str]:
    """Yield warnings about Deployments, ReplicaSets and ReplicationControllers."""
    if old is None:
        yield from _label_name(obj)
    if not _same_generation(obj, old):
        yield from pod_template(field(obj, "spec", "template"), "spec.template")


def _stateful_set(obj: Document, old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    if not _same_generation(obj, old):
        yield from pod_template(field(spec, "template"), "spec.template")
    for index, claim in enumerate(items(spec, "volumeClaimTemplates")):
        here = f"spec.volumeClaimTemplates[{index}]" + (".Spec" if old is not None else "")
        yield from claim_spec(field(claim, "spec"), here)
    if spec.get("revisionHistoryLimit", 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _daemon_set(obj: Document, old: Document | None) -> Iterator[str]:
    generations = [
        field(each, "metadata", "annotations").get(TEMPLATE_GENERATION)
        for each in (obj, *filter(None, [old]))
    ]
    if old is None or generations[0] != generations[1]:
        yield from pod_template(field(obj, "spec", "template"), "spec.template")


_MAX_COMPLETIONS, _MAX_PARALLELISM = 100_000, 10_000


def _job_spec(spec: Document, path: str) -> Iterator[str]:
    if (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > _MAX_COMPLETIONS
        and (spec.get("parallelism") or 0) > _MAX_PARALLELISM
    ):
        yield (
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a "
            "parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes "
            "when a big number of indexes fail"
        )
    yield from pod_template(field(spec, "template"), f"{path}.template")


def _job(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None:
        yield from _label_name(obj)
    if not _same_generation(obj, old):
        yield from _job_spec(field(obj, "spec"), "spec")


def _cron_job(obj: Document, old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    if old is None:
        yield from _label_name(obj)
    if not _same_generation(obj, old):
        yield from _job_spec(field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    if old is not None and "TZ" in spec.get("schedule", ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


def _template(obj: Document, old: Document | None) -> Iterator[str]:
    if not _same_generation(obj, old):
        yield from pod_template(field(obj, "template"), "template")


def _pod(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None:
        yield from _label_name(obj, "the Pod's hostname")
        yield from pod_template(obj, "")


def _claim(obj: Document, _old: Document | None) -> Iterator[str]:
    key = "volume.beta.kubernetes.io/storage-class"
    if key in field(obj, "metadata", "annotations"):
        text = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{key}]: {text}"
    yield from claim_spec(field(obj, "spec"), "spec")


def _service(obj: Document, _old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    kind, outside = spec.get("type", "ClusterIP"), spec.get("externalIPs") or ()
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if "service.kubernetes.io/topology-aware-hints" in field(obj, "metadata", "annotations"):
        yield (
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
            "service.kubernetes.io/topology-mode instead"
        )
    if kind != "ExternalName" and spec.get("clusterIP") not in (None, "", "None"):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            yield from ip_address(address, f"spec.clusterIPs[{index}]")
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for index, address in enumerate(outside):
        yield from ip_address(address, f"spec.externalIPs[{index}]")
    if outside and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from ip_address(spec["loadBalancerIP"], "spec.loadBalancerIP")
    if kind == "ExternalName" and outside:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ingress(obj: Document, old: Document | None) -> Iterator[str]:
    key = "kubernetes.io/ingress.class"
    marked = key in field(obj, "metadata", "annotations")
    if old is None and marked and "ingressClassName" not in field(obj, "spec"):
        yield f"annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead"


def _endpoint_slice(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None and obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    by = field(obj, "metadata", "labels").get("endpointslice.kubernetes.io/managed-by", "")
    if by in ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"):
        return
    for index, endpoint in enumerate(items(obj, "endpoints")):
        for position, address in enumerate(endpoint.get("addresses") or ()):
            yield from ip_address(address, f"endpoints[{index}].addresses[{position}]")


def _service_account(obj: Document, old: Document | None) -> Iterator[str]:
    key = "kubernetes.io/enforce-mountable-secrets"
    marked = [key in field(each or {}, "metadata", "annotations") for each in (obj, old)]
    if marked == [True, False]:
        text = "prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{key}]: deprecated in v1.32+; {text}"


_ADVICE: dict[str, _Advice] = {
    "cronjobs.batch": _cron_job,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _replicas,
    "endpointslices.discovery.k8s.io": _endpoint_slice,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "pods": _pod,
    "podtemplates": _template,
    "replicasets.apps": _replicas,
    "replicationcontrollers": _replicas,
    "serviceaccounts": _service_account,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}


def advise(resource: str, obj: Document, old: Document | None = None) -> list[str]:
    """Return the warnings about an object.

    Args:
        resource: plural and group, such as ``jobs.batch``.
        obj: the valid object about to be stored.
        old: the stored object, when this is an update of more than the status.
    """
    advice = _ADVICE.get(resource)
    return list(islice(advice(obj, old), _MAX_WARNINGS)) if advice is not None else []


_MAX_WARNINGS = 500  # more than a response has room for


def repeated_owners(document: Document, *, changed: bool) -> list[str]:
    """Return a warning if an owner is referenced twice.

    Args:
        document: the object.
        changed: whether the client sent a patch, not the whole object.
    """
    owners = document["metadata"].get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    seen: set[bytes] = set()
    uids = []
    for owner in owners:
        encoded = encode_sorted(owner)
        if encoded in seen:
            uids.append(owner.get("uid", ""))
        seen.add(encoded)
    if not uids:
        return []
    when = " after mutating admission happens" if changed else ""
    text = (
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(uids)}"
    )
    return [text]
