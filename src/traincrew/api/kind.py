"""The parts of a CustomResourceDefinition besides the fields of ``spec``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field, structs

from traincrew.api.reasons import Reasons

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rule(NamedTuple):
    """A CEL rule of the schema: an object is refused with the message if it is not true."""

    rule: str
    message: str


def rules(*all_of_them: Rule) -> dict[str, Any]:
    """Return rules as a part of a schema."""
    return {"x-kubernetes-validations": [rule._asdict() for rule in all_of_them]}


JOB_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""Pattern of the name of a job that is the beginning of host names."""
JOB_NAME_RULE = Rule(
    rule=f"self.metadata.name.matches('{JOB_NAME}')",
    message=(
        "metadata.name becomes part of host names: it must begin with a letter and have"
        " only lower case letters, digits and '-'"
    ),
)
"""The rule over the whole object for such a name."""


class Column(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A printer column of ``kubectl get``; priority 1 means only with ``-o wide``."""

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
    description="Number of restarts of pods and containers.",
)
PROGRESS = Column(
    name="Progress",
    type="integer",
    json_path=".status.progress.percentage",
    description="How much of the training is done, in percent, if the program reports it.",
    # The columns without `-o wide` are those that users' scripts know.
    priority=1,
)
AGE = Column(name="Age", type="date", json_path=".metadata.creationTimestamp")
REASON = Column(name="Reason", type="string", json_path=".status.reason", priority=1)
MESSAGE = Column(name="Message", type="string", json_path=".status.message", priority=1)
COUNT = {"type": "integer", "format": "int32"}
"""Schema of a count."""


MANAGER = "traincrew.dev/operator"
"""Value of ``spec.managedBy`` of jobs of this operator; it is the default."""
MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
"""Value of ``spec.managedBy`` of jobs that MultiKueue runs on another cluster."""
MANAGED_BY = {
    "type": "string",
    "maxLength": 63,
    "description": (
        f"Who manages the job. {MANAGER} (default): this operator. {MULTI_KUEUE}: MultiKueue,"
        " which runs it on another cluster; the operator writes its Workload only. Anything else:"
        " the operator leaves the job alone entirely. It cannot be changed."
    ),
}
"""Schema of ``spec.managedBy``, the same on every kind."""
MANAGED_BY_RULE = Rule(
    rule="has(self.managedBy) == has(oldSelf.managedBy) &&"
    " (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
    message="managedBy cannot be changed: delete the job and create it again",
)


class Manager(Struct, frozen=True, kw_only=True):
    """The field by which a job names who runs it.

    Attributes:
        path: Names of the field and of those that it is in, within ``spec``.
        here: The value that means this operator, as does no value.
    """

    path: tuple[str, ...] = ("managedBy",)
    here: str = MANAGER

    @property
    def field(self) -> str:
        """The path of the field, for messages."""
        return ".".join(("spec", *self.path))

    def of(self, spec: Mapping[str, Any]) -> str:
        """Return who runs a job with this ``spec``, which may be invalid; empty for nobody named.

        A value that is no text names nobody that could run it, but not this operator either.
        """
        found: Any = spec
        for name in self.path:
            found = found.get(name) if isinstance(found, dict) else None
        return "" if found is None else str(found)

    def is_here(self, spec: Mapping[str, Any]) -> bool:
        """Return whether a job with this ``spec``, which may be invalid, is for this operator."""
        return self.of(spec) in {"", self.here}


def manager_rules(manager: Manager) -> tuple[Rule, Rule]:
    """Return the CEL rules over ``spec`` for a manager's field that is in another one.

    Args:
        manager: The field; only its own operator and MultiKueue may be named there.
    """
    outer, name = manager.path

    def of(spec: str) -> str:
        found = f"{spec}.{outer}"
        return f"(has({found}) && has({found}.{name}) ? {found}.{name} : '')"

    return (
        Rule(
            rule=f"{of('self')} in ['', '{manager.here}', '{MULTI_KUEUE}']",
            message=f"{outer}.{name} must be {manager.here} or {MULTI_KUEUE}",
        ),
        Rule(
            rule=f"{of('self')} == {of('oldSelf')}",
            message=f"{outer}.{name} cannot be changed: delete the job and create it again",
        ),
    )


class Scale(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The ``scale`` subresource: what `kubectl scale` and autoscalers read and write."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


class StatusWords(Struct, kw_only=True, frozen=True):
    """Descriptions and fields of a kind's ``status``, besides what all kinds share.

    Attributes:
        start_time: Description of ``startTime``.
        replicas: Description of ``replicaStatuses``.
        numbers: Descriptions of the counts of one role, in display order.
        fields: Additional fields, as schemas; they replace shared ones of the same name.
        condition_times: The time fields of a condition.
        words: Introduction of the status on the reference page.
    """

    start_time: str
    replicas: str
    numbers: dict[str, str]
    fields: dict[str, Any] = field(default_factory=dict)
    condition_times: tuple[str, ...] = ("lastTransitionTime",)
    words: str = "`status` describes the state of the job:"


class Project(Struct, frozen=True, kw_only=True):
    """Another project whose kinds are served here as its own operator does.

    Attributes:
        name: Its name.
        deployments: Label selector of the Deployments of its operator.
        lease: Name of the Lease by which its operator elects a leader; empty if it has none.
    """

    name: str
    deployments: str
    lease: str = ""


class Referenced(Struct, kw_only=True, frozen=True):
    """The definition of objects that jobs refer to: settings, which nobody reconciles.

    Attributes:
        group: API group.
        version: API version.
        kind: Name in manifests.
        plural: Name in URLs.
        description: Description in one sentence.
        spec: Schema of ``spec``.
        namespaced: Whether the objects are in namespaces.
    """

    group: str
    version: str
    kind: str
    plural: str
    description: str
    spec: dict[str, Any]
    namespaced: bool = True


class Kind(Struct, kw_only=True, frozen=True):
    """The definition of a kind of training job.

    Attributes:
        group: API group.
        version: API version.
        kind: Name in manifests.
        plural: Name in URLs.
        short_names: Short names for kubectl.
        description: Description in one sentence.
        spec: The type of ``spec``.
        containers: Names by which pods mark the container that runs their program; see
            `traincrew.api.podtemplate.main_container`.
        spec_rules: CEL rules over ``spec``.
        rules: CEL rules over the whole object.
        columns: Printer columns of ``kubectl get``.
        status: The kind's own part of ``status``.
        scale: The ``scale`` subresource, if there is one.
        reasons: The reasons with which its jobs fail.
        not_scalable: Why jobs cannot be scaled, and what to do instead; `kubectl scale` prints it.
        older_groups: Other API groups in which manifests and clusters have the same kind. Each has
            a CustomResourceDefinition of its own, and objects of its own.
        project: The project whose kind it is, if that is not this one. Clusters have its
            definition and its operator, so there it is neither installed nor served unless asked
            for (docs/design/todays-manifests.md).
        manager: The field by which a job names who runs it.
        referenced: Definitions of the objects that its jobs refer to.
        objects: Those of them that its project installs, as manifests; the embedded cluster has
            them from its start.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    description: str
    spec: type[Struct]
    containers: tuple[str, ...] = ()
    spec_rules: dict[str, Any]
    rules: dict[str, Any]
    columns: tuple[Column, ...]
    status: StatusWords
    scale: Scale | None = None
    reasons: Reasons = Reasons()
    not_scalable: str = ""
    older_groups: tuple[str, ...] = ()
    project: Project | None = None
    manager: Manager = Manager()
    referenced: tuple[Referenced, ...] = ()
    objects: tuple[dict[str, Any], ...] = ()

    @property
    def served(self) -> tuple[Kind, ...]:
        """This kind, and a copy of it for each of the older groups.

        The copies have no short names, because those would be ambiguous.
        """
        copies = (
            structs.replace(self, group=group, short_names=(), older_groups=())
            for group in self.older_groups
        )
        return (self, *copies)

    @property
    def api_version(self) -> str:
        """Group and version as in manifests."""
        return f"{self.group}/{self.version}"
