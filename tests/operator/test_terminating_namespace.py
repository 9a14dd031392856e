"""Jobs whose namespace is terminating: nobody hears of what cannot be created any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import OPERATOR_AGENT
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import interactive
from plan.mxjob.manifests import distributed as parameter_servers
from traincrew.engine.clock import SYSTEM_CLOCK
from traincrew.local.apiserver.http.faults import Fault, refuse

if TYPE_CHECKING:
    from harness import Cluster

REFUSAL = (
    "{} is forbidden: unable to create new content in namespace default because it is being"
    " terminated"
)
SECONDS = 3.0
"""How long the requests of the operator are counted: longer than its first retries take."""


@pytest.mark.parametrize(
    "manifest",
    [distributed(), elastic(), interactive(), parameter_servers()],
    ids=lambda manifest: manifest["kind"],
)
async def test_nothing_is_told_and_little_is_tried(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], manifest: dict[str, Any]
) -> None:
    refused: list[str] = []

    def forbid(method: str, path: str, agent: str) -> Fault | None:
        if method != "POST" or not agent.startswith(OPERATOR_AGENT):
            return None
        if "/leases" in path or "/events" in path:  # so that the test sees what would be told
            return None
        refused.append(path)
        return refuse(403, REFUSAL.format(path.rpartition("/")[2].partition("?")[0]))

    cluster.server.faults = forbid
    await cluster.start_operator()
    await cluster.create(manifest)
    name = manifest["metadata"]["name"]

    async def has_tried() -> bool:
        return bool(refused)

    await cluster.until(has_tried)
    first, end = len(refused), SYSTEM_CLOCK.monotonic() + SECONDS

    async def time_is_over() -> bool:
        return SYSTEM_CLOCK.monotonic() >= end

    await cluster.edit(name, {})
    await cluster.until(time_is_over)
    assert len(refused) <= 2 * first + 4
    assert [event for event in await cluster.events_of(name) if event[0] == "Warning"] == []
    said = capsys.readouterr().err
    assert "error" not in said
    assert "terminated" not in said
