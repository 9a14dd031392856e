"""Positions of ranks, and reports that do not advance: what is said, and what ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness import PODS, Cluster
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from reporter import Reporter
from traincrew.engine.client import Client
from traincrew.operator.options import ProgressOptions
from traincrew.operator.progress import reports
from traincrew.operator.progress.positions import MAX_RANKS_OF_POD
from traincrew.operator.progress.protocol import MAX_RANKS, InvalidReportError, parse_rank

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME = "flowers"


@pytest.fixture
def options(unused_tcp_port: int) -> ProgressOptions:
    return ProgressOptions(host="127.0.0.1", port=unused_tcp_port, namespace="default")


@pytest.fixture
def prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """All containers print lines all the time."""

    async def logs(_client: Client, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b"2099-01-01T00:00:00.000000000Z a collective operation is stalled"

    monkeypatch.setattr(Client, "logs", logs)


async def running(
    cluster: Cluster, options: ProgressOptions, workers: int, **fields: Any
) -> list[Reporter]:
    """Return the programs of the workers of a job, which run."""
    await cluster.start_operator(progress=options)
    await cluster.create(elastic(workers, **fields))
    pods = await cluster.run_members(NAME, workers)
    await cluster.until_phase(NAME, "Running", workersReady=f"{workers}/{workers}")
    return [Reporter(cluster, pod) for pod in pods]


async def place(
    program: Reporter, body: dict[str, Any] | bytes, token: str | None = None
) -> tuple[int, dict[str, Any]]:
    """Send the position of a rank."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await program.post(sent, token or await program.token(), url=f"{program.url}/ranks")


async def until_condition(cluster: Cluster, reason: str) -> dict[str, Any]:
    """Wait until the condition has this reason; return the status of the job."""

    async def check() -> Any:
        status: dict[str, Any] = (await cluster.job(NAME))["status"]
        found = [each for each in status["conditions"] if each["type"] == "Progressing"]
        assert [each["reason"] for each in found] == [reason]
        return status

    found: dict[str, Any] = await cluster.until(check)
    return found


def progressing(status: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each for each in status["conditions"] if each["type"] == "Progressing"]
    return {key: found[key] for key in ("status", "message")}


# -- what is said ---------------------------------------------------------------------------------


async def test_a_rank_that_is_behind_is_named_while_it_is(
    cluster: Cluster, options: ProgressOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "POSITIONS_SECONDS", 0.1)
    monkeypatch.setattr("traincrew.operator.progress.positions.MIN_SECONDS", 0.0)
    monkeypatch.setattr("traincrew.operator.progress.positions._MIDDLE_SECONDS", 0.0)
    programs = await running(cluster, options, 3)
    await programs[0].report(progressPercentage=20)
    for percentages in ((20, 20, 6), (40, 40.126, 12)):
        for rank, percentage in enumerate(percentages):
            body = {"rank": rank, "worldSize": 3, "percentage": percentage}
            assert await place(programs[rank], body) == (200, body)

    status = await until_condition(cluster, "RankBehind")
    message = (
        f"Rank 2 in pod {NAME}-worker-2 is behind: it has done 12%,"
        " and the median of 3 ranks is 40%."
    )
    assert progressing(status) == {"status": "False", "message": message}
    assert status["phase"] == "Running"
    found = status["progress"]["ranks"]
    assert (found["count"], found["median"]) == (3, 40)
    slowest = [(each["rank"], each["pod"], each["percentage"]) for each in found["slowest"]]
    assert slowest == [
        (rank, f"{NAME}-worker-{rank}", percentage)
        for rank, percentage in ((2, 12), (0, 40), (1, 40.13))
    ]

    await place(programs[2], {"rank": 2, "percentage": 40})
    status = await until_condition(cluster, "Advancing")
    assert progressing(status) == {"status": "True", "message": "No rank is behind any more."}

    async def reported() -> bool:
        events = await cluster.events_of(NAME)
        return [event for event in events if event[1] in ("RankBehind", "Advancing")] == [
            ("Warning", "RankBehind", message),
            ("Normal", "Advancing", "No rank is behind any more."),
        ]

    await cluster.until(reported)


@pytest.mark.usefixtures("prints")
async def test_a_job_that_prints_goes_on_although_it_does_not_advance(
    cluster: Cluster, options: ProgressOptions
) -> None:
    (program, _) = await running(cluster, options, 2, progressDeadlineSeconds=2)
    await program.report(progressPercentage=45)
    await until_condition(cluster, "Advancing")
    status = await until_condition(cluster, "NotAdvancing")
    said = progressing(status)["message"]
    assert said.startswith("The program has reported no advance for 2 s: 45% since ")
    assert status["phase"] == "Running"
    assert "failures" not in status

    await program.report(progressPercentage=45, metrics=[{"name": "loss", "value": "1"}])
    status = await until_condition(cluster, "Advancing")
    assert "failures" not in status


@pytest.mark.usefixtures("prints")
async def test_it_is_ended_if_only_reports_count(
    cluster: Cluster, options: ProgressOptions
) -> None:
    policy = {"progressDeadlineSeconds": 2, "progressSource": "Reports", "backoffLimit": 0}
    programs = await running(cluster, options, 2, **policy)
    for rank, percentage in enumerate((45.5, 45)):
        await place(programs[rank], {"rank": rank, "percentage": percentage})
    await programs[0].report(progressPercentage=45)

    job = await cluster.until_phase(NAME, "Failed", reason="NoProgress")

    message = job["status"]["message"]
    assert message.startswith("The program has reported no advance for 2 s: 45% since ")
    assert message.endswith(
        f" UTC. Rank 1 in pod {NAME}-worker-1 stopped first, at 45%, and the median of 2 ranks is"
        " 45.25%; the backoff limit is reached"
    )
    types = [each["type"] for each in job["status"]["conditions"]]
    assert "Progressing" not in types


@pytest.mark.usefixtures("prints")
async def test_a_program_that_has_never_reported_is_judged_by_its_output(
    cluster: Cluster, options: ProgressOptions
) -> None:
    """The first attempt reports and is ended; the second prints only, and goes on."""
    policy = {"progressDeadlineSeconds": 2, "progressSource": "Reports"}
    (program, _) = await running(cluster, options, 2, **policy)
    await program.report(progressPercentage=45)
    before = {pod["metadata"]["uid"] for pod in await cluster.all(PODS)}

    async def others() -> bool:
        pods = await cluster.all(PODS)
        return len(pods) == 2 and not {pod["metadata"]["uid"] for pod in pods} & before

    await cluster.until(others)
    await cluster.run_members(NAME, 2)
    await cluster.until_phase(NAME, "Running", failures="1")
    read: list[int] = []
    logs = Client.logs

    def counted(*args: Any, **fields: Any) -> Any:
        read.append(1)
        return logs(*args, **fields)

    Client.logs = counted  # type: ignore[method-assign]
    try:

        async def asked_again_and_again() -> bool:
            return len(read) >= 3

        await cluster.until(asked_again_and_again)
    finally:
        Client.logs = logs  # type: ignore[method-assign]
    status = (await cluster.job(NAME))["status"]
    assert (status["phase"], status["failures"]) == ("Running", 1)


async def test_the_slowest_rank_is_known_to_the_next_operator(
    cluster: Cluster, options: ProgressOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "POSITIONS_SECONDS", 0.1)
    programs = await running(cluster, options, 2)
    for rank, percentage in enumerate((41.4, 41.2)):
        await place(programs[rank], {"rank": rank, "percentage": percentage})
    await programs[0].report(progressPercentage=41)

    async def stored() -> Any:
        progress = (await cluster.job(NAME))["status"].get("progress", {})
        ranks = progress.get("ranks", {"slowest": []})
        assert [each["rank"] for each in ranks["slowest"]] == [1, 0]
        return ranks

    before = await cluster.until(stored)
    await cluster.stop_operator()
    await cluster.start_operator(progress=options)
    await programs[0].report(progressPercentage=42)

    async def reported() -> Any:
        progress = (await cluster.job(NAME))["status"]["progress"]
        assert progress["percentage"] == 42
        return progress["ranks"]

    assert await cluster.until(reported) == before


# -- what is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"rank": NaN, "percentage": 1}', "JSON is malformed"),
        (b'{"rank": 1, "percentage": NaN}', "JSON is malformed"),
        (b'{"rank": 1, "percentage": 1e999}', "`$.percentage`"),
        ({"rank": 1, "percentage": 100.5}, "`$.percentage`"),
        ({"rank": 1, "percentage": "half"}, "`$.percentage`"),
        ({"rank": 1}, "`percentage`"),
        ({"rank": -1, "percentage": 1}, "`$.rank`"),
        ({"rank": MAX_RANKS, "percentage": 1}, "`$.rank`"),
        ({"rank": 10**30, "percentage": 1}, "`$.rank`"),
        ({"rank": 4, "worldSize": 4, "percentage": 1}, "`$.rank`"),
        ({"rank": 4, "worldSize": 0, "percentage": 1}, "`$.worldSize`"),
        ({"trainerStatus": {"progressPercentage": 5}}, "`rank`"),
        (b"[1]", "object"),
        (b"\xff", ""),
    ],
)
async def test_bodies_that_are_no_positions(body: dict[str, Any] | bytes, field: str) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(InvalidReportError) as refused:
        parse_rank(sent)
    assert field in str(refused.value)


async def test_who_may_not_report_a_position(cluster: Cluster, options: ProgressOptions) -> None:
    (program,) = await running(cluster, options, 1)
    manifest = elastic(1)
    manifest["metadata"]["name"] = "other"
    await cluster.create(manifest)
    other = Reporter(cluster, await cluster.until(lambda: cluster.find(PODS, "other-worker-0")))
    body = {"rank": 0, "percentage": 1}

    assert (await place(program, body, await other.token()))[0] == 401
    assert (await place(program, body, await other.token(program.audience)))[0] == 403
    assert (await place(program, body, "no.such.token"))[0] == 401
    url = f"{program.url}/ranks/0"
    assert (await program.post(b"{}", await program.token(), url=url))[0] == 404
    assert (await program.post(b"x" * 100_000, await program.token(), url=url[:-2]))[0] == 413
    assert (await place(program, b'{"rank": NaN}'))[0] == 422
    assert (await place(program, body))[0] == 200


async def test_ten_thousand_ranks_cannot_keep_rank_0_from_reporting(
    cluster: Cluster, options: ProgressOptions
) -> None:
    (program,) = await running(cluster, options, 1)
    token = await program.token()
    codes = []
    for rank in range(MAX_RANKS_OF_POD + 100):
        codes.append((await place(program, {"rank": rank, "percentage": 1}, token))[0])
        if rank > MAX_RANKS_OF_POD and rank % 25 == 0:
            assert (await program.report(progressPercentage=rank % 100))[0] == 200
    assert codes.count(200) == MAX_RANKS_OF_POD
    assert set(codes[MAX_RANKS_OF_POD:]) == {429}
    # A rank that is known may report again, though not at once.
    assert (await place(program, {"rank": 0, "percentage": 2}, token))[0] in {200, 429}


async def test_ranks_of_a_chainerjob_report_from_its_workers(
    cluster: Cluster, options: ProgressOptions
) -> None:
    """What mpiexec starts by kubectl exec has the environment of the worker's container."""
    await cluster.start_operator(progress=options)
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase("digits-mn", "Running")
    (worker, _) = await cluster.until_pods("workerset", 2)
    program = Reporter(cluster, worker)
    assert (await place(program, {"rank": 1, "worldSize": 3, "percentage": 10}))[0] == 200
