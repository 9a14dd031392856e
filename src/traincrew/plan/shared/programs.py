"""Which container's end is the end of a pod's program: one rule for every kind and every display.

The program runs in the container that the contract of the kind names, else in the first of
``spec.containers``. An init container, a sidecar (an init container with ``restartPolicy: Always``)
or another container never decides how a job ended: a kubelet kills sidecars after the program, and
helpers end with codes of their own.

The status of a pod does not tell which container is the first: kubelets sort it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from traincrew.api.podtemplate import main_container

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class _Declared(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def restart_policy(self) -> str | None: ...


class _Observed(Protocol):
    @property
    def name(self) -> str: ...


Status_co = TypeVar("Status_co", bound=_Observed, covariant=True)


class _Spec(Protocol):
    @property
    def containers(self) -> Sequence[_Declared]: ...
    @property
    def init_containers(self) -> Sequence[_Declared]: ...


class _PodStatus(Protocol[Status_co]):
    @property
    def container_statuses(self) -> Sequence[Status_co]: ...
    @property
    def init_container_statuses(self) -> Sequence[Status_co]: ...


class Pod(Protocol[Status_co]):
    """A view of a pod: that of the plans, or that of the command line."""

    @property
    def spec(self) -> _Spec: ...  # noqa: D102 - as in Kubernetes
    @property
    def status(self) -> _PodStatus[Status_co]: ...  # noqa: D102 - likewise


AnyStatus = TypeVar("AnyStatus", bound=_Observed)


def name_of_program(pod: Pod[AnyStatus], named: Collection[str]) -> str | None:
    """Return the name of the container that runs a pod's program; None if nothing is known of it.

    Args:
        pod: The pod.
        named: `traincrew.api.kind.Kind.containers` of its kind.
    """
    names = [each.name for each in pod.spec.containers]
    names = names or [each.name for each in pod.status.container_statuses]
    return names[main_container(names, named)] if names else None


def program(pod: Pod[AnyStatus], named: Collection[str]) -> AnyStatus | None:
    """Return the status of the container that runs a pod's program; None if it has none yet."""
    name = name_of_program(pod, named)
    return next((each for each in pod.status.container_statuses if each.name == name), None)


def that_can_fail(pod: Pod[AnyStatus], named: Collection[str]) -> list[AnyStatus]:
    """Return the containers whose end may explain why a pod failed, the likeliest first.

    That is the program, then what had to end before it, then what runs beside it. Sidecars end with
    their pod, whatever happened.
    """
    sidecars = _sidecars(pod)
    own = program(pod, named)
    before = [each for each in pod.status.init_container_statuses if each.name not in sidecars]
    beside = [each for each in pod.status.container_statuses if each is not own]
    return [*([own] if own is not None else []), *before, *beside]


def by_importance(pod: Pod[AnyStatus], named: Collection[str]) -> list[AnyStatus]:
    """Return all containers of a pod; the first one that is not well explains its state."""
    sidecars = _sidecars(pod)
    last = [each for each in pod.status.init_container_statuses if each.name in sidecars]
    return [*that_can_fail(pod, named), *last]


def _sidecars(pod: Pod[AnyStatus]) -> set[str]:
    return {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}


__all__ = ["Pod", "by_importance", "name_of_program", "program", "that_can_fail"]
