"""The schedulers that place gangs: their group objects, and what the conditions of these say.

Sources of the formats:

- kubernetes: ``scheduling.k8s.io`` v1alpha2 of Kubernetes 1.36 and v1beta1 of 1.37
  (staging/src/k8s.io/api/scheduling). A PodGroup may stand alone; a Workload is a template of
  PodGroups, which nobody needs who writes a single one. Its fields are immutable, and so is the
  policy of a PodGroup in v1alpha2.
- coscheduling: ``scheduling.x-k8s.io/v1alpha1``, the plugin of kubernetes-sigs/scheduler-plugins.
- kai: ``scheduling.run.ai/v2alpha2`` of KAI Scheduler (pkg/apis/scheduling/v2alpha2 of 0.12;
  docs/developer/designs/external-podgroups of 0.15).
- volcano: ``scheduling.volcano.sh/v1beta1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBERNETES: Literal["kubernetes"] = "kubernetes"
COSCHEDULING: Literal["coscheduling"] = "coscheduling"
KAI: Literal["kai"] = "kai"
VOLCANO: Literal["volcano"] = "volcano"

Mode = Literal["auto", "none", "kubernetes", "coscheduling", "kai", "volcano"]
MODES: tuple[Mode, ...] = ("auto", "none", KUBERNETES, COSCHEDULING, KAI, VOLCANO)
"""What ``--gang-scheduling`` may be."""

PLURAL = "podgroups"
POD_GROUP = "PodGroup"
KAI_QUEUE = "kai.scheduler/queue"
"""Label with the name of a queue: of workloads, and of PodGroups that a queue counts."""
KAI_DEFAULT_QUEUE = "default-queue"
"""The queue that KAI gives groups whose workload names none."""

Document = dict[str, Any]


class Engine(Struct, frozen=True, kw_only=True):
    """A scheduler that places gangs.

    Attributes:
        name: Its name in ``--gang-scheduling``.
        group: API group of its PodGroups.
        versions: Known versions of the API, the preferred one first.
        scheduler: The ``schedulerName`` of pods that it places; empty if it may have any.
        by_name: Whether it tells PodGroups apart by their names only, not by their namespaces.
        honors: The fields of ``schedulingPolicy`` that it knows besides ``minAvailable``, with
            their names in the PodGroup.
        verbs: What the operator does with its PodGroups.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    scheduler: str = ""
    by_name: bool = False
    honors: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("get", "create", "patch")


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            name=VOLCANO,
            group="scheduling.volcano.sh",
            versions=("v1beta1",),
            scheduler="volcano",
            honors=("queue", "minResources"),
        ),
        Engine(
            name=KAI,
            group="scheduling.run.ai",
            versions=("v2alpha2",),
            scheduler="kai-scheduler",
            by_name=True,
            honors=("queue",),
        ),
        Engine(
            name=COSCHEDULING,
            group="scheduling.x-k8s.io",
            versions=("v1alpha1",),
            honors=("minResources",),
        ),
        Engine(
            name=KUBERNETES,
            group="scheduling.k8s.io",
            versions=("v1beta1", "v1alpha2"),
            # In v1alpha2, the group of the next attempt replaces one of another size.
            verbs=("get", "create", "patch", "delete"),
        ),
    )
}
"""In the order in which they are preferred."""

_IMMUTABLE = frozenset({f"{ENGINES[KUBERNETES].group}/v1alpha2"})
"""API versions in which the size of a gang cannot be changed."""


class Served(Struct, frozen=True, kw_only=True):
    """An engine whose API the cluster serves, in this version."""

    name: str
    version: str

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its PodGroups."""
        return f"{ENGINES[self.name].group}/{self.version}"

    @property
    def is_resizable(self) -> bool:
        """Whether the size of an existing gang can be changed."""
        return self.api_version not in _IMMUTABLE


class Gang(Struct, frozen=True, kw_only=True):
    """What a job asks for.

    Attributes:
        size: Number of pods that are scheduled together or not at all; at least 1.
        queue: The queue; empty for none.
        resources: Resources that must be free before.
        priority_class: PriorityClass of the gang; empty for none.
        timeout: Seconds for which a scheduler may keep room while pods are missing; None for its
            own default.
    """

    size: int
    queue: str = ""
    resources: dict[str, int | str] | None = None
    priority_class: str = ""
    timeout: int | None = None


def spec_of(served: Served, gang: Gang) -> Document:
    """Return the fields of a PodGroup's ``spec`` that are ours."""
    if served.name == KUBERNETES:
        return {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
    found: Document = {"minMember": gang.size}
    if gang.priority_class and served.name != COSCHEDULING:
        found["priorityClassName"] = gang.priority_class
    if served.name == KAI:
        return found | {"queue": gang.queue or KAI_DEFAULT_QUEUE}
    if gang.resources:
        found["minResources"] = gang.resources
    if served.name == COSCHEDULING:
        if gang.timeout is not None:
            found["scheduleTimeoutSeconds"] = gang.timeout
        return found
    if gang.queue:
        found["queue"] = gang.queue
    return found


def labels_of(served: Served, gang: Gang) -> dict[str, str]:
    """Return the labels of a PodGroup that are ours."""
    return {KAI_QUEUE: gang.queue or KAI_DEFAULT_QUEUE} if served.name == KAI else {}


_OPTIONAL = {
    COSCHEDULING: ("minResources", "scheduleTimeoutSeconds"),
    KAI: ("priorityClassName",),
    VOLCANO: ("minResources", "queue", "priorityClassName"),
    KUBERNETES: (),
}
_DEFAULTED = {"queue": "default"}
"""Fields that an engine fills itself if they are left out."""


def changes(
    served: Served, spec: Document, labels: Mapping[str, str], gang: Gang
) -> dict[tuple[str, ...], Any]:
    """Return the changes of an existing PodGroup by path; what others wrote elsewhere stays.

    Args:
        served: The engine.
        spec: The ``spec`` that is stored.
        labels: The labels that are stored.
        gang: What is asked for.
    """
    wanted = spec_of(served, gang)
    found: dict[tuple[str, ...], Any] = {}
    if (labelled := {**labels, **labels_of(served, gang)}) != labels:
        found["metadata", "labels"] = labelled
    for name, value in wanted.items():
        if not _is_same(spec.get(name), value):
            found["spec", name] = value
    for name in _OPTIONAL[served.name]:
        if name not in wanted and name in spec and spec[name] != _DEFAULTED.get(name):
            found["spec", name] = None
    return found


def _is_same(stored: Any, wanted: Any) -> bool:
    """Compare values; the API may store a quantity as text, and other fields beside ours."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return all(_is_same(stored.get(key), value) for key, value in wanted.items())
    return str(stored) == str(wanted)


def size_of(served: Served, spec: Document) -> int:
    """Return the size of the gang of a PodGroup that is stored; 1 if it has none."""
    if served.name == KUBERNETES:
        gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
        return int(gang.get("minCount") or 1)
    return int(spec.get("minMember") or 1)


def waiting(name: str, status: Document) -> str:
    """Return why a gang is not scheduled as its engine says it; empty if it says nothing.

    The phases of a group of the coscheduling plugin say nothing: they count pods that run. Neither
    do the conditions of Kubernetes after a gang was placed once.

    Args:
        name: The engine.
        status: The ``status`` of the PodGroup.
    """
    field = "schedulingConditions" if name == KAI else "conditions"
    conditions = [each for each in status.get(field) or () if isinstance(each, dict)]
    for each in conditions:
        kind, holds = each.get("type"), each.get("status")
        failed = (kind, holds) in {
            ("PodGroupScheduled", "False"),  # kubernetes, v1alpha2
            ("PodGroupInitiallyScheduled", "False"),  # kubernetes, v1beta1
            ("Unschedulable", "True"),  # volcano
            ("UnschedulableOnNodePool", "True"),  # kai
        }
        if failed:
            reasons = [str(one.get("message") or "") for one in each.get("reasons") or ()]  # kai
            said = "; ".join(dict.fromkeys(filter(None, reasons)))
            return said or str(each.get("message") or each.get("reason") or "unschedulable")
    phase = str(status.get("phase") or "")
    if name == VOLCANO and phase == "Pending":
        return "Volcano has not admitted the group to its queue yet"
    return ""
