"""Verifies an installation: runs a small MxJob, from its creation to its deletion."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.resources import Resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from traincrew.engine.client import Client

MX_JOBS = Resource("mxnet.mlkube.io", "v1beta1", "mxjobs", "MxJob")
POLL_SECONDS = 0.5
_TTL_SECONDS = 600
"""How long the job stays if this process is killed before it has deleted it."""
_UNREADABLE_SECONDS = 15.0
"""How long reads may fail before the check fails: a restart of an API server takes less."""

# Each replica checks the variables that a program of MXNet needs to find the others.
_SCRIPT = """\
fail() { echo "$1" | tee /dev/termination-log 2>/dev/null; exit 3; }
[ "$DMLC_ROLE" = "$0" ] || fail "DMLC_ROLE is '$DMLC_ROLE' instead of '$0'"
[ "$DMLC_NUM_SERVER:$DMLC_NUM_WORKER" = 1:2 ] || fail "DMLC_NUM_SERVER:DMLC_NUM_WORKER is wrong"
[ -n "$DMLC_PS_ROOT_URI" ] || fail "DMLC_PS_ROOT_URI is not set"
[ "$DMLC_PS_ROOT_PORT" = 9091 ] || fail "DMLC_PS_ROOT_PORT is '$DMLC_PS_ROOT_PORT'"
echo "$DMLC_ROLE: scheduler at $DMLC_PS_ROOT_URI:$DMLC_PS_ROOT_PORT"
"""


class VerificationError(Exception):
    """The installation does not work; the message says what happened, and what to check."""


def job(name: str, image: str) -> dict[str, Any]:
    """Return a job with a scheduler, a server and two workers that end at once.

    Its pods are admitted under the Pod Security level ``restricted``.
    """
    return {
        "apiVersion": MX_JOBS.api_version,
        "kind": MX_JOBS.kind,
        "metadata": {"name": name},
        "spec": {
            "jobMode": "dist",
            "replicaSpecs": [
                _replicas("SCHEDULER", 1, image),
                _replicas("SERVER", 1, image),
                _replicas("WORKER", 2, image),
            ],
            "runPolicy": {"ttlSecondsAfterFinished": _TTL_SECONDS},
        },
    }


def _replicas(role: str, count: int, image: str) -> dict[str, Any]:
    container = {
        "name": "mxnet",
        "image": image,
        "command": ["sh", "-c", _SCRIPT, role.lower()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {"replicas": count, "mxReplicaType": role, "template": {"spec": pod}}


async def verify(
    client: Client, namespace: str, image: str, seconds: float, say: Callable[[str], None]
) -> None:
    """Create the job, wait until it has succeeded, and delete it, whatever happened.

    Args:
        client: The API server.
        namespace: Where.
        image: An image with a POSIX shell.
        seconds: Time for the job to succeed, and again for its deletion.
        say: Called with a line for each change.

    Raises:
        VerificationError: The job did not succeed in time, or it cannot be created or deleted.
    """
    name = f"mxjob-test-{secrets.token_hex(3)}"
    try:
        created = await client.create(MX_JOBS, job(name, image), namespace)
    except NotFoundError as error:
        raise VerificationError(
            f"MxJobs are not served in namespace {namespace}: install the"
            f" CustomResourceDefinitions, and check the namespace ({error.message})"
        ) from error
    except ApiError as error:
        raise VerificationError(f"cannot create an MxJob: {error.message}") from error
    say(f"MxJob {namespace}/{name} created, with image {image}")
    watched = _Watched(client, namespace, name, created["metadata"]["uid"])
    try:
        await watched.until_succeeded(seconds, say)
    finally:
        await asyncio.shield(watched.delete(seconds))
        say(f"MxJob {namespace}/{name} deleted")


class _Watched:
    """The job, while it exists."""

    def __init__(self, client: Client, namespace: str, name: str, uid: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._uid = uid
        self._last: dict[str, Any] = {}

    async def until_succeeded(self, seconds: float, say: Callable[[str], None]) -> None:
        try:
            async with asyncio.timeout(seconds):
                async for status in self._changes():
                    phase, state = status.get("phase"), status.get("state")
                    say(f"phase {phase}" + (f", state {state}" if state else ""))
                    if state == "Succeeded" and phase == "Done":
                        return
                    if state == "Failed" or phase == "Failed":
                        raise VerificationError(f"the job failed{self._why()}")
        except TimeoutError:
            hint = self._why() or "; its status is empty: does the operator run? See its log"
            raise VerificationError(f"the job has not ended after {seconds:g} s{hint}") from None

    async def _changes(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the status whenever phase or state has changed."""
        seen: tuple[Any, Any] = (None, None)
        loop = asyncio.get_running_loop()
        read_at = loop.time()
        while True:
            try:
                found = await self._client.get(MX_JOBS, self._name, self._namespace)
            except ApiError as error:
                if not error.transient or loop.time() - read_at > _UNREADABLE_SECONDS:
                    raise VerificationError(f"cannot read the job: {error.message}") from error
            else:
                read_at = loop.time()
                self._last = found.get("status") or {}
                now = (self._last.get("phase"), self._last.get("state"))
                if now not in {seen, (None, None)}:
                    seen = now
                    yield self._last
            await asyncio.sleep(POLL_SECONDS)

    def _why(self) -> str:
        texts = [self._last.get(key) for key in ("reason", "message")]
        return "".join(f"; {text}" for text in dict.fromkeys(filter(None, texts)))

    async def delete(self, seconds: float) -> None:
        try:
            await self._client.unless_gone(
                self._client.delete(
                    MX_JOBS, self._name, self._namespace,
                    propagation="Foreground", uid=self._uid,
                ),
                MX_JOBS, self._name, self._namespace, uid=self._uid,
            )  # fmt: skip
            async with asyncio.timeout(seconds):
                while True:
                    if await self._client.is_gone(
                        MX_JOBS, self._name, self._namespace, uid=self._uid
                    ):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except ApiError as error:
            raise VerificationError(
                f"cannot delete MxJob {self._namespace}/{self._name}: {error.message}"
            ) from error
        except TimeoutError:
            raise VerificationError(
                f"MxJob {self._namespace}/{self._name} is not gone {seconds:g} s after its deletion"
            ) from None
