"""Checks of the values of kube-openmpi that `traincrew mpi` makes, and the chart.

There are two kinds: checks of the values, with the variable ``values``; and the limits of what they
become, of which the variable is ``cluster``. In those, and in
`traincrew.api.kinds.mpicluster.clusterchecks`, fields are those of an MPICluster: `key_of` of
`traincrew.api.kinds.mpicluster.valuescheck` turns them into keys.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec import inspect

from traincrew.api.checks import Check, Checks, Each, Find, First, check, matching, required
from traincrew.api.expressions import (
    All,
    Get,
    Greater,
    HasKind,
    Less,
    Longer,
    Matches,
    More,
    Node,
    Not,
    Same,
    get,
    misses,
)
from traincrew.api.kinds.mpicluster import clusterchecks
from traincrew.api.kinds.mpicluster.codesync import ABSOLUTE_PATH, DNS_LABEL, GIT_WORD, OBJECT_NAME
from traincrew.api.kinds.mpicluster.convert import fields, value
from traincrew.api.kinds.mpicluster.types import (
    LABEL_VALUE,
    MASTER_CONTAINER,
    WORKER_CONTAINER,
    MPIClusterSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = r"^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*$"
TAG = r"^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}(@sha256:[0-9a-f]{64})?$"
PRIVATE_KEY = r"^[ \t\r\n]*-----BEGIN [A-Z ]*PRIVATE KEY-----"
PUBLIC_KEY = r"^[ \t\r\n]*(ssh|ecdsa|sk)-[^\s\v]+ [^\s\v]+[^\n]*[ \t\r\n]*$"
HAS_TAG = r"[:@][^/]*$"
WRONG_REPOSITORY = "expected a repository in lower case, such as registry.example.com/me/image"
PATTERNS = {
    LABEL_VALUE: "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    DNS_LABEL: "lower case letters, digits and '-', with a letter or digit at both ends",
    OBJECT_NAME: "the name of an object: lower case letters, digits, '-' and '.'",
    GIT_WORD: "text without spaces that does not begin with '-'",
    ABSOLUTE_PATH: "a path that begins with '/'",
}

# -- what is missing, and images and keys ----------------------------------------------------------

_REPOSITORY = value("image.repository")
IMAGE: Checks = (
    *(
        required(f"values.image.{key}", f"it is required; write the {key} of your image")
        for key in ("repository", "tag")
    ),
    First(
        (
            check(
                "values.image.repository",
                All(misses(_REPOSITORY, REPOSITORY), Matches(_REPOSITORY, HAS_TAG)),
                f"{WRONG_REPOSITORY}; what follows the name belongs to image.tag",
            ),
            matching("values.image.repository", REPOSITORY, WRONG_REPOSITORY),
        )
    ),
    matching("values.image.tag", TAG, "expected letters, digits, '_', '.' and '-' only"),
    Each(
        value("image.pullSecrets"),
        "secret",
        (
            check(
                "secret.name",
                Not(Matches(get("secret.name"), OBJECT_NAME)),
                "expected the name of a Secret: lower case letters, digits, '-' and '.'",
            ),
        ),
    ),
)
KEYS: Checks = (
    *(
        check(
            f"values.sshKey.{key}",
            All(value(f"sshKey.{other}"), Not(value(f"sshKey.{key}"))),
            f"it is required beside sshKey.{other}; write it, or remove both",
        )
        for key, other in (("id_rsa", "id_rsa_pub"), ("id_rsa_pub", "id_rsa"))
    ),
    matching(
        "values.sshKey.id_rsa",
        PRIVATE_KEY,
        "it is no private key, which begins with -----BEGIN … PRIVATE KEY-----; write the contents"
        " of the file id_rsa",
    ),
    matching(
        "values.sshKey.id_rsa_pub",
        PUBLIC_KEY,
        "it is no public key, which is one line such as 'ssh-rsa AAAA…'; write the contents of the"
        " file id_rsa.pub",
    ),
)
_COMMAND = "mpiMaster.oneShot.command"
COMMAND = check(
    f"values.{_COMMAND}",
    All(value("mpiMaster.oneShot.enabled"), Matches(value(_COMMAND), clusterchecks.BLANK)),
    "it is required if oneShot.enabled is true; write what the master is to run",
)
_CODE = {
    "name": "the name of the entry",
    "gitRepo": "the URL of a repository",
    "mountPath": "a directory of the containers",
}
CODE = Each(
    value("appCodesToSync"),
    "code",
    tuple(required(f"code.{key}", f"it is empty; write {what}") for key, what in _CODE.items()),
)


# -- what belongs to pods: else only their API would refuse it, later and without the key ----------


def _text(field: str) -> Check:
    of = get(field)
    return check(field, All(of, Not(HasKind(of, "string"))), "expected text; write it in quotes")


def _is_set_but_no(kind: str, of: Get) -> Node:
    return All(Not(HasKind(of, kind)), Not(HasKind(of, "invalid")))


def _pod(role: str) -> Checks:
    """Return the checks of a role's values."""
    key, volumes = get("resourceKey"), value(f"{role}.volumes")
    resource = (
        check(
            "resource",
            Not(Matches(key, "^(limits|requests|claims)$")),
            f"a container has no such resources; write {role}.resources.limits or requests",
        ),
        check(
            "resource",
            All(Matches(key, "^(limits|requests)$"), _is_set_but_no("map", get("resource"))),
            "not valid in a pod: expected a mapping",
        ),
    )
    label = check(
        "label",
        _is_set_but_no("string", get("label")),
        "expected text; write it in quotes, because true and 1 are not text in YAML",
    )
    volume = (
        required("volume.name", "it is required; write the name that volumeMounts use"),
        _text("volume.name"),
    )
    mount = (
        required("mount.mountPath", "it is required; write a directory of the container"),
        _text("mount.mountPath"),
        check(
            "mount.name",
            Not(get("there")),
            f"there is no volume of this name in {role}.volumes; add it, or correct the name",
            find=Find(volumes, "volume", Same(get("volume.name"), get("mount.name")), "there"),
        ),
    )
    return (
        Each(value(f"{role}.resources"), "resource", resource, mapping=True),
        Each(value(f"{role}.nodeSelector"), "label", (label,), mapping=True),
        Each(volumes, "volume", volume),
        Each(value(f"{role}.volumeMounts"), "mount", mount),
    )


OF_VALUES: Checks = (*IMAGE, *KEYS, COMMAND, *_pod("mpiMaster"), *_pod("mpiWorkers"), CODE)
"""The checks of the values."""


# -- the limits of what values become --------------------------------------------------------------


def _type_of(field: str) -> inspect.Type | None:
    """Return the type of a field of ``spec``; None if it is in a template, or a text of ours."""
    found: inspect.Type = inspect.type_info(MPIClusterSpec)
    for step in field.split("."):
        if not isinstance(found, inspect.StructType):
            return None
        found = _plain(
            next(each.type for each in found.fields if each.encode_name == step.removesuffix("[]"))
        )
        if step.endswith("[]"):
            assert isinstance(found, inspect.ListType)
            found = _plain(found.item_type)
    return found


def _plain(kind: inspect.Type) -> inspect.Type:
    """Return a type without its description, or None beside it."""
    while True:
        if isinstance(kind, inspect.Metadata):
            kind = kind.type
        elif isinstance(kind, inspect.UnionType):
            (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
        else:
            return kind


def _limits(field: str, at: str) -> Iterator[Check]:
    """Yield the checks that a field, which is a variable with keys, is within its type's limits."""
    kind, of = _type_of(field), get(at)
    if isinstance(kind, inspect.IntType):
        if kind.ge is not None:
            yield check(at, Less(of, kind.ge), f"expected a whole number >= {kind.ge}")
        if kind.le is not None:
            yield check(at, Greater(of, kind.le), f"expected a whole number <= {kind.le}")
    if isinstance(kind, inspect.StrType) and kind.pattern is not None:
        yield matching(at, kind.pattern, f"expected {PATTERNS[kind.pattern]}")
    if isinstance(kind, inspect.StrType | inspect.ListType) and (most := kind.max_length):
        entries = isinstance(kind, inspect.ListType)
        what, more = ("entries", More) if entries else ("characters", Longer)
        yield check(at, more(of, most), f"at most {most} {what} are possible")


@cache
def limits() -> Checks:
    """Return the checks that an MPICluster is within the limits of its types."""
    found: list[Check | First | Each] = []
    entries: dict[str, list[Check]] = {}
    for field in dict.fromkeys(field for each in fields().values() for field in each):
        above, inside, below = field.partition("[].")
        if not inside:
            found += _limits(field, f"cluster.spec.{field}")
        elif _type_of(field) is not None:
            entries.setdefault(above, []).extend(_limits(field, f"entry.{below}"))
    found += [
        Each(get(f"cluster.spec.{above}"), "entry", tuple(each)) for above, each in entries.items()
    ]
    return tuple(found)


def of_cluster() -> Checks:
    """Return the checks of an MPICluster within its limits that has come from values."""
    return (
        *clusterchecks.NAME,
        *clusterchecks.pod("master", MASTER_CONTAINER),
        *clusterchecks.pod("workers", WORKER_CONTAINER),
        *clusterchecks.CODE,
        *clusterchecks.TRANSPORT,
    )
