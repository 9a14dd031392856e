"""The replicated jobs of a JobSet while it is made: what each policy adds to their pods.

Something that is added replaces what has the same name already, in its place, as Trainer does it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.trainjob.runtime import pod_of, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Document = dict[str, Any]

INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""The number of a pod in its Job."""


def put(items: list[Document], item: Document, same: Callable[[Document], bool]) -> None:
    """Add an item to a list in place, or replace the first that is the same."""
    for place, each in enumerate(items):
        if same(each):
            items[place] = copy.deepcopy(item)
            return
    items.append(copy.deepcopy(item))


class Container:
    """A container.

    Args:
        document: The container, which is changed.
    """

    def __init__(self, document: Document) -> None:
        self.document = document

    def _items(self, field: str) -> list[Document]:
        found: list[Document] = self.document.setdefault(field, [])
        return found

    def add_env(self, variables: Iterable[Document]) -> None:
        """Add variables."""
        for each in variables:
            put(self._items("env"), each, _named(each["name"]))

    def add_mount(self, name: str, path: str) -> None:
        """Mount a volume."""
        mount = {"name": name, "mountPath": path}
        put(self._items("volumeMounts"), mount, lambda each: each.get("mountPath") == path)

    def add_port(self, number: int) -> None:
        """Add a port; one without a name replaces another without."""
        put(
            self._items("ports"),
            {"containerPort": number},
            lambda each: each.get("containerPort") == number or not each.get("name"),
        )


class PodSet:
    """A replicated job.

    Args:
        document: The replicated job, which is changed.

    Attributes:
        name: Its name.
        step: The part of the TrainJob that it is for; empty for none.
        count: The number of its pods.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.name: str = document["name"]
        self.step = step_of(document)
        self.count = max(int(self.job.get("parallelism") or 1), 1)

    @property
    def job(self) -> Document:
        """``spec`` of its Jobs."""
        found: Document = self.document["template"]["spec"]
        return found

    @property
    def pod(self) -> Document:
        """``spec`` of its pods."""
        return pod_of(self.document)

    def container(self, name: str) -> Container | None:
        """Return the container of a name; None if there is none."""
        for each in self.pod["containers"]:
            if each.get("name") == name:
                return Container(each)
        return None

    def add_volume(self, volume: Document) -> None:
        """Add a volume."""
        put(self.pod.setdefault("volumes", []), volume, _named(volume["name"]))

    def set_count(self) -> None:
        """Write the number of pods into the Job."""
        self.job["parallelism"] = self.job["completions"] = self.count


def _named(name: str) -> Callable[[Document], bool]:
    return lambda each: each.get("name") == name


def variable(name: str, value: object) -> Document:
    """Return a variable."""
    return {"name": name, "value": str(value)}


def index_variable(name: str) -> Document:
    """Return a variable with the number of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": INDEX_FIELD}}}
