"""The claims of volumes of a JobSet: which ones are there, and which are created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.jobset.claims import claim_name
from traincrew.api.meta import Problem
from traincrew.plan.jobset import children
from traincrew.plan.shared.kind import CLAIMS
from traincrew.plan.shared.model import ObjectKey, Write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.api.kinds.jobset.claims import ClaimTemplate
    from traincrew.api.kinds.jobset.types import JobSetSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.model import Observed


def keys(owner: Owner, spec: JobSetSpec) -> tuple[ObjectKey, ...]:
    """Return the claims of a JobSet."""
    return tuple(_key(owner, each) for each in spec.claims)


def _key(owner: Owner, template: ClaimTemplate) -> ObjectKey:
    return ObjectKey(CLAIMS.kind, claim_name(owner.name, template.metadata.name))


def problems(observed: Observed, owner: Owner, spec: JobSetSpec) -> Iterator[Problem]:
    """Yield the claims that are kept of an earlier JobSet and are not what the templates say."""
    for index, policy in enumerate(spec.volume_claim_policies or ()):
        for place, template in enumerate(policy.templates or ()):
            found = observed.objects.get(_key(owner, template))
            if found is None or policy.deletes:
                continue
            other = [name for name in template.spec if _differs(name, template.spec, found)]
            if other:
                yield Problem(
                    f"spec.volumeClaimPolicies[{index}].templates[{place}].spec",
                    f"PersistentVolumeClaim {found['metadata']['name']} exists with another"
                    f" {', '.join(other)}; delete it, or write what it has",
                )


def _differs(name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether a claim has another value; it may have been expanded."""
    return name != "resources" and wanted[name] != found.get("spec", {}).get(name)


def missing(observed: Observed, owner: Owner, spec: JobSetSpec) -> list[Write]:
    """Return the writes of claims that are not there, as far as it was asked for them.

    One that is being deleted, or that the JobSet would delete but does not own, is in the way: to
    create it says so.
    """
    return [
        Write(create=children.claim(owner, template, deletes=policy.deletes))
        for policy in spec.volume_claim_policies or ()
        for template in policy.templates or ()
        if (key := _key(owner, template)) in observed.objects
        and not _is_there(observed.objects[key], owner, deletes=policy.deletes)
    ]


def _is_there(found: Mapping[str, Any] | None, owner: Owner, *, deletes: bool) -> bool:
    if found is None or found["metadata"].get("deletionTimestamp"):
        return False
    owners = found["metadata"].get("ownerReferences") or ()
    return not deletes or any(each.get("uid") == owner.uid for each in owners)
