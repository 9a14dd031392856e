"""The kinds of jobs on a cluster, and finding a job among them by what a user writes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from traincrew.cli.display.objects import Job
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.jobview.kinds import BATCH_JOB, OtherKind, shown
from traincrew.cli.jobview.objects import Queued
from traincrew.cli.watching.jobwatch import Scope, listed
from traincrew.cli.watching.rights import refused
from traincrew.engine.cache.views import ViewDecoder
from traincrew.engine.errors import ApiError, BadAnswerError, GoneError, NotFoundError
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import Resource
from traincrew.plan.shared.queueing import kueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.cli.jobview.kinds import JobKind
    from traincrew.engine.client import Client

__all__ = [
    "ALL",
    "WORKLOADS",
    "Served",
    "find",
    "is_served",
    "jobs",
    "named",
    "not_installed",
    "read",
    "scope_of",
]


T = TypeVar("T", Job, Queued)


class Served(NamedTuple):
    """A kind, and where the API has its objects."""

    kind: JobKind
    resource: Resource

    @property
    def is_needed(self) -> bool:
        """Whether a missing right to read its jobs is reported: not if only others run them."""
        return not isinstance(self.kind, OtherKind)

    def selector_of(self, name: str) -> str:
        """Return the label selector of the pods and children of one job."""
        own = f"{self.kind.label}={name}"
        parts = self.kind.selector.split(",")
        others = [part for part in parts if part not in {"", self.kind.label}]
        return ",".join([*others, own])


def scope_of(served: Served, namespace: str, name: str) -> Scope:
    """Return what to watch for one job."""
    return Scope(namespace, name, served.selector_of(name))


def _served(kind: JobKind) -> Served:
    names = kind.definition
    return Served(kind, Resource(names.group, names.version, names.plural, names.kind))


ALL = tuple(map(_served, shown()))
"""The kinds of training jobs."""
BY_NAME = (_served(BATCH_JOB),)
"""Kinds whose jobs are shown to who names one: most Jobs of a cluster do not train."""
WORKLOADS = tuple(
    Resource(kueue.GROUP, version, "workloads", kueue.WORKLOAD)
    for version in (kueue.VERSION, "v1beta1")
)
_WORKLOAD_NAMES = frozenset({kueue.WORKLOAD.lower(), "workloads", "wl", kueue.WORKLOADS})


async def jobs(client: Client, served: Served, namespace: str | None) -> AsyncIterator[Job]:
    """Yield the jobs of a kind, page by page.

    Args:
        client: The API server.
        served: The kind.
        namespace: The namespace; None for all of them.

    Raises:
        NotFoundError: The kind is not installed.
        CommandFailed: The request was refused; the message has the missing right.
    """
    try:
        async for job in listed(client, served.resource, Job, namespace):
            yield job
    except NotFoundError:
        raise
    except GoneError as error:
        raise CommandFailed("the jobs changed while they were listed; try again") from error
    except (msgspec.DecodeError, RecursionError, BadAnswerError) as error:
        raise CommandFailed(f"cannot list {served.resource.plural}: {error}") from error
    except ApiError as error:
        raise refused(error, "list", served.resource, namespace) from error


async def is_served(client: Client, served: Served) -> bool:
    """Return whether the API has a kind; True if that cannot be found out.

    Who may read nothing of a kind is refused whether it exists or not: discovery, which everybody
    may read, knows.
    """
    resource = served.resource
    try:
        found = await client.request_object("GET", f"/apis/{resource.api_version}")
        return any(one.get("name") == resource.plural for one in found["resources"])
    except NotFoundError:
        return False
    except (ApiError, ValueError, LookupError, TypeError, AttributeError):
        return True


def named(word: str) -> list[Served]:
    """Return the kinds that a word means: a kind, a plural, a short name, ``plural.group``.

    Raises:
        BadInput: There is no such kind.
    """
    low = word.lower()
    found = []
    for served in (*ALL, *BY_NAME):
        defined = served.kind.definition
        names = {defined.kind.lower(), defined.plural, *defined.short_names}
        if low in names | {f"{name}.{defined.group}" for name in names}:
            found.append(served)
    if not found:
        kinds = ", ".join(dict.fromkeys(one.kind.definition.kind.lower() for one in ALL))
        raise BadInput(f"there is no kind {plain(word)!r} here; there are: {kinds}")
    return found


async def read(client: Client, served: Served, namespace: str, name: str) -> Job | None:
    """Return a job; None if there is none of this name.

    Raises:
        NotFoundError: The kind is not installed.
        CommandFailed: The request was refused.
    """
    return await _read(client, served.resource, Job, namespace, name)


async def _read(
    client: Client, resource: Resource, view: type[T], namespace: str, name: str
) -> T | None:
    try:
        body = await client.request("GET", resource.path(namespace, name))
    except NotFoundError as error:
        if error.is_about(name):
            return None
        raise
    except ApiError as error:
        raise refused(error, "get", resource, namespace) from error
    return ViewDecoder(resource, view).object(body)


async def find(client: Client, word: str, namespace: str) -> tuple[Served, Job]:
    """Return the job that ``[KIND/]NAME`` means.

    Raises:
        BadInput: The kind does not exist, or several jobs have the name.
        CommandFailed: There is no such job, or a request was refused.
    """
    kind, slash, name = word.rpartition("/")
    if not name:
        raise BadInput(f"{plain(word)!r} is not the name of a job: write KIND/NAME or NAME")
    if kind.lower() in _WORKLOAD_NAMES:
        return await _of_workload(client, name, namespace)
    candidates = named(kind) if slash else list(ALL)
    found: list[tuple[Served, Job]] = []
    refusal: CommandFailed | None = None
    installed = []
    for served in candidates:
        try:
            job = await read(client, served, namespace, name)
        except NotFoundError:
            continue
        except CommandFailed as error:
            if refusal is None and await is_served(client, served):
                refusal = error
            continue
        installed.append(served)
        if job is not None:
            found.append((served, job))
    # A job that another one is made of has the same name.
    found = [one for one in found if not one[1].is_part] or found
    if len(found) == 1:
        return found[0]
    if found:
        words = " or ".join(f"{each.resource.plural}.{each.resource.group}/{name}"
                            for each, _ in found)  # fmt: skip
        raise BadInput(f"several jobs have the name {plain(name)!r}: write {plain(words)}")
    if not slash and (other := await _by_name(client, name, namespace)) is not None:
        return other
    if refusal is not None:
        raise refusal
    if not installed:
        raise CommandFailed(not_installed(candidates))
    raise CommandFailed(await _no_such_job(client, installed, name, namespace))


async def _by_name(client: Client, name: str, namespace: str) -> tuple[Served, Job] | None:
    """Return the job of this name of a kind that is not listed; None if there is none to read."""
    for served in BY_NAME:
        try:
            job = await read(client, served, namespace, name)
        except (NotFoundError, CommandFailed):
            continue
        if job is not None:
            return served, job
    return None


async def _of_workload(client: Client, name: str, namespace: str) -> tuple[Served, Job]:
    """Return the job that a Workload of Kueue belongs to.

    Raises:
        CommandFailed: There is no such Workload, or what it belongs to is no job that is shown.
    """
    for resource in WORKLOADS:
        try:
            found = await _read(client, resource, Queued, namespace, name)
        except NotFoundError:
            continue
        if found is None:
            break
        owner = controller_of(found)
        if owner is None:
            raise CommandFailed(plain(f"{kueue.WORKLOAD} {name} belongs to no job"))
        for served in (*ALL, *BY_NAME):
            names = served.kind.definition
            if (names.api_version, names.kind) == (owner.api_version, owner.kind):
                job = await read(client, served, namespace, owner.name)
                if job is not None and job.metadata.uid == owner.uid:
                    return served, job
        text = f"{kueue.WORKLOAD} {name} belongs to {owner.kind} {owner.name}, which is not shown"
        raise CommandFailed(plain(text))
    raise CommandFailed(plain(f"there is no {kueue.WORKLOAD} {name!r} in namespace {namespace}"))


async def _no_such_job(client: Client, candidates: list[Served], name: str, namespace: str) -> str:
    names: list[str] = []
    for served in candidates:
        try:
            names += [job.metadata.name async for job in jobs(client, served, namespace)]
        except (CommandFailed, ApiError, msgspec.MsgspecError):
            continue  # a suggestion is not worth another error
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    if not names:
        hint = f"; there is no job in namespace {namespace}: choose another with -n"
    kinds = "/".join(dict.fromkeys(one.kind.definition.kind for one in candidates))
    return plain(f"there is no {kinds} {name!r} in namespace {namespace}{hint}")


def not_installed(kinds: list[Served]) -> str:
    """Return the message for kinds that a cluster does not have."""
    names = ", ".join(dict.fromkeys(one.kind.definition.kind for one in kinds))
    return (
        f"the cluster has no {names}: the CustomResourceDefinitions are not installed "
        "(traincrew manifests | kubectl create -f -)"
    )
