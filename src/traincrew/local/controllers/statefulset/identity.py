"""Names, labels and claims of the pods of a StatefulSet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import STATEFUL_SETS
from traincrew.local.controllers.common import owner_reference
from traincrew.local.controllers.pods import from_template
from traincrew.local.controllers.revisions import REVISION_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.objects import AnyObject

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def pod_name(owner: AnyObject, ordinal: int) -> str:
    """Return the name, and hostname, of the pod with this ordinal."""
    return f"{owner.metadata.name}-{ordinal}"


def ordinal_of(owner: AnyObject, name: str) -> int | None:
    """Return the ordinal in a pod's name; None if it is not a name of this StatefulSet's."""
    prefix, _, number = name.rpartition("-")
    canonical = number == "0" or (number.isdecimal() and not number.startswith("0"))
    return int(number) if canonical and prefix == owner.metadata.name else None


def first_ordinal(owner: AnyObject) -> int:
    """Return `spec.ordinals.start`."""
    return int((owner.spec.get("ordinals") or {}).get("start") or 0)


def claim_name(owner: AnyObject, template: Mapping[str, Any], ordinal: int) -> str:
    """Return the name of the PersistentVolumeClaim a pod gets from one claim template."""
    return f"{_template_name(template)}-{pod_name(owner, ordinal)}"


def claims_of(owner: AnyObject, ordinal: int) -> list[dict[str, Any]]:
    """Return the PersistentVolumeClaims of one pod."""
    claims = []
    policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    labels = (owner.spec.get("selector") or {}).get("matchLabels") or {}
    for template in owner.spec.get("volumeClaimTemplates") or ():
        meta = template.get("metadata") or {}
        metadata: dict[str, Any] = {
            "name": claim_name(owner, template, ordinal),
            "namespace": owner.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **labels},
        }
        if meta.get("annotations"):
            metadata["annotations"] = meta["annotations"]
        if policy.get("whenDeleted") == "Delete":
            metadata["ownerReferences"] = [owner_reference(owner, STATEFUL_SETS)]
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": template.get("spec") or {},
            }
        )
    return claims


def pod_of(
    owner: AnyObject, ordinal: int, template: Mapping[str, Any], revision: str
) -> dict[str, Any]:
    """Return the pod with this ordinal.

    Args:
        owner: The StatefulSet.
        ordinal: Ordinal of the pod.
        template: The pod template of `revision`.
        revision: Name of a ControllerRevision.
    """
    name = pod_name(owner, ordinal)
    spec: dict[str, Any] = {"hostname": name}
    if service := owner.spec.get("serviceName"):
        spec["subdomain"] = service
    mine = {
        _template_name(claim): {
            "name": _template_name(claim),
            "persistentVolumeClaim": {"claimName": claim_name(owner, claim, ordinal)},
        }
        for claim in owner.spec.get("volumeClaimTemplates") or ()
    }
    if mine:
        # A claim template takes precedence over a volume with the same name.
        volumes = (template.get("spec") or {}).get("volumes") or ()
        kept = [volume for volume in volumes if volume.get("name") not in mine]
        spec["volumes"] = [*mine.values(), *kept]
    return from_template(
        template,
        namespace=owner.metadata.namespace,
        owner=owner_reference(owner, STATEFUL_SETS),
        name=name,
        labels={
            POD_NAME_LABEL: name,
            POD_INDEX_LABEL: str(ordinal),
            REVISION_LABEL: revision,
        },
        spec=spec,
    )


def missing_labels(owner: AnyObject, pod: AnyObject, ordinal: int) -> dict[str, str]:
    """Return the identity labels that an adopted or edited pod lacks."""
    wanted = {POD_NAME_LABEL: pod_name(owner, ordinal), POD_INDEX_LABEL: str(ordinal)}
    labels = pod.metadata.labels
    return {key: value for key, value in wanted.items() if labels.get(key) != value}


def _template_name(claim: Mapping[str, Any]) -> str:
    """Return the name of a claim template; without one, the API refuses the pod and says why."""
    return str((claim.get("metadata") or {}).get("name") or "")
