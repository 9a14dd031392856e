"""Reports of training programs: from a pod's own variables, volume and token into the status."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from harness import JOBS, OPERATOR_AGENT, PODS, Cluster
from plan.chainerjob.world import plain
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import interactive
from plan.mxjob.manifests import local
from reporter import Reporter
from traincrew.engine.resources import SECRETS, SERVICE_ACCOUNTS
from traincrew.local.apiserver.http.tokens import Tokens
from traincrew.operator.deferral import STATUS_INTERVAL
from traincrew.operator.options import PROGRESS_SECRET, ProgressOptions
from traincrew.operator.progress.protocol import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.http.faults import AuditRecord

REPORT: dict[str, Any] = {
    "progressPercentage": 45,
    "estimatedRemainingSeconds": 600,
    "metrics": [{"name": "loss", "value": "0.41"}, {"name": "current_epoch", "value": "2.5"}],
    "lastUpdatedTime": "2001-01-23T10:30:45.123456+00:00",
}
WORKER = "flowers-worker-0"


@pytest.fixture
def options(unused_tcp_port: int) -> ProgressOptions:
    return ProgressOptions(
        host="127.0.0.1", port=unused_tcp_port, namespace="default", metrics=("loss",)
    )


async def reporter(cluster: Cluster, name: str) -> Reporter:
    """Return the program in a pod, once the pod exists."""
    return Reporter(cluster, await cluster.until(lambda: cluster.find(PODS, name)))


async def reporting(cluster: Cluster, options: ProgressOptions) -> Reporter:
    """Return the program of an ElasticJob's first worker, which runs."""
    await cluster.start_operator(progress=options)
    await cluster.create(elastic(1))
    found = await reporter(cluster, WORKER)
    await cluster.run_pod(found.pod)
    await cluster.until_phase("flowers", "Running")
    return found


async def until_progress(cluster: Cluster, job: str, **fields: Any) -> dict[str, Any]:
    """Wait until the status of a job has these fields in its progress."""

    async def check() -> Any:
        progress: dict[str, Any] = (await cluster.job(job))["status"].get("progress", {})
        assert {key: progress.get(key) for key in fields} == fields
        return progress

    found: dict[str, Any] = await cluster.until(check)
    return found


# -- from the pod into the status -------------------------------------------------------------


async def _first_pod(cluster: Cluster, prefix: str) -> str:
    async def check() -> Any:
        names = [pod["metadata"]["name"] for pod in await cluster.all(PODS)]
        return [name for name in names if name.startswith(prefix)]

    found: list[str] = await cluster.until(check)
    return found[0]


@pytest.mark.parametrize(
    ("manifest", "prefix"),
    [
        (plain, "digits-master"),
        (lambda: elastic(1), WORKER),
        (lambda: local("digits-local"), "digits-local-worker"),
        (lambda: interactive("hello", workers=0), "hello-master"),
    ],
    ids=["chainerjob", "elasticjob", "mxjob", "mpicluster"],
)
async def test_a_report_of_a_pod_is_in_the_status_of_its_job(
    cluster: Cluster,
    options: ProgressOptions,
    manifest: Callable[[], dict[str, Any]],
    prefix: str,
) -> None:
    await cluster.start_operator(progress=options)
    job = (await cluster.create(manifest()))["metadata"]["name"]
    program = await reporter(cluster, await _first_pod(cluster, prefix))

    assert await program.report(**REPORT) == (200, {"trainerStatus": REPORT})

    progress = await until_progress(cluster, job, percentage=45, estimatedRemainingSeconds=600)
    assert progress["metrics"] == REPORT["metrics"]
    assert progress["lastUpdateTime"] > "2020"  # our clock, not the pod's


async def test_the_newest_report_replaces_the_one_before_and_outlives_operators(
    cluster: Cluster, options: ProgressOptions
) -> None:
    program = await reporting(cluster, options)
    await program.report(**REPORT)
    await until_progress(cluster, "flowers", percentage=45)
    await program.report(progressPercentage=60)
    progress = await until_progress(cluster, "flowers", percentage=60)
    assert progress.keys() == {"percentage", "lastUpdateTime", "lastAdvanceTime"}

    await cluster.stop_operator()
    await cluster.start_operator(progress=options)
    await until_progress(cluster, "flowers", percentage=60)
    # The pod still trusts the operator: the CA is the same.
    assert (await program.report(progressPercentage=100))[0] == 200
    await cluster.end_pod(program.pod, 0)

    await cluster.until_phase("flowers", "Succeeded")
    await until_progress(cluster, "flowers", percentage=100)


async def test_many_reports_are_few_requests(cluster: Cluster, options: ProgressOptions) -> None:
    program = await reporting(cluster, options)
    token = await program.token()
    records: list[AuditRecord] = []
    cluster.server.audit = records.append
    began = time.monotonic()
    codes = []
    for number in range(50):
        body = json.dumps({"trainerStatus": {"progressPercentage": number}}).encode()
        codes.append((await program.post(body, token))[0])

    assert codes[:10] == [200] * 10
    assert 429 in codes
    accepted = max(number for number, code in enumerate(codes) if code == 200)
    await until_progress(cluster, "flowers", percentage=accepted)
    took = time.monotonic() - began
    ours = [record for record in records if record.user_agent.startswith(OPERATOR_AGENT)]
    assert sum("tokenreviews" in record.path for record in ours) == 1
    assert sum("/flowers/status" in record.path for record in ours) <= 1 + took / STATUS_INTERVAL


async def test_prometheus_sees_percentage_time_left_and_named_metrics(
    cluster: Cluster, options: ProgressOptions, unused_tcp_port_factory: Callable[[], int]
) -> None:
    port = unused_tcp_port_factory()
    await cluster.start_operator(progress=options, metrics_address=f"127.0.0.1:{port}")
    await cluster.create(elastic(1))
    program = await reporter(cluster, WORKER)
    await program.report(
        **{**REPORT, "metrics": [*REPORT["metrics"], {"name": "x", "value": "nan"}]}
    )

    async def scrape() -> list[str]:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            answer = await session.get("/metrics")
            text = await answer.text()
        return [line for line in text.splitlines() if line.startswith("traincrew_job_")]

    rest = 'name="flowers",namespace="default"'
    labels = f'kind="ElasticJob",{rest}'
    assert sorted(await scrape()) == [
        f"traincrew_job_estimated_remaining_seconds{{{labels}}} 600.0",
        f'traincrew_job_metric{{kind="ElasticJob",metric="loss",{rest}}} 0.41',
        f"traincrew_job_progress_percentage{{{labels}}} 45.0",
    ]
    await cluster.client.delete(cluster.kind_of("flowers"), "flowers", "default")

    async def no_series() -> bool:
        return not await scrape()

    await cluster.until(no_series)


# -- what is refused --------------------------------------------------------------------------

NO_CLAIMS = [
    b'{"a":' + b"[" * 2500 + b"]" * 2500 + b"}",
    b"[" * 2500,
    b'{"aud": "\xff"}',
    b'{"exp": ' + b"9" * 4500 + b"}",
    b'{"kubernetes.io": {"pod": ["a", "a"]}}',
    b"\xff\xfe",
    b"",
]
"""Contents of tokens that no decoder takes."""


async def test_who_may_not_report(cluster: Cluster, options: ProgressOptions) -> None:
    program = await reporting(cluster, options)
    other = elastic(1)
    other["metadata"]["name"] = "birds"
    await cluster.create(other)
    stranger = await reporter(cluster, "birds-worker-0")
    body = json.dumps({"trainerStatus": REPORT}).encode()

    async def refused(token: str | None) -> int:
        code, answer = await program.post(body, token)
        assert (answer["kind"], answer["code"]) == ("Status", code)
        assert answer["message"]
        return code

    assert await refused(None) == 401
    assert await refused("") == 401
    assert await refused("no-token") == 401
    assert await refused("a.b.c") == 401
    for content in NO_CLAIMS:
        packed = base64.urlsafe_b64encode(content).decode().rstrip("=")
        assert await refused(f"a.{packed}.c") == 401
    assert await refused(await program.token("https://kubernetes.default.svc")) == 401
    # Another job's own token, and one for this job that is bound to a pod of another one.
    assert await refused(await stranger.token()) == 401
    assert await refused(await stranger.token(program.audience)) == 403
    # Anybody may request a token of an account for an audience, but not bind it to a pod.
    assert await refused(await program.token(bound={})) == 403
    # A forged signature, and a token that has expired.
    head, claims, _ = (await program.token()).split(".")
    assert await refused(f"{head}.{claims}.{'A' * 43}") == 401
    assert await refused(await _expired(cluster, program)) == 401
    assert "progress" not in (await cluster.job("flowers"))["status"]


async def _expired(cluster: Cluster, program: Reporter) -> str:
    account = await cluster.client.get(SERVICE_ACCOUNTS, "default", "default")
    pod = {key: program.pod["metadata"][key] for key in ("name", "uid")}
    tokens = Tokens("for-tests-only-0123456789", time.time)
    return tokens.issue(account, [program.audience], int(time.time()) - 1, {"pod": pod})


async def test_a_pod_that_is_gone_reports_no_more(
    cluster: Cluster, options: ProgressOptions
) -> None:
    program = await reporting(cluster, options)
    assert (await program.report(progressPercentage=1))[0] == 200
    token = await program.token()
    await cluster.client.delete(PODS, WORKER, "default", grace_period=0)

    async def refused() -> bool:
        code, _ = await program.post(b'{"trainerStatus":{"progressPercentage":99}}', token)
        assert code in {200, 403, 429}
        return code == 403

    await cluster.until(refused)


def _named(count: int) -> list[dict[str, str]]:
    return [{"name": str(number), "value": "1"} for number in range(count)]


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"progressPercentage": 101}, "progressPercentage"),
        ({"progressPercentage": -1}, "progressPercentage"),
        ({"progressPercentage": "45"}, "progressPercentage"),
        ({"progressPercentage": 1e300}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds"),
        ({"estimatedRemainingSeconds": 1 << 40}, "estimatedRemainingSeconds"),
        ({"metrics": {"loss": 1}}, "metrics"),
        ({"metrics": [{"name": "loss", "value": 0.5}]}, "metrics"),
        ({"metrics": [{"name": "", "value": "1"}]}, "metrics"),
        ({"metrics": [{"name": "x" * 129, "value": "1"}]}, "metrics"),
        ({"metrics": [{"name": "loss", "value": "1" * 65}]}, "metrics"),
        ({"metrics": [{"name": "a\x1b[2J", "value": "1"}]}, "metrics"),
        ({"metrics": [{"name": "loss", "value": "1"}] * 2}, "metrics"),
        ({"metrics": _named(257)}, "metrics"),
        ({"lastUpdatedTime": "yesterday"}, "lastUpdatedTime"),
    ],
)
async def test_a_bad_field_is_named(status: dict[str, Any], field: str) -> None:
    from datetime import UTC, datetime

    from traincrew.operator.progress.protocol import InvalidReportError, parse

    with pytest.raises(InvalidReportError, match=field):
        parse(json.dumps({"trainerStatus": status}).encode(), datetime.now(UTC))


async def test_bodies_that_are_no_reports(
    cluster: Cluster, options: ProgressOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is not about too many of them.
    monkeypatch.setattr("traincrew.operator.progress.server.REPORTS_AT_ONCE", 100)
    program = await reporting(cluster, options)
    token = await program.token()
    url, long = program.url, b'{"trainerStatus":{"metrics":[' + b" " * MAX_BODY + b"]}}"

    async def code(body: bytes, **more: Any) -> int:
        return (await program.post(body, token, **more))[0]

    assert await code(b'{"trainerStatus":{"progressPercentage":NaN}}') == 422
    assert await code(b'{"trainerStatus":{"progressPercentage":Infinity}}') == 422
    assert await code(b"[" * 20_000) == 422
    assert await code(b'{"a":' * 2500 + b"1" + b"}" * 2500) == 422
    assert await code(b'{"trainerStatus":' * 2500) == 422
    assert await code(b'{"trainerStatus": {"metrics": [{"name": "\xff"}]}}') == 422
    ranks = f"{url}/ranks"
    for body in (b'{"a":' * 2500 + b"1" + b"}" * 2500, b"\xff", b'{"rank": 1e999}', b"[" * 9):
        assert await code(body, url=ranks) == 422
    assert await code(b"\xff") == 422
    assert await code(long) == 413
    assert await code(json.dumps({"trainerStatus": {"metrics": _named(10_000)}}).encode()) == 413
    assert await code(b"{}", **{"Content-Encoding": "gzip"}) == 422
    assert await code(b"{}") == 200
    assert await code(b"", method="GET") == 405
    assert await code(b"{}", url=url.replace("elasticjobs", "pods")) == 404
    assert await code(b"{}", url=url.replace("default", "kube-system")) == 401
    assert "progress" not in (await cluster.job("flowers"))["status"]


# -- pods -------------------------------------------------------------------------------------


async def test_without_the_option_nothing_is_added(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(1))
    pod = await cluster.until(lambda: cluster.find(PODS, WORKER))

    assert "KUBEFLOW" not in json.dumps(pod)
    assert await cluster.find(SECRETS, PROGRESS_SECRET) is None


async def test_an_operator_that_begins_to_receive_reports_leaves_running_jobs_alone(
    cluster: Cluster, options: ProgressOptions
) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(1))
    await cluster.create(plain())
    pod = await cluster.until(lambda: cluster.find(PODS, WORKER))
    master = await cluster.run_master()
    await cluster.run_pod(pod)
    await cluster.until_phase("flowers", "Running")
    (job,) = await cluster.all(JOBS)
    await cluster.stop_operator()

    await cluster.start_operator(progress=options)
    second = elastic(1)
    second["metadata"]["name"] = "birds"
    await cluster.create(second)
    await reporter(cluster, "birds-worker-0")

    for before in (pod, master):
        after = await cluster.find(PODS, before["metadata"]["name"])
        assert after is not None
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert "KUBEFLOW" not in json.dumps(after)
    (same,) = await cluster.all(JOBS)
    assert same["spec"] == job["spec"]


async def test_two_operators_share_a_certificate_authority(
    cluster: Cluster, options: ProgressOptions
) -> None:
    from traincrew.operator.progress.certificates import stored_authority

    made = await asyncio.gather(
        *(stored_authority(cluster.client, "default", "ca") for _ in range(3))
    )
    assert len(set(made)) == 1
