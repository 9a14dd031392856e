"""Checks of an MPICluster that the operator makes, and the chart with the values of kube-openmpi.

The variable ``cluster`` is an MPICluster as a plain document.
"""

from __future__ import annotations

from functools import cache

from traincrew.api.checks import Checks, Each, Find, First, check
from traincrew.api.expressions import (
    All,
    HasKind,
    Longer,
    Matches,
    Node,
    Not,
    Same,
    Some,
    Stripped,
    Within,
    Without,
    get,
    misses,
    text,
)
from traincrew.api.kinds.mpicluster import codesync
from traincrew.api.kinds.mpicluster.transport import (
    EXEC,
    GATEWAY_NEEDS_SSH,
    KEYS_NEED_SSH,
    MOUNTS,
    OWN_MOUNTS,
    SSH,
)
from traincrew.api.kinds.mpicluster.types import CLUSTER_NAME, MAX_NAME, OWN_PREFIX

WRONG_NAME = (
    "it becomes part of host names: it must begin with a letter and have only lower case letters,"
    " digits and '-'"
)
BLANK = r"^[\t\n\v\f\r ]*$"
IS_EXEC = Same(get("cluster.spec.transport"), EXEC)
_TRANSPORTS = {SSH: Not(IS_EXEC), EXEC: IS_EXEC}
CODES = get("cluster.spec.codeSync")

NAME: Checks = (
    check(
        "cluster.metadata.name",
        Not(Matches(get("cluster.metadata.name"), CLUSTER_NAME)),
        f"{WRONG_NAME}; choose another name",
    ),
    check(
        "cluster.metadata.name",
        Longer(get("cluster.metadata.name"), MAX_NAME),
        f"at most {MAX_NAME} characters are possible, because the StatefulSet is named"
        " <name>-worker; choose a shorter name",
    ),
)
_COMMAND = "cluster.spec.master.oneShot.command"
COMMAND: Checks = (
    check(
        _COMMAND,
        All(HasKind(get("cluster.spec.master.oneShot"), "map"), Matches(get(_COMMAND), BLANK)),
        "it is empty; write what the master is to run",
    ),
)
TRANSPORT: Checks = tuple(
    check(f"cluster.spec.ssh.{field}", All(IS_EXEC, get(f"cluster.spec.ssh.{field}")), says)
    for field, says in (("gateway.enabled", GATEWAY_NEEDS_SSH), ("keySecretName", KEYS_NEED_SSH))
)


def _directory(of: Node) -> Node:
    """Return a path without a '/' at its end."""
    return Stripped(of, "/+$")


def _own_mounts(field: str, what: str) -> Checks:
    """Return the checks that a field is no directory of ours, or in one."""
    found = []
    for own in OWN_MOUNTS:
        only = {SSH: own not in MOUNTS[EXEC], EXEC: own not in MOUNTS[SSH]}
        needed = [is_so for transport, is_so in _TRANSPORTS.items() if only[transport]]
        is_there = All(*needed, Matches(get(field), f"^{own}(/|$)"))
        found.append(check(field, is_there, f"{own} is taken; mount {what} somewhere else"))
    return tuple(found)


# -- templates ------------------------------------------------------------------------------------


@cache
def pod(role: str, main: str) -> Checks:
    """Return the checks of what a role's template has beside the volumes and mounts of ours.

    Args:
        role: The field of the role.
        main: The container that the code is mounted in.
    """
    taken = f"names beginning with '{OWN_PREFIX}' are reserved; choose another one"
    prefix = check("volume.name", Within(get("volume.name"), OWN_PREFIX), taken)
    path = get("mount.mountPath")
    there = Find(CODES, "code", Same(_directory(get("code.mountPath")), _directory(path)), "there")
    code = check(
        "mount.mountPath",
        All(Matches(get("container.name"), f"^({main})?$"), get("there")),
        get("there.mountPath"),
        " of spec.codeSync is taken; mount the volume somewhere else",
        find=there,
    )
    mount = (*_own_mounts("mount.mountPath", "the volume"), code)
    mounts = (Each(get("container.volumeMounts"), "mount", mount),)
    template = f"cluster.spec.{role}.template.spec"
    return (
        Each(get(f"{template}.volumes"), "volume", (prefix,)),
        Each(get(f"{template}.initContainers"), "container", mounts),
        Each(get(f"{template}.containers"), "container", mounts),
    )


# -- code -----------------------------------------------------------------------------------------

_NAME = get("code.name")
_REPOSITORY = get("code.repository")
_PATH = get("code.mountPath")
_SUB_PATH = get("code.subPath")
_IS_BELOW = Within(text(_SUB_PATH, "/"), text(_NAME, "/"))
_BELOW = Without(Stripped(_SUB_PATH, "^/+|/+$"), text(_NAME, "/"))
_HAS_LOGIN = Some(Matches(_REPOSITORY, codesync.HTTP_LOGIN), Matches(_REPOSITORY, codesync.LOGIN))
_HAS_SERVER = All(
    Matches(_REPOSITORY, codesync.SERVER),
    Some(Not(Matches(_REPOSITORY, "://")), Matches(_REPOSITORY, codesync.URL_SERVER)),
)
_NO_URL = All(Matches(_REPOSITORY, "^[^:/]+://"), misses(_REPOSITORY, codesync.URL))
_SAME_NAME = Find(CODES, "other", Same(get("other.name"), _NAME), "before", before=True)
_SAME_PLACE = Same(_directory(get("other.mountPath")), _directory(_PATH))

_CODE: Checks = (
    check(
        "code.name",
        get("before"),
        "another entry has this name; give each its own name",
        find=_SAME_NAME,
    ),
    First(
        (
            check("code.repository", _HAS_LOGIN, codesync.NO_SECRETS),
            check("code.repository", Not(_HAS_SERVER), codesync.NO_SERVER),
            check("code.repository", _NO_URL, codesync.NO_PORT),
        )
    ),
    check(
        "code.updateSeconds",
        All(get("code.updateSeconds"), Matches(get("code.branch"), codesync.COMMIT)),
        codesync.COMMIT_NEEDS_NO_UPDATES,
    ),
    check(
        "code.subPath",
        All(HasKind(_SUB_PATH, "string"), Not(_IS_BELOW)),
        *(f"{codesync.SUB_PATH_NEEDS}; write ", _NAME, "/", _BELOW),
    ),
    check(
        "code.subPath",
        Matches(_SUB_PATH, r"(^|/)\.\.(/|$)"),
        "'..' is not possible; name a directory of the code",
    ),
    *_own_mounts("code.mountPath", "the code"),
    check(
        "code.mountPath",
        Matches(_PATH, "^/*$|:"),
        "neither / nor a path with ':' can be a mount; name a directory",
    ),
    check(
        "code.mountPath",
        get("before"),
        *("'", get("before.name"), "' is mounted there, too; choose another directory"),
        find=Find(CODES, "other", _SAME_PLACE, "before", before=True),
    ),
)
CODE: Checks = (Each(CODES, "code", _CODE),)
