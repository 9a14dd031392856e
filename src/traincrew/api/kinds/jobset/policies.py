"""The policies of a JobSet: when it succeeds, what follows a failure, in which order Jobs start."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from traincrew.api.kind import Rule, rules
from traincrew.api.runpolicy import NonNegative  # noqa: TC001 - decoded

MAX_REPLICATED_JOBS = 64
MAX_RULES = 64
MAX_PATTERNS = 32
MAX_PATTERN = 256
MAX_LABEL = 63
"""Jobs, their pods and Services are named in host names and values of labels."""
RULE_NAME = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
UNIQUE_NAMES = rules(
    Rule(
        rule="self.all(u, !has(u.name) || u.name == '' ||"
        " self.exists_one(o, has(o.name) && o.name == u.name))",
        message="rule names are not unique",
    )
)

FAILED_JOBS = "FailedJobs"
MAX_RESTARTS_REACHED = "ReachedMaxRestarts"
Operator = Literal["All", "Any"]
Order = Literal["AnyOrder", "InOrder"]
Strategy = Literal["Recreate", "BlockingRecreate", "InPlaceRestart"]
Action = Literal[
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
]
OF_ONE_JOB: tuple[Action, ...] = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
"""The actions that restart the failed Job only."""
IGNORES_LIMIT: tuple[Action, ...] = (
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJobAndIgnoreMaxRestarts",
)
FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
"""Reasons with which a Job fails, of those that rules may name."""

Name = Annotated[str, Meta(max_length=MAX_LABEL)]
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_NamedJob = Annotated[Name, Meta(description="Name of a replicated job.")]
Names = Annotated[list[_NamedJob], Meta(max_length=MAX_REPLICATED_JOBS, extra_json_schema=_ATOMIC)]
_Reason = Annotated[str, Meta(max_length=MAX_LABEL, description="A reason.")]
_Pattern = Annotated[str, Meta(max_length=MAX_PATTERN, description="A regular expression.")]


class SuccessPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """When a JobSet has succeeded."""

    operator: Annotated[
        Operator, Meta(description="Whether All or Any of the selected Jobs must succeed.")
    ]
    target_replicated_jobs: Annotated[
        Names | None, Meta(description="The replicated jobs that count. Defaults to all of them.")
    ] = None


class FailurePolicyRule(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What is done about failures of a kind."""

    action: Annotated[
        Action,
        Meta(
            description=(
                "FailJobSet: the JobSet fails. RestartJobSet: all its Jobs are created again, up"
                " to maxRestarts times. RestartJob: the failed Job is created again, which counts"
                " as well. …AndIgnoreMaxRestarts: the same, without counting."
            )
        ),
    ]
    name: Annotated[
        Annotated[str, Meta(max_length=128, pattern=f"{RULE_NAME}|^$")] | None,
        Meta(description="Name of the rule. Defaults to failurePolicyRule<index>."),
    ] = None
    on_job_failure_reasons: Annotated[
        Annotated[list[_Reason], Meta(max_length=MAX_PATTERNS)] | None,
        Meta(
            description=(
                f"Reasons of failed Jobs, of {', '.join(FAILURE_REASONS)}. Defaults to any reason."
            )
        ),
    ] = None
    on_job_failure_message_patterns: Annotated[
        Annotated[list[_Pattern], Meta(max_length=MAX_PATTERNS)] | None,
        Meta(
            description=(
                "Regular expressions, one of which must match the message of the failed Job."
                " Defaults to any message."
            )
        ),
    ] = None
    target_replicated_jobs: Annotated[
        Names | None, Meta(description="The replicated jobs it is about. Defaults to all of them.")
    ] = None


class FailurePolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What is done about Jobs that failed."""

    max_restarts: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "How often Jobs are restarted, before the JobSet fails with reason"
                f" {MAX_RESTARTS_REACHED}. Defaults to 0."
            )
        ),
    ] = None
    restart_strategy: Annotated[
        Strategy | None,
        Meta(
            description=(
                "Recreate (default): each Job is created again when its own predecessor and its"
                " pods are gone. BlockingRecreate: when all predecessors are gone. InPlaceRestart"
                " is refused, as by JobSet without its feature gate."
            )
        ),
    ] = None
    rules: Annotated[
        Annotated[list[FailurePolicyRule], Meta(max_length=MAX_RULES)] | None,
        Meta(
            description=(
                "The first rule that matches a failed Job decides. Without any, the JobSet is"
                " restarted."
            ),
            extra_json_schema=UNIQUE_NAMES,
        ),
    ] = None

    @property
    def restarts_single_jobs(self) -> bool:
        """Whether restarts of single Jobs are possible."""
        return any(rule.action in OF_ONE_JOB for rule in self.rules or ())

    def name_of(self, index: int) -> str:
        """Return the name of a rule, with its default."""
        return (self.rules or [])[index].name or f"failurePolicyRule{index}"


class StartupPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """In which order Jobs are started."""

    startup_policy_order: Annotated[
        Order,
        Meta(
            description=(
                "AnyOrder (default): all at once. InOrder: those of a replicated job when the ones"
                " of the one before it are ready."
            )
        ),
    ]
