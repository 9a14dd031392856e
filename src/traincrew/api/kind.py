"""What a CustomResourceDefinition says of a kind besides the fields of ``spec``."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field


class Rule(NamedTuple):
    """A CEL rule of the schema: refused with the message unless the expression is true."""

    rule: str
    message: str


def rules(*all_of_them: Rule) -> dict[str, Any]:
    """Rules as a part of a schema."""
    return {"x-kubernetes-validations": [rule._asdict() for rule in all_of_them]}


class Column(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A column of ``kubectl get``; priority 1 means only with ``-o wide``."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0


PHASE = Column(name="Phase", type="string", json_path=".status.phase")
RESTARTS = Column(
    name="Restarts",
    type="integer",
    json_path=".status.restarts",
    description="How often pods and containers of the job were started again.",
)
AGE = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")
REASON = Column(name="Reason", type="string", json_path=".status.reason", priority=1)
MESSAGE = Column(name="Message", type="string", json_path=".status.message", priority=1)
COUNT = {"type": "integer", "format": "int32"}
"""Schema of a number of things."""


class Scale(Struct, rename="camel", kw_only=True, frozen=True):
    """The ``scale`` subresource: what `kubectl scale` and autoscalers read and write."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str


class StatusWords(Struct, kw_only=True, frozen=True):
    """What a kind's ``status`` has of its own, beside what all kinds share.

    Attributes:
        start_time: What ``startTime`` means.
        replicas: What ``replicaStatuses`` is about.
        numbers: What the numbers of one role mean, in the order they are shown.
        fields: More fields, as schemas.
        condition_times: The times a condition has.
        words: How the reference page introduces all this.
    """

    start_time: str
    replicas: str
    numbers: dict[str, str]
    fields: dict[str, Any] = field(default_factory=dict)
    condition_times: tuple[str, ...] = ("lastTransitionTime",)
    words: str = "`status` says what has become of the job:"


class Kind(Struct, kw_only=True, frozen=True):
    """A kind of training job.

    Attributes:
        group: API group.
        version: Version within the group.
        kind: Name in manifests.
        plural: Name in URLs.
        short_names: Further names for kubectl.
        description: In one sentence.
        spec: The type of ``spec``.
        spec_rules: CEL rules over ``spec``.
        rules: CEL rules over the whole object.
        columns: Of ``kubectl get``.
        status: What ``status`` has of its own.
        scale: The ``scale`` subresource, if there is one.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    description: str
    spec: type[Struct]
    spec_rules: dict[str, Any]
    rules: dict[str, Any]
    columns: tuple[Column, ...]
    status: StatusWords
    scale: Scale | None = None
