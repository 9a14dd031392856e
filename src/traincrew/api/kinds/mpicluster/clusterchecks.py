"""Checks of an MPICluster that the operator makes, and the chart with the values of kube-openmpi.

The variable ``cluster`` is an MPICluster as a plain document.
"""

from __future__ import annotations

from functools import cache

from traincrew.api.checks import Checks, Each, Find, First, check
from traincrew.api.expressions import (
    Constant,
    Filled,
    Get,
    HasKind,
    Longer,
    Matches,
    Node,
    Not,
    Same,
    Stripped,
    Within,
    Without,
    every,
    get,
    misses,
    some,
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
IS_EXEC = Same(get("cluster.spec.transport"), Constant(EXEC))
_TRANSPORTS = {SSH: Not(IS_EXEC), EXEC: IS_EXEC}
CODES = get("cluster.spec.codeSync")

_NAME = get("cluster.metadata.name")
NAME: Checks = (
    check("metadata.name", Not(Matches(_NAME, CLUSTER_NAME)), WRONG_NAME, "; choose another name"),
    check(
        "metadata.name",
        Longer(_NAME, MAX_NAME),
        f"at most {MAX_NAME} characters are possible, because the StatefulSet is named"
        " <name>-worker; choose a shorter name",
    ),
)

_ONE_SHOT = get("cluster.spec.master.oneShot")
COMMAND: Checks = (
    check(
        "spec.master.oneShot.command",
        every(
            HasKind(_ONE_SHOT, "map"), Matches(get("cluster.spec.master.oneShot.command"), BLANK)
        ),
        "it is empty; write what the master is to run",
    ),
)

TRANSPORT: Checks = (
    check(
        "spec.ssh.gateway.enabled",
        every(IS_EXEC, Filled(get("cluster.spec.ssh.gateway.enabled"))),
        GATEWAY_NEEDS_SSH,
    ),
    check(
        "spec.ssh.keySecretName",
        every(IS_EXEC, Filled(get("cluster.spec.ssh.keySecretName"))),
        KEYS_NEED_SSH,
    ),
)


def _directory(of: Node) -> Node:
    """Return a path without a '/' at its end."""
    return Stripped(of, "/+$")


def _own_mounts(field: str, path: Get, what: str) -> Checks:
    """Return the checks that a path is no directory of ours, or in one."""
    found = []
    for own in OWN_MOUNTS:
        only = {SSH: own not in MOUNTS[EXEC], EXEC: own not in MOUNTS[SSH]}
        needed = [is_so for transport, is_so in _TRANSPORTS.items() if only[transport]]
        is_there = every(*needed, Matches(path, f"^{own}(/|$)"))
        found.append(check(field, is_there, f"{own} is taken; mount {what} somewhere else"))
    return tuple(found)


# -- templates ------------------------------------------------------------------------------------


def volumes(role: str) -> Each:
    """Return the checks of the volumes of a role's template."""
    pod = f"spec.{role}.template.spec"
    return Each(
        get(f"cluster.{pod}.volumes"),
        "volume",
        (
            check(
                f"{pod}.volumes[].name",
                Within(get("volume.name"), Constant(OWN_PREFIX)),
                f"names that begin with '{OWN_PREFIX}' are taken; choose another one",
            ),
        ),
    )


def mounts(role: str, containers: str, main: str) -> Each:
    """Return the checks of the mounts of a role's containers.

    Args:
        role: The field of the role.
        containers: The field of the containers.
        main: The container that the code is mounted in.
    """
    pod = f"spec.{role}.template.spec"
    field = f"{pod}.{containers}[].volumeMounts[].mountPath"
    path = get("mount.mountPath")
    there = Find(CODES, "code", Same(_directory(get("code.mountPath")), _directory(path)), "there")
    is_main = Matches(get("container.name"), f"^({main})?$")
    checks: Checks = (
        *_own_mounts(field, path, "the volume"),
        check(
            field,
            every(is_main, Filled(get("there"))),
            get("there.mountPath"),
            " of spec.codeSync is taken; mount the volume somewhere else",
            find=there,
        ),
    )
    each_mount = Each(get("container.volumeMounts"), "mount", checks)
    return Each(get(f"cluster.{pod}.{containers}"), "container", (each_mount,))


@cache
def pod(role: str, main: str) -> Checks:
    """Return the checks of what a role's template has beside the volumes and mounts of ours.

    Args:
        role: The field of the role.
        main: The container that the code is mounted in.
    """
    return (
        volumes(role),
        mounts(role, "initContainers", main),
        mounts(role, "containers", main),
    )


# -- code -----------------------------------------------------------------------------------------

_REPOSITORY = get("code.repository")
_PATH = get("code.mountPath")
_SUB_PATH = get("code.subPath")
_BELOW = Without(Stripped(_SUB_PATH, "^/+|/+$"), text(get("code.name"), "/"))
_HAS_LOGIN = some(Matches(_REPOSITORY, codesync.HTTP_LOGIN), Matches(_REPOSITORY, codesync.LOGIN))
_HAS_SERVER = every(
    Matches(_REPOSITORY, codesync.SERVER),
    some(Not(Matches(_REPOSITORY, "://")), Matches(_REPOSITORY, codesync.URL_SERVER)),
)


def _before(test: Node) -> Find:
    return Find(CODES, "other", test, "before", before=True)


_CODE_CHECK = Each(
    CODES,
    "code",
    (
        check(
            "spec.codeSync[].name",
            Filled(get("before")),
            "another entry has this name; give each its own name",
            find=_before(Same(get("other.name"), get("code.name"))),
        ),
        First(
            (
                check("spec.codeSync[].repository", _HAS_LOGIN, codesync.NO_SECRETS),
                check("spec.codeSync[].repository", Not(_HAS_SERVER), codesync.NO_SERVER),
                check(
                    "spec.codeSync[].repository",
                    every(Matches(_REPOSITORY, "^[^:/]+://"), misses(_REPOSITORY, codesync.URL)),
                    "it is not a URL: what follows the host's ':' is not a number; correct the"
                    " port",
                ),
            )
        ),
        check(
            "spec.codeSync[].updateSeconds",
            every(Filled(get("code.updateSeconds")), Matches(get("code.branch"), codesync.COMMIT)),
            "it has no use, because the branch is a commit, which never changes; remove it, or"
            " write the name of a branch",
        ),
        check(
            "spec.codeSync[].subPath",
            every(
                HasKind(_SUB_PATH, "string"),
                Not(Within(text(_SUB_PATH, "/"), text(get("code.name"), "/"))),
            ),
            f"{codesync.SUB_PATH_NEEDS}; write ",
            get("code.name"),
            "/",
            _BELOW,
        ),
        check(
            "spec.codeSync[].subPath",
            Matches(_SUB_PATH, r"(^|/)\.\.(/|$)"),
            "'..' is not possible; name a directory of the code",
        ),
        *_own_mounts("spec.codeSync[].mountPath", _PATH, "the code"),
        check(
            "spec.codeSync[].mountPath",
            Matches(_PATH, "^/*$|:"),
            "neither / nor a path with ':' can be a mount; name a directory",
        ),
        check(
            "spec.codeSync[].mountPath",
            Filled(get("before")),
            "'",
            get("before.name"),
            "' is mounted there, too; choose another directory",
            find=_before(Same(_directory(get("other.mountPath")), _directory(_PATH))),
        ),
    ),
)
CODE: Checks = (_CODE_CHECK,)
