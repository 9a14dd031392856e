"""MPIClusters whose code is kept up to date, on any cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suites.openmpi_user import example, lines

if TYPE_CHECKING:
    from suites.openmpi_user import Steps

UPDATE_SECONDS = 5


def updated(name: str, repository: str, **entry: Any) -> dict[str, Any]:
    """Return an interactive cluster with two workers whose code is kept up to date."""
    document = example("interactive.yaml", name)
    code = {"name": "mine", "repository": repository, "mountPath": "/code", **entry}
    document["spec"]["codeSync"] = [{**code, "updateSeconds": UPDATE_SECONDS}]
    return document


def said(user: Steps, name: str) -> list[str]:
    """Return what the code prints in all pods."""
    return lines(user.mpiexec(name, 3, "sh", "/code/say.sh", "hello"))


def by_all(name: str, what: str) -> list[str]:
    """Return a line of each pod."""
    return [f"{name}-{host} {what}" for host in ("master", "worker-0", "worker-1")]


def started(user: Steps, name: str) -> dict[str, Any]:
    """Return which pods there are, whether they are ready, and how often they were restarted."""
    found = {}
    for pod, document in user.pods(name).items():
        status = document["status"]
        statuses = (*status["initContainerStatuses"], *status["containerStatuses"])
        restarts = sum(each["restartCount"] for each in statuses)
        (ready,) = [c["status"] for c in status["conditions"] if c["type"] == "Ready"]
        found[pod] = (document["metadata"]["uid"], ready, restarts)
    return found
