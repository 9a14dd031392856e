"""The rotation of the ssh keys of an MPICluster: what is in the Secret when, and nowhere else."""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from harness import OPERATOR_AGENT, Cluster
from plan.mpicluster.manifests import interactive
from traincrew.engine.resources import SECRETS
from traincrew.local.apiserver.http.faults import refuse
from traincrew.operator import keypairs

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import Fault

NAME, SECRET = "hello", "hello-ssh-key"
pytestmark = pytest.mark.usefixtures("impatient")
OVERLAP = 2
MINE = b"ssh-ed25519 AAAAmine me@home\n"

Files = dict[str, bytes]


async def files(cluster: Cluster) -> Files:
    secret = await cluster.client.get(SECRETS, SECRET, "default")
    return {name: base64.b64decode(text) for name, text in secret["data"].items()}


async def generation(cluster: Cluster) -> str:
    secret = await cluster.client.get(SECRETS, SECRET, "default")
    text: str = secret["metadata"]["annotations"]["traincrew.dev/key-generation"]
    return text


async def start(cluster: Cluster) -> Files:
    """Start an operator and a cluster that runs; return what its Secret has."""
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=1))
    await cluster.run_hosts(NAME, "worker-0")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running", sshKeyGeneration="1")
    return await files(cluster)


async def rotate(cluster: Cluster, number: int = 2, overlap: int = OVERLAP) -> None:
    await cluster.edit(NAME, {"ssh": {"keyGeneration": number, "keyOverlapSeconds": overlap}})


def assert_both(found: Files, before: Files) -> None:
    """Assert that the pair is another one, and that of before is beside it."""
    assert found["id_rsa"] == found["id_ed25519"] != before["id_ed25519"]
    assert found["id_previous"] == before["id_ed25519"]
    assert found["authorized_keys"] == found["id_rsa.pub"] + before["id_rsa.pub"]


def assert_newest(found: Files, both: Files) -> None:
    """Assert that nothing of the pair before is left."""
    assert found == {
        **{name: text for name, text in both.items() if name != "id_previous"},
        "authorized_keys": both["id_rsa.pub"],
    }


async def rotating(cluster: Cluster, number: int = 2) -> bool:
    status = (await cluster.job(NAME))["status"]
    return status.get("sshKeyGeneration") == number and "sshKeyRotationTime" in status


async def is_rotated(cluster: Cluster, number: int = 2) -> bool:
    status = (await cluster.job(NAME))["status"]
    return status.get("sshKeyGeneration") == number and "sshKeyRotationTime" not in status


async def test_a_pair_is_replaced_in_two_steps(cluster: Cluster) -> None:
    before = await start(cluster)
    await rotate(cluster)
    await cluster.until(lambda: rotating(cluster))
    both = await files(cluster)
    assert_both(both, before)
    assert await generation(cluster) == "2"
    await cluster.until(lambda: is_rotated(cluster), deadline=OVERLAP + 10)
    assert_newest(await files(cluster), both)

    async def is_told() -> bool:
        told = [event for event in await cluster.events_of(NAME) if event[1].startswith("Keys")]
        return [event[:2] for event in told] == [
            ("Normal", "KeysRotating"),
            ("Normal", "KeysRotated"),
        ]

    await cluster.until(is_told)


@pytest.mark.parametrize("step", [1, 2])
async def test_an_operator_that_dies_between_secret_and_status(cluster: Cluster, step: int) -> None:
    """The other one finds what is done, and neither makes another pair nor leaves one."""
    before = await start(cluster)

    def die(method: str, path: str, agent: str) -> Fault | None:
        status = method == "PATCH" and path.partition("?")[0].endswith(f"/{NAME}/status")
        return refuse(503) if status and agent.startswith(OPERATOR_AGENT) else None

    both: Files = {}
    if step == 2:
        await rotate(cluster)
        await cluster.until(lambda: rotating(cluster))
        both = await files(cluster)
    cluster.server.faults = die
    if step == 1:
        await rotate(cluster)

    async def is_written() -> bool:
        return ("id_previous" in await files(cluster)) == (step == 1)

    await cluster.until(is_written, deadline=OVERLAP + 10)
    written = await files(cluster)
    await cluster.kill_operator()
    cluster.server.faults = None
    await cluster.start_operator()
    if step == 1:
        assert_both(written, before)
        await cluster.until(lambda: rotating(cluster))
        assert await files(cluster) == written, "it has not begun anew"
        both = written
    await cluster.until(lambda: is_rotated(cluster), deadline=OVERLAP + 10)
    assert_newest(await files(cluster), both)


async def test_requests_that_fail_are_repeated(cluster: Cluster) -> None:
    before = await start(cluster)
    failed: Counter[str] = Counter()

    def fail(method: str, path: str, agent: str) -> Fault | None:
        ours = f"/secrets/{SECRET}" in path and agent.startswith(OPERATOR_AGENT)
        failed[method] += ours
        return refuse(500) if ours and failed[method] in {1, 2, 4} else None

    cluster.server.faults = fail
    await rotate(cluster, overlap=300)
    await cluster.until(lambda: rotating(cluster), deadline=30)
    cluster.server.faults = None
    assert_both(await files(cluster), before)


async def test_what_others_have_added_stays(cluster: Cluster) -> None:
    before = await start(cluster)
    added = {"authorized_keys": before["authorized_keys"] + MINE, "config": b"mine"}
    data = {name: base64.b64encode(content).decode() for name, content in added.items()}
    await cluster.client.patch(SECRETS, SECRET, "default", patch={"data": data})
    await rotate(cluster)
    await cluster.until(lambda: rotating(cluster))
    both = await files(cluster)
    assert both["authorized_keys"] == both["id_rsa.pub"] + before["id_rsa.pub"] + MINE
    await cluster.until(lambda: is_rotated(cluster), deadline=OVERLAP + 10)
    found = await files(cluster)
    assert found["authorized_keys"] == both["id_rsa.pub"] + MINE
    assert found["config"] == b"mine"


async def test_a_secret_that_was_deleted_is_made_again(cluster: Cluster) -> None:
    await start(cluster)
    await cluster.client.delete(SECRETS, SECRET, "default")
    await rotate(cluster)
    await cluster.until(lambda: rotating(cluster))
    assert "id_previous" not in await files(cluster)
    assert await generation(cluster) == "2"


async def test_keys_are_in_no_log_event_or_status(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even if requests fail and their errors are logged."""
    before = await start(cluster)
    failures = iter(range(3))

    def fail(method: str, path: str, agent: str) -> Fault | None:
        change = method == "PATCH" and "/secrets/" in path and agent.startswith(OPERATOR_AGENT)
        return refuse(500) if change and next(failures, None) is not None else None

    cluster.server.faults = fail
    await rotate(cluster)
    await cluster.until(lambda: rotating(cluster))
    after = await files(cluster)
    await cluster.until(lambda: is_rotated(cluster), deadline=OVERLAP + 10)
    said = "".join(capfd.readouterr())
    said += str(await cluster.job(NAME)) + str(await cluster.events_of(NAME))
    for each in (before, after):
        for line in each["id_rsa"].decode().splitlines()[1:-1]:
            assert line not in said
        assert base64.b64encode(each["id_rsa"]).decode()[:60] not in said


async def test_given_keys_cannot_be_rotated(cluster: Cluster) -> None:
    await cluster.start_operator()
    with pytest.raises(Exception, match="keyGeneration: the operator does not replace keys that"):
        await cluster.create(
            interactive(NAME, workers=1, ssh={"keySecretName": "mine", "keyGeneration": 2})
        )


# -- data ---------------------------------------------------------------------------------------


def secret(number: int, **data: str) -> dict[str, Any]:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    annotations = {"traincrew.dev/key-generation": str(number)}
    metadata = {"name": "s", "namespace": "default", "annotations": annotations}
    return {"metadata": metadata, "data": encoded}


def test_a_secret_without_keys_gets_a_pair() -> None:
    changed = keypairs.changes(secret(1), secret(2), retires=False)[("data",)]
    assert "id_previous" not in changed
    assert changed["authorized_keys"] == changed["id_rsa.pub"]


@pytest.mark.parametrize(
    ("there", "first", "last"), [(1, True, False), (2, False, True), (3, False, False)]
)
def test_a_step_that_is_not_due_reads_no_keys(there: int, first: bool, last: bool) -> None:
    found = {"metadata": secret(there)["metadata"]}
    assert keypairs.is_due(found, secret(2), retires=False) is first
    if there > 1:
        assert keypairs.is_due(found, secret(2), retires=True) is last


@pytest.mark.parametrize("text", [None, "", "many", "-1", "²"])
def test_an_annotation_that_is_no_number_is_the_first_pair(text: str | None) -> None:
    annotations = {} if text is None else {"traincrew.dev/key-generation": text}
    found = {"metadata": {"annotations": annotations}}
    assert keypairs.is_due(found, secret(2), retires=False)
    assert not keypairs.is_due(found, secret(1), retires=False)
