"""MPICluster: the entries of ``spec.codeSync``."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from traincrew.api.kind import Rule, rules
from traincrew.api.runpolicy import INT32_MAX

MAX_CODE_NAME = 38
"""``kube-openmpi-sync-<name>-secret`` is the name of a volume."""
MAX_PATH = 1024

FETCH_SUFFIX = "-fetch"
"""Suffix of the names of init containers that fetch code."""
UPDATE_SUFFIX = "-update"
"""Suffix of the names of sidecars that keep code up to date."""
MIN_UPDATE_SECONDS = 5
"""Every pod asks the server so often."""
MAX_UPDATE_SECONDS = 86400

DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
OBJECT_NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
GIT_WORD = r"^[^-\t\n\v\f\r ][^\t\n\v\f\r ]*$"
"""A repository or branch: git would take a leading '-' for an option.

Which characters are spaces is written out, because Python and Go have different ones.
"""
ABSOLUTE_PATH = "^/"
HTTP_LOGIN = "(?i)^https?://[^/]*@"
LOGIN = "^[^:/]+://[^/@]*:[^/]*@"
"""Addresses with a secret: a token is used as a user or as a password."""
NO_SECRETS = (
    "repository has a user or password in it, which everybody can read who can read this object;"
    " remove it, and put it into a Secret (keys username and password) that secretName names"
)
SERVER = "^[^/]*:"
"""An address has a scheme, or a host before a ':'; git takes others for paths of its machine."""
URL_SERVER = "^[^:/]+://[^/?#]|^(?i:file):"
"""A URL with a host; a file needs none."""
URL = (
    r"^[^:/]+://([^/?#]*@)?(\[[^]]*\]|[^/?#:\[\]]*)"
    "(:(0*([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?"
    "([/?#]|$)"
)
"""A URL whose port, if it has one, is a number up to 65535."""
NO_SERVER = (
    "repository has no server: write an address such as https://git.example.com/me/code or"
    " git@git.example.com:me/code"
)
NO_PORT = "it is not a URL: what follows the host's ':' is not a number; correct the port"
COMMIT = "^([0-9a-f]{40}|[0-9a-f]{64})$"
"""A commit with all of its digits."""
COMMIT_STAYS = (
    "updateSeconds has no use, because branch is a commit, which never changes: remove"
    " updateSeconds, or write the name of a branch"
)
COMMIT_NEEDS_NO_UPDATES = (
    "it has no use, because the branch is a commit, which never changes; remove it, or write the"
    " name of a branch"
)
SUB_PATH_NEEDS = "subPath must be the name of the entry, or begin with it and '/'"


class CodeSync(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A git repository that is fetched into every pod before it starts."""

    name: Annotated[
        str,
        Meta(
            pattern=DNS_LABEL,
            max_length=MAX_CODE_NAME,
            description="Name of the entry, and of the directory that the code is fetched into.",
        ),
    ]
    repository: Annotated[
        str,
        Meta(
            pattern=GIT_WORD,
            max_length=MAX_PATH,
            description="URL of the repository, as for `git clone`, without a password.",
        ),
    ]
    mount_path: Annotated[
        str,
        Meta(
            pattern=ABSOLUTE_PATH,
            max_length=MAX_PATH,
            description=(
                "Directory of the containers mpi-master and mpi-worker where the code is mounted."
            ),
        ),
    ]
    branch: Annotated[
        Annotated[str, Meta(pattern=GIT_WORD, max_length=MAX_PATH)] | None,
        Meta(
            description=(
                "Branch or tag to fetch, or a commit with all 40 digits. If it is not set, it is"
                " the repository's default branch."
            )
        ),
    ] = None
    timeout_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=INT32_MAX)] | None,
        Meta(
            description=(
                "Number of seconds after which fetching is given up and tried again. If it is not"
                " set, it is not limited."
            )
        ),
    ] = None
    update_seconds: Annotated[
        Annotated[int, Meta(ge=MIN_UPDATE_SECONDS, le=MAX_UPDATE_SECONDS)] | None,
        Meta(
            description=(
                "Number of seconds after which running pods look for new commits, again and again,"
                " and fetch them. If it is not set, the code of a pod stays as it was when the pod"
                " started."
            )
        ),
    ] = None
    submodules: Annotated[
        bool,
        Meta(
            description=(
                "Whether the submodules of the repository are fetched as well, and theirs, with the"
                " same Secret."
            )
        ),
    ] = False
    sub_path: Annotated[
        Annotated[str, Meta(max_length=MAX_PATH)] | None,
        Meta(
            description=(
                "Directory to mount instead of everything. It begins with the name of the entry,"
                " for example chainermn/examples if the name is chainermn."
            )
        ),
    ] = None
    secret_name: Annotated[
        Annotated[str, Meta(pattern=OBJECT_NAME, max_length=253)] | None,
        Meta(
            description=(
                "Name of a Secret with what the repository asks for: the key ssh has a private ssh"
                " key, without a passphrase; or username and password are for https. If there is a"
                " key known_hosts, only the hosts in it are accepted. If it is not set, the"
                " repository is public."
            )
        ),
    ] = None


CODE_SYNC_RULES = rules(
    Rule(
        rule=(f"!has(self.updateSeconds) || !has(self.branch) || !self.branch.matches('{COMMIT}')"),
        message=COMMIT_STAYS,
    ),
    Rule(rule=f"self.repository.matches('{SERVER}')", message=NO_SERVER),
    Rule(
        rule=(
            "!has(self.subPath) || self.subPath == self.name ||"
            " self.subPath.startsWith(self.name + '/')"
        ),
        message=SUB_PATH_NEEDS,
    ),
    Rule(
        rule=(f"!self.repository.matches('{HTTP_LOGIN}') && !self.repository.matches('{LOGIN}')"),
        message=NO_SECRETS,
    ),
)
