"""Finds and deletes what an older mxnet-operator left behind.

Its Jobs, Services and pods have labels, but no owner references, so nothing deleted them if their
MxJob was deleted while that operator was down or gone. An object is orphaned if it

- has that operator's labels and a name as that operator gave it,
- has no owner, and is not being deleted already, and
- carries a RuntimeId that no MxJob of its namespace has, in either API group.

The objects are listed before the jobs: mxnet-operator stores the RuntimeId of a job before it
creates anything for it, so the jobs of all objects that were found are in the later list, unless
they are gone. If anything cannot be listed, nothing is known, and `CannotTellError` is raised.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct

from traincrew.engine.client import Pages
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
)
from traincrew.engine.resources import JOBS, PODS, SERVICES, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.client import Client

GROUPS = ("mxnet.mlkube.io", "mlkube.io")
"""API groups of MxJob, the older one last; the labels of objects are the same for both."""
PLURAL, KIND, VERSION = "mxjobs", "MxJob", "v1beta1"
ROLES = ("SCHEDULER", "SERVER", "WORKER")
SELECTOR = f"mxnet.mlkube.io=,job_type in ({','.join(ROLES)}),runtime_id,task_index"
RESOURCES = (JOBS, SERVICES, PODS)
"""What mxnet-operator created, in the order of deletion: a Job would replace its pods."""

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 250
_ATTEMPTS = 3

T = TypeVar("T")


class CannotTellError(Exception):
    """It cannot be determined what is orphaned; the message has the reason and the fix."""


class Labelled(Struct, frozen=True):
    """An object with the labels of mxnet-operator.

    Attributes:
        resource: Its resource.
        namespace: Its namespace.
        name: Its name.
        uid: Its UID.
        version: Its resourceVersion.
        created: Time of its creation, as in the API.
        job: Name of its MxJob, from its own; empty if the name is not one of mxnet-operator's.
        runtime_id: RuntimeId of its MxJob.
        owned: Whether it has any owner.
        terminating: Whether it is being deleted.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    version: str
    created: str
    job: str
    runtime_id: str
    owned: bool
    terminating: bool


class LiveJob(Struct, frozen=True):
    """An MxJob that exists, whatever its state.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        runtime_id: Its RuntimeId; empty before an operator has set it.
    """

    namespace: str
    name: str
    runtime_id: str


class Orphan(Struct, frozen=True):
    """An object without a job, and how that is known."""

    found: Labelled
    reason: str


class Findings(Struct, frozen=True):
    """The result of a search.

    Attributes:
        orphans: Objects without a job, in the order of deletion.
        kept: Numbers of all other objects with the labels, by the reason to keep them.
    """

    orphans: tuple[Orphan, ...]
    kept: dict[str, int]


# -- decisions --------------------------------------------------------------------------------

OWNED = "with an owner, whose deletion deletes it, too"
LIVE = "of an MxJob that exists"
UNCLEAR = "perhaps of an MxJob that has no RuntimeId yet"
TERMINATING = "in deletion already"
UNNAMED = "with its labels, but not with a name that it gives"


def judge(found: Iterable[Labelled], jobs: Iterable[LiveJob]) -> Findings:
    """Decide which objects are orphaned.

    Args:
        found: The objects.
        jobs: The jobs of all namespaces of these objects, from both API groups, listed later.
    """
    runtime_ids: dict[tuple[str, str], set[str]] = {}
    live: set[tuple[str, str]] = set()
    for job in jobs:
        runtime_ids.setdefault((job.namespace, job.name), set()).add(job.runtime_id)
        live.add((job.namespace, job.runtime_id))
    orphans = []
    kept: dict[str, int] = {}
    for each in found:
        of_its_job = runtime_ids.get((each.namespace, each.job), set())
        keep = _reason_to_keep(each, live, of_its_job)
        if keep:
            kept[keep] = kept.get(keep, 0) + 1
            continue
        reason = f"no MxJob has RuntimeId {each.runtime_id}"
        if of_its_job:
            reason += f"; that of MxJob {each.job} is {' and '.join(sorted(of_its_job))}"
        orphans.append(Orphan(each, reason))
    orphans.sort(key=lambda orphan: _order(orphan.found))
    return Findings(tuple(orphans), kept)


def _reason_to_keep(
    found: Labelled, live: set[tuple[str, str]], of_its_job: set[str]
) -> str | None:
    if found.owned:
        return OWNED
    if found.terminating:
        return TERMINATING
    if not found.job or not found.runtime_id:
        return UNNAMED
    if (found.namespace, found.runtime_id) in live:
        return LIVE
    if "" in of_its_job:
        return UNCLEAR
    return None


def _order(found: Labelled) -> tuple[int, str, str]:
    return RESOURCES.index(found.resource), found.namespace, found.name


def labelled(resource: Resource, document: dict[str, Any]) -> Labelled | None:
    """Read an object of the API; None if it does not have the labels of mxnet-operator."""
    metadata = document.get("metadata") or {}
    labels = metadata.get("labels") or {}
    role, runtime_id = labels.get("job_type"), labels.get("runtime_id")
    if labels.get("mxnet.mlkube.io") != "" or role not in ROLES or runtime_id is None:
        return None
    return Labelled(
        resource=resource,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        created=metadata.get("creationTimestamp") or "",
        job=_job_name(resource, metadata["name"], role, runtime_id, labels.get("task_index") or ""),
        runtime_id=runtime_id,
        owned=bool(metadata.get("ownerReferences")),
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def _job_name(resource: Resource, name: str, role: str, runtime_id: str, index: str) -> str:
    """Return the name of the MxJob; empty if the object is not named as mxnet-operator does.

    Jobs and Services are named ``JOB-ROLE-RUNTIMEID-INDEX``; pods have a suffix of their Job. Only
    schedulers have a Service.
    """
    middle = f"-{role.lower()}-{runtime_id}-{index}"
    if resource == SERVICES and role != "SCHEDULER":
        return ""
    if resource == PODS:
        job, found, suffix = name.rpartition(f"{middle}-")
        return job if found and suffix and "-" not in suffix else ""
    return name.removesuffix(middle) if name.endswith(middle) else ""


# -- requests ---------------------------------------------------------------------------------


async def find(client: Client, namespace: str | None) -> Findings:
    """Find what is orphaned in a namespace, or in all of them if it is None.

    Memory grows with the number of objects that have the labels, and of MxJobs, by a few hundred
    bytes each; lists are read in pages.

    Raises:
        CannotTellError: Something could not be listed.
    """
    found: list[Labelled] = []
    for resource in RESOURCES:
        found += await _list(
            client,
            resource,
            namespace,
            partial(labelled, resource),
            {"labelSelector": SELECTOR},
            accept=_METADATA,
        )
    jobs: list[LiveJob] = []
    for group in GROUPS:
        served = await _served(client, group, namespace)
        if served is not None:
            jobs += await _list(client, served, namespace, _live_job)
    return judge(found, jobs)


def _live_job(document: dict[str, Any]) -> LiveJob:
    metadata = document.get("metadata") or {}
    spec = document.get("spec") or {}
    # mxnet-operator reads keys in any case.
    values = [value for key, value in spec.items() if key.lower() == "runtimeid" and value]
    return LiveJob(
        metadata.get("namespace") or "", metadata["name"], str(values[0]) if values else ""
    )


async def _served(client: Client, group: str, namespace: str | None) -> Resource | None:
    """Return the resource of MxJobs in a group; None if the server does not serve it."""
    usual = Resource(group, VERSION, PLURAL, KIND)
    what = f"whether {PLURAL}.{group} are served"
    groups = await _get(client, "/apis", what)
    versions = [
        version["version"]
        for each in groups.get("groups") or []
        if each.get("name") == group
        for version in each.get("versions") or []
    ]
    for version in versions:
        resources = (await _get(client, f"/apis/{group}/{version}", what)).get("resources") or []
        if any(resource.get("name") == PLURAL for resource in resources):
            return Resource(group, version, PLURAL, KIND)
    # Discovery lags behind a new definition, so the result must be the same without it.
    try:
        await client.request("GET", usual.path(namespace), params={"limit": 1})
    except NotFoundError:
        return None
    except ApiError as error:
        raise _cannot_tell(f"list {PLURAL}.{group}", error) from error
    return usual


async def _get(client: Client, path: str, what: str) -> dict[str, Any]:
    try:
        return await client.request_object("GET", path)
    except ApiError as error:
        raise _cannot_tell(f"find out {what}", error) from error


async def _list(
    client: Client,
    resource: Resource,
    namespace: str | None,
    read: Callable[[dict[str, Any]], T | None],
    params: dict[str, str] | None = None,
    *,
    accept: str | None = None,
) -> list[T]:
    """Read all pages of a list; only what `read` returns is kept."""
    what = ".".join(filter(None, (resource.plural, resource.group)))
    where = f" in namespace {namespace}" if namespace else ""
    for _ in range(_ATTEMPTS):
        kept: list[T] = []
        token: str | None = None
        pages = Pages()
        try:
            while True:
                query = {**(params or {}), "limit": _PAGE, "continue": token}
                body = await client.request(
                    "GET", resource.path(namespace), params=query, accept=accept
                )
                page = decode_json(body)
                kept += [known for each in page["items"] if (known := read(each)) is not None]
                token = (page.get("metadata") or {}).get("continue")
                pages.add(len(page["items"]), token)
                if not token:
                    return kept
        except GoneError:
            continue  # the continue token has expired: list from the beginning
        except ApiError as error:
            raise _cannot_tell(f"list {what}{where}", error) from error
        except (UndecodableError, KeyError, TypeError) as error:
            raise CannotTellError(f"cannot list {what}{where}: not a list: {error}") from error
    raise CannotTellError(
        f"cannot list {what}{where}: it expired {_ATTEMPTS} times before its end; try again later"
    )


def _cannot_tell(what: str, error: ApiError) -> CannotTellError:
    fix = ""
    if isinstance(error, ForbiddenError):
        fix = "; without that nothing is known to be orphaned: grant it, or ask somebody who may"
    return CannotTellError(f"cannot {what}: {error.message}{fix}")


Outcome = Literal["deleted", "gone already", "kept: it has changed since"]


async def delete(client: Client, orphan: Orphan) -> Outcome:
    """Delete an object, and through the garbage collector its pods, if it has not changed.

    Raises:
        ApiError: The server refused, or could not be reached.
    """
    found = orphan.found
    try:
        await client.delete(
            found.resource,
            found.name,
            found.namespace,
            uid=found.uid,
            resource_version=found.version,
        )
    except NotFoundError as error:
        if not error.is_about(found.name):
            raise
        return "gone already"
    except ConflictError:
        return "kept: it has changed since"
    return "deleted"
