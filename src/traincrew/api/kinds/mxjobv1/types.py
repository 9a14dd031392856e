"""MXJob: the kind of training-operator v1, and its defaults.

An MXJob is a scheduler, parameter servers and workers of MXNet, which find each other by
environment variables (``DMLC_*``), or the parts of an auto-tuning run, which read ``MX_CONFIG``.
MxJob of mxnet-operator (`traincrew.api.kinds.mxjob`) is an older kind with other fields.

Fields, defaults and checks are those of training-operator 1.8.1, the last release with this kind:
docs/design/mxjob-v1.md has its sources.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import Rule, rules
from traincrew.api.podtemplate import completed
from traincrew.api.trainingoperator import types as trainingoperator
from traincrew.api.trainingoperator.types import (
    MAX_REPLICAS,
    MAX_TYPES,
    RESTART_POLICIES,
    RestartPolicy,
    TrainingRunPolicy,
)

KIND = "MXJob"
PLURAL = "mxjobs"

SCHEDULER = "Scheduler"
SERVER = "Server"
WORKER = "Worker"
TUNER_TRACKER = "TunerTracker"
TUNER_SERVER = "TunerServer"
TUNER = "Tuner"
TYPES = (SCHEDULER, SERVER, WORKER, TUNER_TRACKER, TUNER_SERVER, TUNER)
CONTAINER = "mxnet"
"""The container that trains."""
PORT_NAME = "mxjob-port"
"""Name of the port of a container at which its pod is reached."""
DEFAULT_PORT = 9091
TUNER_KEY = "tuner-server-key"
"""Annotation of a template whose value ``MX_CONFIG`` has as the label of its type."""

REASONS = trainingoperator.reasons(KIND)

DEFAULT_RESTART_POLICY: RestartPolicy = "Never"


class ReplicaSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Identical pods of one type."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                f"Template of the pods. It must have a container named {CONTAINER}; a single"
                " container without a name gets this name."
            ),
            extra_json_schema={"x-pod-template": {}},
        ),
    ]
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_REPLICAS)] | None,
        Meta(description=f"Number of pods; 1 by default, and at most 1 of the {SCHEDULER}."),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        Meta(
            description=(
                "Restart policy of the pods; it overrides that of the template, and defaults to"
                f" {DEFAULT_RESTART_POLICY}. {RESTART_POLICIES}"
            ),
        ),
    ] = None

    @property
    def count(self) -> int:
        """The number of pods, with its default."""
        return 1 if self.replicas is None else self.replicas

    @property
    def policy(self) -> RestartPolicy:
        """The restart policy, with its default."""
        return self.restart_policy or DEFAULT_RESTART_POLICY


class MXJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of an MXJob."""

    job_mode: Annotated[
        Literal["MXTrain", "MXTune"],
        Meta(
            description=(
                f"What the job does: MXTrain (with a {SCHEDULER}, {SERVER} and {WORKER}, or one"
                f" {WORKER} alone) or MXTune (with a {TUNER_TRACKER}, {TUNER_SERVER} and {TUNER})."
                " Nothing depends on it but what the replicas are."
            )
        ),
    ]
    mx_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        Meta(
            max_length=MAX_TYPES,
            description=(
                f"The pods of the job, by type. With a {SCHEDULER}, the job succeeds when that"
                f" does; without, when every {WORKER} does, or every {TUNER} if there is none."
            ),
            extra_json_schema=rules(
                Rule(
                    rule="size(self) > 0",
                    message=f"write a {SCHEDULER}, a {SERVER} and a {WORKER}, or one {WORKER}",
                ),
                Rule(
                    rule=f"self.all(t, t in {list(TYPES)})",
                    message=f"keys must be {', '.join(TYPES[:-1])} or {TYPES[-1]}",
                ),
                Rule(
                    rule=f"!('{SCHEDULER}' in self) || !has(self.{SCHEDULER}.replicas) ||"
                    f" self.{SCHEDULER}.replicas == 1",
                    message=f"{SCHEDULER}.replicas must be 1",
                ),
            ),
        ),
    ]
    run_policy: Annotated[
        TrainingRunPolicy,
        Meta(description="Policies for suspending, retrying and cleaning up the job."),
    ] = field(default_factory=TrainingRunPolicy)

    @property
    def total(self) -> int:
        """The number of all pods."""
        return sum(each.count for each in self.mx_replica_specs.values())


def decode(spec: dict[str, Any]) -> MXJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, MXJobSpec)
    replicas = {
        name: structs.replace(each, template=completed(each.template, CONTAINER))
        for name, each in decoded.mx_replica_specs.items()
    }
    return structs.replace(decoded, mx_replica_specs=replicas)
