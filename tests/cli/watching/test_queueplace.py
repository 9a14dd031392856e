"""Which place a job has in its queue, as Kueue says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from traincrew.cli.display.objects import Queue
from traincrew.cli.jobview.objects import QueuePlace
from traincrew.cli.watching.queueplace import place_in_queue
from traincrew.engine.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from traincrew.engine.resources import Resource

QUEUE = Queue(name="team-a", workload="mine")


class Server:
    """Answers with what is given for each version of the API, or raises it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str | None, str]] = []

    async def get(
        self, resource: Resource, name: str, namespace: str, *, subresource: str
    ) -> dict[str, Any]:
        self.asked.append((resource.version, name, namespace, subresource))
        answer = self.answers.get(resource.version, NotFoundError("no such API"))
        if isinstance(answer, Exception):
            raise answer
        found: dict[str, Any] = answer
        return found


def waiting(*names: str) -> dict[str, Any]:
    return {
        "items": [
            {
                "metadata": {"name": name},
                "positionInLocalQueue": number,
                "positionInClusterQueue": 2 * number,
            }
            for number, name in enumerate(names)
        ]
    }


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        ({"v1beta2": waiting("other", "mine")}, QueuePlace(1, 2)),
        ({"v1beta1": waiting("mine")}, QueuePlace(0, 0)),
        ({"v1beta2": waiting("other")}, None),
        ({"v1beta2": {"items": [{"positionInLocalQueue": "odd"}]}}, None),
        ({"v1beta2": ForbiddenError("no")}, None),
        ({}, None),
    ],
    ids=["second", "an-older-kueue", "not-waiting", "an-odd-answer", "forbidden", "not-served"],
)
async def test_place(answers: dict[str, Any], place: QueuePlace | None) -> None:
    server = Server(**answers)
    assert await place_in_queue(server, QUEUE, "team") == place  # type: ignore[arg-type]
    assert server.asked[0] == ("v1beta2", "team-a", "team", "pendingworkloads")
