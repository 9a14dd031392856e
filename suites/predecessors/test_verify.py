"""`traincrew verify`: a small MxJob checks an installation. The operator is played by the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.engine.errors import AlreadyExistsError, NotFoundError
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
from traincrew.predecessors.verification import MX_JOBS

if TYPE_CHECKING:
    from harness import Cluster

PROGRAM = Path(sys.executable).with_name("traincrew")
SUCCEEDED = {"phase": "Done", "state": "Succeeded"}


async def define(cluster: Cluster) -> None:
    version = {
        "name": MX_JOBS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    with contextlib.suppress(AlreadyExistsError):
        await cluster.client.create(
            CUSTOM_RESOURCE_DEFINITIONS,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{MX_JOBS.plural}.{MX_JOBS.group}"},
                "spec": {
                    "group": MX_JOBS.group,
                    "names": {"kind": MX_JOBS.kind, "plural": MX_JOBS.plural},
                    "scope": "Namespaced",
                    "versions": [version],
                },
            },
        )


async def start(cluster: Cluster, directory: Path, *options: str) -> asyncio.subprocess.Process:
    kubeconfig = directory / "config"
    kubeconfig.write_text(json.dumps(cluster.server.kubeconfig()))
    return await asyncio.create_subprocess_exec(
        PROGRAM,
        *("verify", "--kubeconfig", str(kubeconfig), "--image", "busybox:1", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def the_job(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def there() -> bool:
        items = (await cluster.client.list(MX_JOBS))["items"]
        found.update(items[0] if items else {})
        return bool(items)

    await cluster.until(there)
    return found


async def set_status(cluster: Cluster, job: dict[str, Any], **status: Any) -> None:
    name = job["metadata"]["name"]
    patch = {"status": status}
    await cluster.client.patch(MX_JOBS, name, "default", patch=patch, subresource="status")


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_a_job_is_created_seen_through_and_deleted(cluster: Cluster, tmp_path: Path) -> None:
    await define(cluster)
    process = await start(cluster, tmp_path)
    job = await the_job(cluster)
    name = job["metadata"]["name"]
    await set_status(cluster, job, phase="Running")
    await asyncio.wait_for(_line(process, "phase Running"), 30)
    await set_status(cluster, job, **SUCCEEDED)
    code, out, err = await ended(process)

    assert code == 0, err
    assert out.splitlines() == [
        "phase Done, state Succeeded",
        f"MxJob default/{name} deleted",
        "the operator works",
    ]
    with pytest.raises(NotFoundError):
        await cluster.client.get(MX_JOBS, name, "default")
    roles = [each["mxReplicaType"] for each in job["spec"]["replicaSpecs"]]
    assert roles == ["SCHEDULER", "SERVER", "WORKER"]
    images = {
        container["image"]
        for each in job["spec"]["replicaSpecs"]
        for container in each["template"]["spec"]["containers"]
    }
    assert images == {"busybox:1"}


async def _line(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdout is not None
    while text not in (line := (await process.stdout.readline()).decode()):
        assert line, "the program has ended"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"phase": "Done", "state": "Failed", "reason": "server 0: \x1b[1mcode 3"},
         "the job failed; server 0: ?[1mcode 3"),
        ({"phase": "Failed", "reason": "wrong"}, "the job failed; wrong"),
    ],
)  # fmt: skip
async def test_a_failure_is_told_and_the_job_deleted(
    cluster: Cluster, tmp_path: Path, status: dict[str, Any], said: str
) -> None:
    await define(cluster)
    process = await start(cluster, tmp_path)
    await set_status(cluster, await the_job(cluster), **status)
    code, _, err = await ended(process)

    assert code == 1
    assert said in err
    assert (await cluster.client.list(MX_JOBS))["items"] == []


async def test_an_operator_that_does_not_run(cluster: Cluster, tmp_path: Path) -> None:
    await define(cluster)
    code, _, err = await ended(await start(cluster, tmp_path, "--timeout", "2s"))

    assert code == 1
    assert "the job has not ended after 2 s; its status is empty: does the operator run?" in err
    assert (await cluster.client.list(MX_JOBS))["items"] == []


async def test_ended_from_outside_it_deletes_the_job(cluster: Cluster, tmp_path: Path) -> None:
    await define(cluster)
    process = await start(cluster, tmp_path)
    await the_job(cluster)
    process.send_signal(signal.SIGTERM)
    code, _, err = await ended(process)

    assert code == 1
    assert "ended by SIGTERM" in err
    assert (await cluster.client.list(MX_JOBS))["items"] == []


async def test_without_the_kind(cluster: Cluster, tmp_path: Path) -> None:
    code, _, err = await ended(await start(cluster, tmp_path, "--namespace", "absent"))

    assert code == 1
    assert "MxJobs are not served in namespace absent: install the CustomResource" in err
