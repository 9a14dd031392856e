"""The places of a job's pods, replica type and index, and the labels that tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from traincrew.plan.shared.kind import PodPlace, place_by, replicas_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Place(NamedTuple):
    """The replica type and index of one pod of a job."""

    type: str
    """As the user wrote it."""
    number: int

    @property
    def key(self) -> str:
        """The name of the place, unique within the job."""
        return f"{self.type.lower()}-{self.number}"

    def name(self, job: str) -> str:
        """Return the name of the pod and of its Service."""
        return f"{job}-{self.key}"


class Replicas(Struct, frozen=True):
    """The pods of one type that a job asks for."""

    count: int
    template: dict[str, Any]
    restart_policy: str | None
    """That of the kind, which overrides the template's; None if the template's counts."""

    @property
    def policy(self) -> str:
        """The restart policy that counts."""
        return self.restart_policy or self.template.get("spec", {}).get("restartPolicy", "Never")

    @property
    def pod_policy(self) -> str:
        """The restart policy of the pods themselves, which knows no ``ExitCode``."""
        return "Never" if self.policy == "ExitCode" else self.policy


def places(replicas: Mapping[str, Replicas]) -> Iterator[Place]:
    """Yield the place of every desired pod, in order."""
    for name, each in sorted(replicas.items()):
        for index in range(each.count):
            yield Place(name, index)


class Labels(Struct, frozen=True, kw_only=True):
    """The labels of a kind's children.

    Attributes:
        mark: One that all children of the kind have, and its value.
        job: The one with the name of the job.
        type: The one with the replica type, in lower case.
        index: The one with the index.
        types: The replica types; any, if empty.
    """

    mark: tuple[str, str]
    job: str
    type: str
    index: str
    types: tuple[str, ...] = ()

    def of_job(self, job: str) -> dict[str, str]:
        """Return the labels of all children of a job, in alphabetical order."""
        name, value = self.mark
        return dict(sorted({name: value, self.job: job}.items()))

    def of_type(self, job: str, type_name: str) -> dict[str, str]:
        """Return the labels of all pods of a type, in alphabetical order."""
        return dict(sorted({**self.of_job(job), self.type: type_name.lower()}.items()))

    def of(self, job: str, place: Place) -> dict[str, str]:
        """Return the labels of one pod and of its Service."""
        return {**self.of_type(job, place.type), self.index: str(place.number)}

    @property
    def selector(self) -> str:
        """Selects the children of all jobs; other kinds use the label of the job as well."""
        return f"{'='.join(self.mark)},{self.job}"

    def place(self, labels: Mapping[str, str]) -> PodPlace:
        """Return the place of a pod with these labels."""
        found = place_by(self.type, self.index)(labels)
        names = {name.lower(): name for name in self.types}
        return found._replace(role=names.get(found.role, found.role.capitalize()))


def roles(specs: object) -> dict[str, int]:
    """Return the number of pods of each type in replica specs, which may be invalid."""
    given = specs if isinstance(specs, dict) else {}
    return {name: replicas_in(one) for name, one in sorted(given.items())}
