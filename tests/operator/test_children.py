"""How children are created: what is there already, and what somebody deletes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from traincrew.engine.errors import AlreadyExistsError, NotFoundError
from traincrew.engine.gate import Gate
from traincrew.engine.resources import JOBS
from traincrew.operator.children import ChildWriter
from traincrew.plan.shared.model import Refusal

OWNER = {"kind": "ChainerJob", "name": "j", "uid": "u", "controller": True}
CHILD: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j-master", "namespace": "default", "ownerReferences": [OWNER]},
}


class Storing:
    """An API server that counts requests.

    Args:
        stored: The object that it has.
    """

    def __init__(self, stored: dict[str, Any] | None) -> None:
        self.stored = stored
        self.requests: list[str] = []

    async def create(self, _resource: Any, document: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.requests.append("create")
        return document

    async def get(self, *_: Any, **_options: Any) -> dict[str, Any]:
        self.requests.append("get")
        if self.stored is None:
            raise NotFoundError("not found", code=404)
        return self.stored


async def test_a_child_that_should_be_there_is_looked_for_first() -> None:
    client = Storing(CHILD)
    writer = ChildWriter(client, {"Job": JOBS}, Gate(), unwatched=[JOBS])  # type: ignore[arg-type]
    answer = await writer.create(CHILD, expected=True)
    assert (answer.result, answer.new) == (CHILD, False)
    assert client.requests == ["get"]


async def test_a_child_that_should_be_there_is_created_if_it_is_not() -> None:
    client = Storing(None)
    writer = ChildWriter(client, {"Job": JOBS}, Gate())  # type: ignore[arg-type]
    answer = await writer.create(CHILD, expected=True)
    assert (answer.result, answer.new) == (CHILD, True)
    assert client.requests == ["get", "create"]


async def test_an_object_of_somebody_else_is_not_taken_for_a_child() -> None:
    metadata = {**CHILD["metadata"], "ownerReferences": [{**OWNER, "uid": "another"}]}
    client = Storing({**CHILD, "metadata": metadata})
    writer = ChildWriter(client, {"Job": JOBS}, Gate())  # type: ignore[arg-type]
    answer = await writer.create(CHILD, expected=True)
    assert isinstance(answer.result, Refusal)
    assert answer.result.message.startswith('jobs "j-master" already exists')
    assert client.requests == ["get"]


class Vanishing:
    """An API server whose object is there when it is created and not when it is read."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.created = 0

    async def create(self, _resource: Any, document: dict[str, Any], **_: Any) -> dict[str, Any]:
        if self.refusals:
            self.refusals -= 1
            raise AlreadyExistsError("already exists", code=409)
        self.created += 1
        return document

    async def get(self, *_: Any, **_options: Any) -> dict[str, Any]:
        raise NotFoundError("not found", code=404)


async def test_an_object_that_vanishes_between_create_and_get() -> None:
    client = Vanishing(refusals=1)
    writer = ChildWriter(client, {"Job": JOBS}, Gate())  # type: ignore[arg-type]
    answer = await writer.create(CHILD)
    assert (answer.result, answer.new) == (CHILD, True)
    assert client.created == 1


async def test_one_that_keeps_vanishing_is_left_to_the_next_reconcile() -> None:
    writer = ChildWriter(Vanishing(refusals=2), {"Job": JOBS}, Gate())  # type: ignore[arg-type]
    with pytest.raises(AlreadyExistsError):  # what the controller repeats quietly
        await writer.create(CHILD)
