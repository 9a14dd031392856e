"""The claims of volumes of a JobSet: templates, and what becomes of the claims."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from traincrew.api.crd import pod_template
from traincrew.api.kind import Rule, rules
from traincrew.api.kinds.jobset.policies import MAX_LABEL

MAX_POLICIES = 8
MAX_TEMPLATES = 16
"""Claims are read one by one before Jobs are created, and rules compare each with each."""
CLAIM_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A subdomain of RFC 1123."""
DELETE = "Delete"
Retention = Literal["Delete", "Retain"]

_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_POD: dict[str, Any] = pod_template()["properties"]["spec"]["properties"]
_VOLUME: dict[str, Any] = _POD["volumes"]["items"]["properties"]
_TEMPLATE = _VOLUME["ephemeral"]["properties"]["volumeClaimTemplate"]["properties"]
_SAME = "u.metadata.name == t.metadata.name"
_NO_NAMESPACE = rules(
    Rule(
        rule="self.?templates.orValue([]).all(t, t.metadata.?__namespace__.orValue('') == '')",
        message="namespace cannot be set for VolumeClaimPolicies templates",
    )
)
_CLAIM = {
    "required": ["metadata", "spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "annotations": _TEXTS,
                "finalizers": {"type": "array", "items": {"type": "string"}},
                "labels": _TEXTS,
                "name": {"type": "string", "maxLength": MAX_LABEL, "pattern": CLAIM_NAME},
                "namespace": {"type": "string", "maxLength": MAX_LABEL},
            },
        },
        "spec": _TEMPLATE["spec"],
        # Programs that write manifests by the types of Go have an empty one.
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def claim_name(jobset: str, template: str) -> str:
    """Return the name of a claim."""
    return f"{template}-{jobset}"


class ClaimMetadata(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``metadata`` of a template of claims."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ClaimTemplate(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A PersistentVolumeClaim as it is created; the claim itself checks the values."""

    metadata: ClaimMetadata
    spec: dict[str, Any]


class RetentionPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What becomes of claims."""

    when_deleted: Annotated[
        Retention | None,
        Meta(
            description=(
                "Delete (default): the claims are deleted with the JobSet, which owns them."
                " Retain: they stay, and a JobSet of the same name uses them again."
            )
        ),
    ] = None


class VolumeClaimPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Claims that the pods of all Jobs share, and what becomes of them."""

    templates: Annotated[
        Annotated[
            list[Annotated[ClaimTemplate, Meta(extra_json_schema=_CLAIM)]],
            Meta(max_length=MAX_TEMPLATES),
        ]
        | None,
        Meta(
            description=(
                "PersistentVolumeClaims, created as <name>-<jobset>. Each needs a volumeMount of"
                " its name in a container; the pods of that Job get the volume. No replicated job"
                " may have a volume of that name."
            ),
            extra_json_schema=_ATOMIC,
        ),
    ] = None
    retention_policy: Annotated[
        RetentionPolicy | None, Meta(description="What becomes of the claims.")
    ] = None

    @property
    def deletes(self) -> bool:
        """Whether the claims are deleted with the JobSet."""
        policy = self.retention_policy
        return policy is None or (policy.when_deleted or DELETE) == DELETE


POLICIES: dict[str, Any] = {
    **_ATOMIC,
    **rules(
        Rule(rule="self == oldSelf", message="Value is immutable"),
        Rule(
            rule="self.all(p, !has(p.templates) || p.templates.all(t,"
            f" p.templates.exists_one(u, {_SAME}) &&"
            f" self.exists_one(q, has(q.templates) && q.templates.exists(u, {_SAME}))))",
            message="names must be unique for VolumeClaimPolicies template",
        ),
    ),
}
"""What the schema of all policies of a JobSet says."""
Policy = Annotated[VolumeClaimPolicy, Meta(extra_json_schema=_NO_NAMESPACE)]
