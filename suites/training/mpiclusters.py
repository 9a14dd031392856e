"""Someone with MPIClusters on the embedded cluster, as several suites play them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest
from suites import git_servers, shell
from suites.openmpi_user import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IMAGE = "traincrew/openmpi:0.1.0"
NEEDS_SSHD = pytest.mark.skipif(
    git_servers.SSHD is None,
    reason="the pods of an MPICluster run this machine's sshd: apt-get install openssh-server",
)


class User(shell.User, Steps):
    """A user with MPIClusters.

    Args:
        home: Of the clusters' state, of logs and of the kubeconfig.
        cache: Of environments.
    """

    def __init__(self, home: Path, cache: Path) -> None:
        super().__init__(home, cache, "mpic,sts,pod,role,event")


AnyUser = TypeVar("AnyUser", bound=User)


@contextmanager
def keeping_secrets(user: AnyUser) -> Iterator[AnyUser]:
    """Run a user's cluster; no private key is in its log."""
    with shell.running(user):
        yield user
        assert "PRIVATE KEY" not in user.log()
