"""What the kinds of training-operator v1 have in common: children, and how a job ends.

Names, labels and Services are the contract of its ``pkg/controller.v1/common``, which users'
programs and dashboards rely on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from traincrew.api.reasons import Cause
from traincrew.plan.shared import lifecycle, reporting
from traincrew.plan.shared.facts import Spec
from traincrew.plan.shared.replicas import children
from traincrew.plan.shared.replicas.counts import ReplicasStatus
from traincrew.plan.shared.replicas.observed import ObservedReplicas
from traincrew.plan.shared.replicas.places import Labels
from traincrew.plan.shared.replicas.planner import ReplicasPlanner
from traincrew.plan.shared.replicas.reports import Words
from traincrew.plan.shared.replicas.states import State, ended_at, exit_code
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.api.meta import Condition, Owner, Problem
    from traincrew.api.reasons import Reasons
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.lifecycle import Outcome
    from traincrew.plan.shared.model import Plan
    from traincrew.plan.shared.replicas.places import Place, Replicas
    from traincrew.plan.shared.reporting import Endpoint
    from traincrew.plan.shared.views import ObservedPod

Document = dict[str, Any]
_PREFIX = "training.kubeflow.org"
LABEL_ROLE = f"{_PREFIX}/job-role"

FIRST_RETRYABLE = 128
"""Exit codes from here on are retried with restart policy ``ExitCode``: ``IsRetryableExitCode`` of
``pkg/util/train``."""
OTHERS_END = timedelta(seconds=10)
"""How long the other pods may take to end after those that decide; ranks end within a second."""


def words(kind: str, reasons: Reasons) -> Words:
    """Return how a kind words what it reports."""
    return Words(
        kind=kind,
        expected=frozenset({reasons.word(Cause.PROGRAM)}),
        suspension=(f"{kind}Suspended", f"{kind}Resumed"),
        replaced="SetPodTemplateRestartPolicy",
    )


class Training(Struct, frozen=True, kw_only=True):
    """How the pods of one kind are labelled and reached.

    Attributes:
        component: Source component of events, and the label that all children of the kind have.
        types: The replica types.
        container: The container that trains.
        port_name: Name of its port at which a pod is reached.
        default_port: That port, if the template has none of the name.
    """

    component: str
    types: tuple[str, ...]
    container: str
    port_name: str
    default_port: int

    @property
    def labels(self) -> Labels:
        """The labels of the children."""
        return Labels(
            mark=(f"{_PREFIX}/operator-name", self.component),
            job=f"{_PREFIX}/job-name",
            type=f"{_PREFIX}/replica-type",
            index=f"{_PREFIX}/replica-index",
            types=self.types,
        )

    def port_of(self, template: Document) -> int:
        """Return the port at which the pods of a template are reached."""
        for port in self._ports(template):
            if port.get("name") == self.port_name:
                return int(port["containerPort"])
        return self.default_port

    def _ports(self, template: Document) -> list[Document]:
        """Return the ports of the container that trains, with the default one."""
        main = podtemplate.index_of(template, self.container)
        if main is None:
            return []
        found = list(template["spec"]["containers"][main].get("ports") or [])
        if not any(port.get("name") == self.port_name for port in found):
            port = {"name": self.port_name, "containerPort": self.default_port, "protocol": "TCP"}
            found.append(port)
        return found

    def service(self, owner: Owner, replicas: Replicas, place: Place) -> Document:
        """Return the Service of a pod, with the ports of its container."""
        ports = [
            {"name": port.get("name", ""), "port": port["containerPort"]}
            for port in self._ports(replicas.template)
        ]
        return children.service(owner, place, self.labels.of(owner.name, place), ports=ports)

    def pod(
        self,
        owner: Owner,
        replicas: Replicas,
        place: Place,
        variables: Mapping[str, str],
        *,
        leads: bool,
        init_containers: Sequence[Document] = (),
        endpoint: Endpoint | None = None,
    ) -> Document:
        """Return the pod of a place.

        Args:
            owner: The job.
            replicas: The pods of its type.
            place: The place.
            variables: Variables of every container, behind the user's.
            leads: Whether it has the label of a master.
            init_containers: Those that start behind the user's.
            endpoint: Where its program reports its progress.
        """
        template = podtemplate.plain(replicas.template)
        mine = self.labels.of(owner.name, place)
        if leads:
            mine[LABEL_ROLE] = "master"
        template = podtemplate.with_labels(template, mine)
        ports = self._ports(replicas.template)
        template = podtemplate.map_containers(
            template, lambda container: self._equipped(container, variables, ports)
        )
        if init_containers:
            template = podtemplate.with_init_containers(template, list(init_containers))
        template = podtemplate.with_spec(template, restartPolicy=replicas.pod_policy)
        template = podtemplate.with_cluster_names(template)
        main = podtemplate.index_of(template, self.container)
        template = reporting.with_reporting(template, endpoint, owner, main)
        return children.pod(owner, place, podtemplate.with_log_fallback(template))

    def _equipped(
        self, container: Document, added: Mapping[str, str], ports: list[Document]
    ) -> Document:
        """Add the port, and the variables behind the user's: the last one of a name counts."""
        env = [{"name": name, "value": value} for name, value in added.items()]
        container = {**container, "env": [*(container.get("env") or []), *env]}
        return (
            {**container, "ports": ports} if container.get("name") == self.container else container
        )


class TrainingReplicas(ObservedReplicas):
    """The observed state of a job of one of these kinds."""

    def by_exit_code(self, place: Place, pod: ObservedPod) -> State:  # noqa: ARG002
        """Return whether the pod is recreated: after 128 or more, or an end of another cause."""
        code = exit_code(pod, self.named)
        if code is None:  # what ended the pod was not its program
            return State.RETRYABLE
        return State.RETRYABLE if code >= FIRST_RETRYABLE else State.FAILED

    @property
    def has_succeeded(self) -> bool:
        """Whether enough of the pods that decide have succeeded: all, by default."""
        states = list(self.deciding.values())
        return bool(states) and all(state is State.SUCCEEDED for state in states)


AnyReplicas = TypeVar("AnyReplicas", bound=TrainingReplicas)


class TrainingPlanner(
    ReplicasPlanner[Spec, ReplicasStatus, AnyReplicas], Generic[Spec, AnyReplicas]
):
    """Decides what one job of these kinds needs next."""

    status_type = ReplicasStatus

    def document(self, status: ReplicasStatus) -> Document:
        """Return the status as plain data.

        The condition that says in which phase the job is comes last: the definitions of
        training-operator show that one as the job's state, and so do its users' scripts.
        """
        plain = super().document(status)
        if conditions := plain.get("conditions"):
            phase = lifecycle.summary(status.conditions)[0]
            plain["conditions"] = sorted(conditions, key=lambda each: each["type"] == phase)
        return plain

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        """Return success by the pods that decide, failure when any pod has failed for good."""
        if found:
            return None
        current = self.current(spec)
        if current.has_succeeded:
            if self._others_wait(current) > 0:
                return None
            return self.succeeded(self.success_text(spec))
        failed = [place for place, state in current.states.items() if state is State.FAILED]
        return self.failed(spec, failed) if failed else None

    def success_text(self, spec: Spec) -> str:  # noqa: ARG002
        """Return what is said of a job that has succeeded."""
        return f"{self.subject} is successfully completed."

    def failed_text(self, spec: Spec, kind: str, count: int) -> str:
        """Return what training-operator says, which depends on the restart policy."""
        if self.replicas(spec)[kind].policy == "ExitCode":
            return f'job "{self.owner.name}" is failing because "{kind}" replica(s) failed.'
        return super().failed_text(spec, kind, count)

    def _others_wait(self, current: AnyReplicas) -> float:
        """Return the seconds that the other pods still have to end by themselves."""
        if State.RUNNING not in current.states.values():
            return 0
        ends = [
            ended_at(pod, current.named)
            for place, state in current.deciding.items()
            if state is State.SUCCEEDED and (pod := current.pod(place)) is not None
        ]
        last = max((end for end in ends if end is not None), default=None)
        return (last + OTHERS_END - self.now).total_seconds() if last is not None else 0

    def waits(self, spec: Spec, numbers: ReplicasStatus) -> list[float | None]:  # noqa: ARG002
        """Return how long the other pods of a job that has succeeded are waited for."""
        current = self.current(spec)
        return [self._others_wait(current) or None] if current.has_succeeded else []

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        """Delete pods by the policy, and all of a job that is past a limit; Services as well."""
        failed = self.stored.condition(lifecycle.FAILED)
        if failed is not None and failed.is_true and self._is_past_limit(failed):
            # training-operator deletes all pods then, before the policy for a finished job counts.
            policy = msgspec.structs.replace(policy, clean_pod_policy="All")
        super().clean_up(plan, policy)
        if self.stored.finished and policy.clean_pod_policy != "None":
            self.delete_services(plan, keep=set())

    def _is_past_limit(self, failed: Condition) -> bool:
        """Return whether the job has failed because it was active too long, or failed too often."""
        cause = self.definition.reasons.cause(failed.reason, failed.message)
        return cause in {Cause.DEADLINE, Cause.BACKOFF_LIMIT}

    def suspend(self, plan: Plan, spec: Spec) -> None:
        """Delete pods and Services."""
        super().suspend(plan, spec)
        self.delete_services(plan, keep=set())
