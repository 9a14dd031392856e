"""Which claims pods use. Pure.

Rules: ``pkg/controller/volume/pvcprotection`` and ``component-helpers/storage/ephemeral``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.objects import controller_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traincrew.engine.objects import AnyObject


class ClaimUse(NamedTuple):
    """The use of a claim by a volume of a pod.

    Attributes:
        volume: Name of the volume.
        claim: Name of the claim.
        template: The claim to create for the pod alone (`ephemeral`); None for a claim by name.
    """

    volume: str
    claim: str
    template: dict[str, Any] | None = None


def claim_uses(pod: AnyObject) -> Iterator[ClaimUse]:
    """Yield the claims of a pod's volumes, whether they exist or not."""
    for volume in pod.spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield ClaimUse(volume["name"], str(claim.get("claimName", "")))
        elif ephemeral := volume.get("ephemeral"):
            name = f"{pod.metadata.name}-{volume['name']}"
            yield ClaimUse(volume["name"], name, ephemeral.get("volumeClaimTemplate") or {})


def belongs_to(claim: AnyObject, pod: AnyObject) -> bool:
    """Return whether a claim was created for an ephemeral volume of this pod."""
    owner = controller_of(claim)
    return owner is not None and owner.uid == pod.metadata.uid


class UsedClaims:
    """The claims of one namespace that pods use.

    A claim is used by every pod that has a node, until the pod is gone: also by a pod that has
    ended, whose volumes a kubelet may still unmount. A node starts no pod whose claim is being
    deleted, so one without a node does not count.

    Args:
        pods: Pods of the namespace.
    """

    def __init__(self, pods: Iterable[AnyObject]) -> None:
        self._names: set[str] = set()
        self._own: set[tuple[str, str]] = set()
        for pod in pods:
            if not pod.spec.get("nodeName"):
                continue
            for use in claim_uses(pod):
                if use.template is None:
                    self._names.add(use.claim)
                elif not _is_shut_down(pod):
                    self._own.add((use.claim, pod.metadata.uid))

    def uses(self, claim: AnyObject) -> bool:
        """Return whether a pod uses the claim."""
        name, owner = claim.metadata.name, controller_of(claim)
        return name in self._names or (owner is not None and (name, owner.uid) in self._own)


def _is_shut_down(pod: AnyObject) -> bool:
    """Return whether the node has ended a pod, whose own finalizers may wait for its claim."""
    meta = pod.metadata
    return meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0


def may_release(old: AnyObject | None, new: AnyObject | None) -> bool:
    """Return whether a change of a pod may end its use of claims."""
    if old is None or not any(True for _ in claim_uses(old)):
        return False
    if new is None or new.metadata.uid != old.metadata.uid:
        return True
    return _is_shut_down(new) and not _is_shut_down(old)
