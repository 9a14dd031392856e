"""Which volume a claim gets, and the phases of both. Pure.

Rules: ``pkg/controller/volume/persistentvolume``. What a provisioner does on a cluster is done by
the node: a claim without a volume is a directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from traincrew.engine.objects import FullObjectMeta
from traincrew.local.controllers.selectors import matches
from traincrew.local.controllers.writes import Event
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from traincrew.engine.objects import AnyObject

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PATIENCE = 2.0
"""Seconds in which a volume of the class that a claim names may still be created.

Files of one manifest are applied one after the other, and the claim may come first.
"""
MOUNTED = ("hostPath", "local")
"""Sources of volumes that the node mounts."""
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
# Fields of a volume's spec that are not its source.
_NO_SOURCES = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


class StorageClass(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """`storage.k8s.io/v1 StorageClass`."""

    metadata: FullObjectMeta = field(default_factory=FullObjectMeta)
    provisioner: str = ""


class Decision(NamedTuple):
    """What becomes of a claim that is not bound.

    Attributes:
        volume: The volume to bind it to.
        directory: Whether it becomes a directory of the node.
        event: Why it waits, or what is special about the directory.
        retry_after: Seconds until a claim that waits is decided on again; None for no time.
    """

    volume: AnyObject | None = None
    directory: bool = False
    event: Event | None = None
    retry_after: float | None = None


def class_of(obj: AnyObject) -> str | None:
    """Return the storage class of a claim or volume; None if it names none."""
    annotated = obj.metadata.annotations.get(_CLASS_ANNOTATION)
    name: str | None = annotated if annotated is not None else obj.spec.get("storageClassName")
    return name


def source_of(volume: AnyObject) -> str:
    """Return the field with the source of a volume, such as `hostPath`."""
    return next((key for key in volume.spec if key not in _NO_SOURCES), "")


def is_bound_to(volume: AnyObject, claim: AnyObject) -> bool:
    """Return whether a volume is reserved for, or bound to, this claim."""
    reference = volume.spec.get("claimRef") or {}
    meta = claim.metadata
    return (
        reference.get("namespace") == meta.namespace
        and reference.get("name") == meta.name
        and reference.get("uid", meta.uid) in {"", meta.uid}
    )


def decide(
    claim: AnyObject,
    volumes: Iterable[AnyObject],
    classes: Mapping[str, StorageClass],
    age: float,
) -> Decision:
    """Decide on a claim that is not bound.

    Args:
        claim: The claim.
        volumes: All volumes of the cluster.
        classes: All storage classes by name.
        age: Seconds since the claim was created.
    """
    wanted = claim.spec.get("volumeName")
    if wanted:
        return _named(claim, wanted, {each.metadata.name: each for each in volumes})
    volume = _best(claim, list(volumes))
    if volume is not None:
        return Decision(volume)
    name = class_of(claim)
    if name == "":
        return _wait("no persistent volumes available for this claim and no storage class is set")
    if claim.spec.get("selector"):
        return _wait("no persistent volume with the labels of spec.selector fits this claim")
    known = classes.get(name or "")
    if known is not None and known.provisioner == _NO_PROVISIONER:
        return _wait(
            f"no persistent volume fits this claim, and no volumes are made for StorageClass {name}"
        )
    if name is None:
        return Decision(directory=True)
    if known is None and age < PATIENCE:
        return Decision(retry_after=PATIENCE - age)
    return Decision(
        directory=True,
        event=Event(
            "NotEmulated",
            f"spec.storageClassName: {name} is not asked; the claim is a directory on this "
            "machine, and its size is not limited",
            "Warning",
        ),
    )


def _wait(message: str) -> Decision:
    return Decision(event=Event("FailedBinding", message))


def _named(claim: AnyObject, name: str, volumes: Mapping[str, AnyObject]) -> Decision:
    """Decide on a claim that names its volume."""
    volume = volumes.get(name)
    if volume is None:
        return _wait(f'volume "{name}" does not exist')
    if volume.spec.get("claimRef") and not is_bound_to(volume, claim):
        message = f'volume "{name}" already bound to a different claim.'
        return Decision(event=Event("FailedBinding", message, "Warning"))
    mismatch = _mismatch(claim, volume)
    if mismatch:
        message = f'Cannot bind to requested volume "{name}": {mismatch}'
        return Decision(event=Event("VolumeMismatch", message, "Warning"))
    if volume.metadata.deletion_timestamp is not None:
        return _wait(f'volume "{name}" is being deleted')
    return Decision(volume)


def _mismatch(claim: AnyObject, volume: AnyObject, *, any_class: bool = False) -> str:
    """Return why a volume cannot hold a claim; empty if it can."""
    if _size(volume.spec.get("capacity")) < _requested(claim):
        return "requested PV is too small"
    if not any_class and (class_of(claim) or "") != (class_of(volume) or ""):
        return "storageClassName does not match"
    modes = [each.spec.get("volumeMode", "Filesystem") for each in (claim, volume)]
    if modes[0] != modes[1]:
        return "incompatible volumeMode"
    if not set(claim.spec.get("accessModes") or ()) <= set(volume.spec.get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def _size(amounts: Mapping[str, Any] | None) -> Fraction:
    return parse((amounts or {}).get("storage", "0"))


def _requested(claim: AnyObject) -> Fraction:
    return _size((claim.spec.get("resources") or {}).get("requests"))


def _best(claim: AnyObject, volumes: list[AnyObject]) -> AnyObject | None:
    """Return the volume reserved for a claim, else the smallest one that fits."""
    usable = [each for each in volumes if each.metadata.deletion_timestamp is None]
    for volume in usable:
        # Here the class does not matter: whoever made the volume has chosen the claim.
        if is_bound_to(volume, claim) and not _mismatch(claim, volume, any_class=True):
            return volume
    fitting = [each for each in usable if fits(claim, each)]
    return min(
        fitting,
        key=lambda each: (_size(each.spec.get("capacity")), each.metadata.name),
        default=None,
    )


def fits(claim: AnyObject, volume: AnyObject) -> bool:
    """Return whether a volume that nothing is bound to may be bound to a claim."""
    selector = claim.spec.get("selector")
    return (
        not volume.spec.get("claimRef")
        and volume.status.get("phase", "Pending") in {"Pending", "Available"}
        and not _mismatch(claim, volume)
        and (not selector or matches(selector, volume.metadata.labels))
    )


def claim_status(claim: AnyObject, volume: AnyObject | None) -> dict[str, Any]:
    """Return the status of a bound claim; without volume it is a directory of the node."""
    if volume is None:
        modes = claim.spec.get("accessModes")
        requests = (claim.spec.get("resources") or {}).get("requests") or {}
        capacity = {"storage": requests.get("storage", "0")}
    else:
        modes, capacity = volume.spec.get("accessModes"), volume.spec.get("capacity") or {}
    return {**claim.status, "phase": "Bound", "accessModes": modes or [], "capacity": capacity}


def not_mounted(volume: AnyObject) -> Event | None:
    """Return the event of a claim whose volume the node does not mount; None if it does."""
    source = source_of(volume)
    if source in MOUNTED:
        return None
    message = (
        f"spec.volumeName: volume {volume.metadata.name} is of the type {source}, which is not "
        "mounted here; the claim is a directory on this machine, which starts empty"
    )
    return Event("NotEmulated", message, "Warning")


class Phase(NamedTuple):
    """The phase of a volume, with the message of its status and its event."""

    phase: str
    message: str = ""
    event: Event | None = None


def volume_phase(volume: AnyObject, claim: AnyObject | None) -> Phase | None:
    """Return the phase that a volume should have; None to leave it.

    Args:
        volume: The volume.
        claim: The claim that it is bound to, by name and UID; None if that certainly is gone.
    """
    reference = volume.spec.get("claimRef") or {}
    if not reference.get("uid"):
        return Phase("Available")
    if claim is not None:
        bound = claim.spec.get("volumeName") == volume.metadata.name
        return Phase("Bound") if bound else None
    policy = volume.spec.get("persistentVolumeReclaimPolicy", "Retain")
    if policy == "Retain":
        return Phase("Released")
    message = (
        f"persistentVolumeReclaimPolicy {policy}: the embedded cluster deletes no files that it "
        "did not create; delete them and the volume yourself"
    )
    return Phase("Failed", message, Event(f"VolumeFailed{policy}", message, "Warning"))


def came_too_late(volume: AnyObject, claims: Iterable[AnyObject]) -> list[AnyObject]:
    """Return the claims that would have got this volume, but have become directories before."""
    return [
        claim
        for claim in claims
        if claim.status.get("phase") == "Bound"
        and not claim.spec.get("volumeName")
        and claim.metadata.deletion_timestamp is None
        and (is_bound_to(volume, claim) or (class_of(claim) is not None and fits(claim, volume)))
    ]
