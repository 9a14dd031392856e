"""The ssh keys of MPIClusters: made once, of use to ssh, and nowhere but in their Secret."""

from __future__ import annotations

import base64
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from harness import MPI_CLUSTERS, OPERATOR_AGENT, PODS, STATEFUL_SETS, Cluster
from plan.mpicluster.manifests import interactive
from traincrew.engine.resources import SECRETS
from traincrew.local.apiserver.http.faults import refuse
from traincrew.operator.keypairs import with_key_pair

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.apiserver.http.faults import Fault

NAME, SECRET = "hello", "hello-ssh-key"
FILES = {"id_ed25519", "id_ed25519.pub", "id_rsa", "id_rsa.pub", "authorized_keys"}


def secret_named(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "type": "Opaque",
    }


def decoded(secret: dict[str, Any]) -> dict[str, bytes]:
    return {name: base64.b64decode(text) for name, text in secret["data"].items()}


# -- a pair -------------------------------------------------------------------------------------


def test_a_pair_is_complete_and_never_the_same() -> None:
    one, other = (decoded(with_key_pair(secret_named("s"))) for _ in range(2))
    assert set(one) == FILES
    assert one["id_rsa"] == one["id_ed25519"]
    assert one["authorized_keys"] == one["id_ed25519.pub"] == one["id_rsa.pub"]
    assert one["id_ed25519.pub"].startswith(b"ssh-ed25519 ")
    assert one["id_ed25519.pub"].endswith(b" default/s\n")
    assert one["id_ed25519"].startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert one["id_ed25519"] != other["id_ed25519"]


def test_the_document_of_a_plan_is_not_modified() -> None:
    document = secret_named("s")
    with_key_pair(document)
    assert "data" not in document


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_openssh_reads_the_private_key(tmp_path: Path) -> None:
    files = decoded(with_key_pair(secret_named("s")))
    key = tmp_path / "id_rsa"
    key.write_bytes(files["id_rsa"])
    key.chmod(0o400)
    command = ["ssh-keygen", "-y", "-P", "", "-f", str(key)]
    public = subprocess.run(command, capture_output=True, check=True, timeout=20).stdout
    assert public.split()[:2] == files["authorized_keys"].split()[:2]


# -- the Secret of a cluster --------------------------------------------------------------------


async def test_a_secret_is_made_once(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=1))
    await cluster.until_phase(NAME, "Created", sshKeySecretName=SECRET)
    secret = await cluster.client.get(SECRETS, SECRET, "default")
    assert set(secret["data"]) == FILES
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MPICluster", NAME)
    await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.run_hosts(NAME, "worker-0")
    await cluster.run_hosts(NAME, "master")
    await cluster.until_phase(NAME, "Running")
    again = await cluster.client.get(SECRETS, SECRET, "default")
    assert again["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]


async def test_an_operator_that_dies_before_the_status_is_stored_keeps_the_keys(
    cluster: Cluster,
) -> None:
    def die(method: str, path: str, agent: str) -> Fault | None:
        status = method == "PATCH" and path.partition("?")[0].endswith(f"/{NAME}/status")
        return refuse(503) if status and agent.startswith(OPERATOR_AGENT) else None

    cluster.server.faults = die
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=1))
    secret: dict[str, Any] = await cluster.until(lambda: cluster.find(SECRETS, SECRET))
    await cluster.kill_operator()
    cluster.server.faults = None
    await cluster.start_operator()
    await cluster.until_phase(NAME, "Created", sshKeySecretName=SECRET)
    again = await cluster.client.get(SECRETS, SECRET, "default")
    assert again["data"] == secret["data"]


async def test_a_foreign_secret_is_told_and_not_touched(cluster: Cluster) -> None:
    mine = {**secret_named(SECRET), "stringData": {"password": "hunter2"}}
    before = await cluster.client.create(SECRETS, mine, "default")
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=1))
    job = await cluster.until_phase(NAME, "Created", reason="ErrResourceExists", message=SECRET)
    assert "sshKeySecretName" not in job["status"]
    assert await cluster.client.get(SECRETS, SECRET, "default") == before
    assert not await cluster.all(STATEFUL_SETS), "no pod may mount it"

    await cluster.edit(NAME, {"ssh": {"keySecretName": SECRET}})
    await cluster.until_phase(NAME, "Created", sshKeySecretName=SECRET)


async def test_the_secret_of_an_earlier_cluster_is_waited_for(cluster: Cluster) -> None:
    earlier = {
        "apiVersion": MPI_CLUSTERS.api_version,
        "kind": "MPICluster",
        "name": NAME,
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }
    blocked = True

    def keep(method: str, path: str, agent: str) -> Fault | None:
        garbage = method == "DELETE" and "/secrets" in path and agent.startswith("controllers")
        return refuse(503) if garbage and blocked else None

    cluster.server.faults = keep
    old = secret_named(SECRET, ownerReferences=[earlier])
    await cluster.client.create(SECRETS, old, "default")
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=1))
    text = f"Secret {SECRET} of an earlier MPICluster of this name is still being deleted"
    await cluster.until_phase(NAME, "Created", reason="WaitingForDeletion", message=text)
    assert await cluster.all(PODS) == []

    blocked = False
    await cluster.until_phase(NAME, "Created", reason="WaitingForWorkers", sshKeySecretName=SECRET)
    secret = await cluster.client.get(SECRETS, SECRET, "default")
    assert secret["metadata"]["ownerReferences"][0]["uid"] != earlier["uid"]
    assert set(secret["data"]) == FILES


async def test_what_is_read_of_a_secret_has_no_data(cluster: Cluster) -> None:
    mine = {**secret_named("theirs"), "stringData": {"password": "hunter2"}}
    await cluster.client.create(SECRETS, mine, "default")
    read = await cluster.client.get(SECRETS, "theirs", "default", metadata_only=True)
    assert read["metadata"]["name"] == "theirs"
    assert "data" not in read


async def test_keys_are_in_no_log_event_or_status(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even if requests fail and their errors are logged."""
    failures = iter(range(3))

    def fail(method: str, path: str, agent: str) -> Fault | None:
        create = method == "POST" and "/secrets" in path and agent.startswith(OPERATOR_AGENT)
        return refuse(500) if create and next(failures, None) is not None else None

    cluster.server.faults = fail
    await cluster.start_operator()
    await cluster.create(interactive(NAME, workers=0))
    await cluster.run_hosts(NAME, "master")
    job = await cluster.until_phase(NAME, "Running")
    files = decoded(await cluster.client.get(SECRETS, SECRET, "default"))
    private = files["id_rsa"].decode()
    lines = private.splitlines()[1:-1]
    said = "".join(capfd.readouterr())
    said += str(job) + str(await cluster.events_of(NAME)) + str(await cluster.all(PODS))
    for line in [*lines, base64.b64encode(files["id_rsa"]).decode()[:60]]:
        assert line not in said
