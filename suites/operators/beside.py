"""Another project's operator on one cluster, ours on another: what is seen of the same jobs."""

from __future__ import annotations

import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from suites.shell import User

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

Document = dict[str, Any]
OURS = ("KUBEFLOW_TRAINER_",)
"""Prefixes of variables for reports of progress, which all kinds here have."""
TOKEN = "kubeflow-trainer-token"
"""The volume for them."""


class Case(NamedTuple):
    """A job, and the condition by which it has come to rest; empty if it gets none."""

    spec: Document
    ends: str


def started(directory: Path, catalog: Path, stack: contextlib.ExitStack) -> User:
    """Start a cluster of several nodes, which the requests of all cases fit."""
    directory.mkdir()
    user = User(directory, default_cache(), "pod,event")
    user.timeout = 600
    images = f"--images={catalog}"
    user.traincrew("up", "--nodes=4", images, f"--kubeconfig={user.kubeconfig}")
    stack.callback(user.traincrew, "down")
    return user


@contextlib.contextmanager
def both(
    directory: Path,
    catalog: Path,
    install: Callable[[User], None],
    plural: str,
    jobs: Mapping[str, tuple[Document, str]],
) -> Iterator[tuple[User, User]]:
    """Someone with their operator on a cluster, and someone with ours, after all jobs.

    Args:
        directory: An empty one.
        catalog: What images stand for.
        install: Installs their operator.
        plural: The kind, for kubectl.
        jobs: By name: the manifest, and the condition by which the job has come to rest.
    """
    with contextlib.ExitStack() as stack:
        theirs = started(directory / "theirs", catalog, stack)
        install(theirs)
        ours = started(directory / "ours", catalog, stack)
        for user in (theirs, ours):
            for job, _ in jobs.values():
                user.create(job)
        for user in (theirs, ours):
            for name, (_, ends) in jobs.items():
                if ends:
                    condition = f"--for=condition={ends}"
                    user.kubectl("wait", f"{plural}/{name}", condition, "--timeout=180s")
        yield theirs, ours
        for user in (theirs, ours):
            assert "Traceback" not in user.log()


def settled(
    user: User, observed: Callable[[User, str], Document], case: str, cleaned: int | None = None
) -> Document:
    """What is seen of a job when its pods do not change any more.

    Args:
        user: Whose cluster.
        observed: Returns what is seen.
        case: The job.
        cleaned: How many pods are left of it, if that is known.
    """

    def still() -> Document:
        found = observed(user, case)
        if cleaned is not None and len(found["pods"]) != cleaned:
            return {}
        again = observed(user, case)
        return found if found == again else {}

    return user.until(f"{case} does not change any more", still, 60)


def assert_same(
    ours: Document,
    theirs: Document,
    case: str,
    known: Mapping[tuple[str, str], str],
    sometimes: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> None:
    """Assert that two users see the same of a job, except for known differences, which there are.

    Args:
        ours: What is seen of a job of ours.
        theirs: And of one of theirs.
        case: The job.
        known: The differences by case and part, with their reasons.
        sometimes: Those that depend on timing.
    """
    if "messages" in theirs:
        # Why a pod failed comes behind what their operators say.
        said = zip(ours["messages"], theirs["messages"], strict=False)
        ours["messages"] = [one[: len(other)] for one, other in said] or ours["messages"]
        ours["selectors"] = {kind: ours["selectors"].get(kind) for kind in theirs["selectors"]}
    found = {part: (ours[part], theirs[part]) for part in theirs if ours[part] != theirs[part]}
    expected = {part for name, part in known if name == case}
    possible = {part for name, part in sometimes if name == case}
    new = {part: pair for part, pair in found.items() if part not in expected | possible}
    assert not new, f"ours, and theirs: {new}"
    none = expected - found.keys()
    assert not none, "these differences are none any more: remove them from KNOWN"


# -- what is seen -----------------------------------------------------------------------------


def name(found: Document) -> str:
    """The name of an object."""
    return str(found["metadata"]["name"])


def head(found: Document) -> Document:
    """Labels and owners of an object."""
    metadata = found["metadata"]
    owners = [
        {key: value for key, value in each.items() if key != "uid"}
        for each in metadata["ownerReferences"]
    ]
    return {"labels": metadata["labels"], "ownerReferences": owners}


def container(found: Document, *more: str) -> Document:
    """A container with its variables, and more of its fields."""
    fields = ("name", "image", "command", "args", "ports", "resources", "imagePullPolicy", *more)
    env = [each for each in found.get("env", []) if not each["name"].startswith(OURS)]
    return {**{field: found.get(field) for field in fields}, "env": env}


def status(found: Document) -> Document:
    """The conditions and counts of a job; not ``Created``, which not every operator keeps."""
    listed = [
        each
        for each in found.get("conditions", [])
        if each["status"] == "True" and each["type"] != "Created"
    ]
    replicas = found.get("replicaStatuses", {})
    return {
        "conditions": sorted((each["type"], each["reason"]) for each in listed),
        "messages": sorted(each["message"] for each in listed),
        "replicas": {
            kind: {word: each.get(word, 0) for word in ("active", "succeeded", "failed")}
            for kind, each in replicas.items()
        },
        # Those that there are: of one type, their operator may not come to write it.
        "selectors": {
            kind: each["selector"] for kind, each in replicas.items() if "selector" in each
        },
    }


def events(user: User, kind: str, job: str) -> Document:
    """Types and reasons of the events of a job, and who wrote them."""
    found = user.get("event", "--field-selector", f"involvedObject.name={job}")["items"]
    found = [
        each
        for each in found
        if each["involvedObject"]["kind"] == kind
        and not each["message"].endswith("exited with code 0")
    ]
    return {
        "events": sorted({(each["type"], each["reason"]) for each in found}),
        "component": sorted({each["source"]["component"] for each in found}),
    }
