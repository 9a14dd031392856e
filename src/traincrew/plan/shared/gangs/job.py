"""The gang of one job: what to ask, what to write, and what to say of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.runpolicy import DEFAULT_SCHEDULE_TIMEOUT_SECONDS, StartPolicy
from traincrew.plan.shared import schedulers
from traincrew.plan.shared.gangs import apply, groups, membership, waiting
from traincrew.plan.shared.model import Event, GangState, GroupQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.api.meta import Owner
    from traincrew.api.runpolicy import SchedulingPolicy
    from traincrew.plan.shared.model import Observed, Plan
    from traincrew.plan.shared.schedulers import Gang, Served

WAITING = "WaitingForGang"
"""Reason of a job whose pods wait for a scheduler to place them together."""
NOT_HONORED = "SchedulingPolicyNotHonored"
"""Reason of an event about a field that no scheduler of the cluster honors."""
NO_SCHEDULER = (
    "the cluster has no scheduler of gangs that this job can use; install the coscheduling plugin,"
    " KAI (with schedulerName: kai-scheduler) or Volcano (with schedulerName: volcano), or enable"
    " PodGroups of scheduling.k8s.io"
)
READ_SECONDS = 15.0
"""Seconds after which the PodGroup of a job that waits for it is read again."""


class GangSize(NamedTuple):
    """Numbers of pods.

    Attributes:
        needed: Those without which the job cannot train.
        members: Those that are created together; without those that have ended and are not created
            again, because schedulers do not count them.
    """

    needed: int
    members: int


class JobGang:
    """The gang of one job.

    Args:
        observed: The job and its children.
        owner: The job.
        policy: Its ``schedulingPolicy``.
        size: Returns the numbers of its pods.
        templates: Returns the templates of its pods.
    """

    def __init__(
        self,
        observed: Observed,
        owner: Owner,
        policy: SchedulingPolicy,
        *,
        size: Callable[[], GangSize],
        templates: Callable[[], Iterable[dict[str, Any]]],
    ) -> None:
        self._observed = observed
        self._owner = owner
        self._policy = policy
        # Most jobs ask for no gang: what only a gang needs is found out when it is needed.
        self._size = size
        self._templates = templates

    @cached_property
    def _in_use(self) -> str | None:
        return membership.engine_in_use(self._observed.children.items())

    @property
    def _state(self) -> GangState:
        return self._observed.gang or GangState()

    def question(self) -> GroupQuery | None:
        """Return what must be known first; None for a job that has nothing to do with gangs."""
        if self._observed.gang is not None or not (self._policy.wants_gang or self._in_use):
            return None
        schedulers_named = {
            str((each.get("spec") or {}).get("schedulerName") or "") for each in self._templates()
        }
        scheduler = next(iter(schedulers_named)) if len(schedulers_named) == 1 else ""
        return GroupQuery(engine=self._in_use or "", scheduler=scheduler, owner=self._owner)

    @property
    def is_wanted(self) -> bool:
        """Whether a gang is asked for."""
        return self._policy.wants_gang

    @property
    def engine(self) -> str:
        """The scheduler that should place the pods together; empty for none."""
        return self._state.served.name if self._state.served and self._in_use != "" else ""

    @property
    def size(self) -> int:
        """Number of pods that have to be there together."""
        return self._gang.size

    def add_to(self, plan: Plan) -> None:
        """Add to a plan the PodGroup, and to the pods in it that they belong to it.

        Pods that were created without a scheduler of gangs stay so: those that are created in their
        place must not wait for a group that the others are not in.

        A gang that is not asked for any more keeps its PodGroup, of one pod, until the job is
        deleted: schedulers leave pods alone whose group does not exist.
        """
        if not (self._policy.wants_gang or self._policy.priority_class or self._in_use):
            return
        served, found = self._state.served, self._state.group
        engine = group = ""
        if self._in_use == "":
            served = None
        if served is not None and (self._policy.wants_gang or self._in_use):
            engine, has_pods = served.name, bool(self._observed.pods)
            plan.group = groups.write(self._owner, served, self._gang, found, has_pods=has_pods)
            if plan.group is not None and plan.group.delete is not None:
                plan.stages, plan.coming = [], {}  # not before it can be created anew
            elif not self._is_incomplete_forever(served):
                group = groups.name_of(self._owner, engine)
        apply.apply(
            plan,
            engine=engine,
            group=group,
            priority_class=self._policy.priority_class or "",
        )

    def _is_incomplete_forever(self, served: Served) -> bool:
        """Whether pods that are created in place of others would wait for more than there will be.

        So they do not belong to the group. The others have been placed together before.
        """
        found = self._state.group
        return (
            found is not None
            and not served.is_resizable
            and bool(self._observed.pods)
            and self._size().members < schedulers.size_of(served, found.spec)
        )

    @property
    def _gang(self) -> Gang:
        if not self._policy.wants_gang:
            return schedulers.Gang(size=1)
        timeout = self._policy.schedule_timeout_seconds
        is_default = isinstance(self._policy, StartPolicy) and (
            timeout == DEFAULT_SCHEDULE_TIMEOUT_SECONDS
        )
        size = self._size()
        return groups.gang_of(
            self._policy,
            size.needed,
            members=size.members,
            queue=self._policy.queue or self._labelled_queue,
            timeout=None if is_default else timeout,
        )

    @property
    def _labelled_queue(self) -> str:
        """The queue that a label of the job or of a template names, as KAI reads it."""
        if self.engine != schedulers.KAI:
            return ""
        labelled = [self._owner.labels]
        labelled += [(each.get("metadata") or {}).get("labels") or {} for each in self._templates()]
        named = (each.get(schedulers.KAI_QUEUE) for each in labelled)
        return str(next(filter(None, named), ""))

    # -- what is said -------------------------------------------------------------------------

    def waiting(self) -> str:
        """Return why the gang is not scheduled; empty if it is, or nothing is known."""
        served, group = self._state.served, self._state.group
        if not waiting.unplaced(self._observed.pods) or not self._policy.wants_gang:
            return ""
        if self._state.problem:
            return self._state.problem
        if served is None or group is None or self._in_use == "":
            return ""
        gang = self._gang
        why = waiting.why(served, group, gang, self._observed.pods)
        if not why:
            return ""
        pods = "1 pod" if gang.size == 1 else f"{gang.size} pods"
        return f"{pods} are scheduled together or not at all ({served.name}): {why}"

    def warnings(self, path: str) -> list[Event]:
        """Return events for what no scheduler honors; for a new version of the spec only.

        Args:
            path: Path of the policy in the job.
        """
        return [Event("Warning", NOT_HONORED, text) for text in self._not_honored(path)]

    def _not_honored(self, path: str) -> list[str]:
        if not self._policy.wants_gang:
            return []
        if self._in_use == "":
            text = "the pods of this attempt were created without a scheduler of gangs"
            return [f"{path}: {text}, and stay so; a new attempt asks for one"]
        if self._state.problem:
            return [f"{path}: {self._state.problem}"]
        served = self._state.served
        if served is None:
            return [f"{path}: {NO_SCHEDULER}"]
        honored = schedulers.ENGINES[served.name].honors
        given = {"queue": self._policy.queue, "minResources": self._policy.min_resources}
        advice = {
            "queue": "only KAI and Volcano have queues: write schedulerName: kai-scheduler or"
            " schedulerName: volcano in the templates, or remove the field",
            "minResources": "its PodGroups have no such field: remove it",
        }
        return [
            f"{path}.{name}: {served.name} does not honor it; {advice[name]}"
            for name, value in given.items()
            if value and name not in honored
        ]
