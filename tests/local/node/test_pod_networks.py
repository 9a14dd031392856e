"""Every cluster has a network of its own for its pods, or does not start."""

import contextlib
import getpass
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.options import Options
from traincrew.cli.errors import CommandFailed
from traincrew.local.node import NetworksTakenError
from traincrew.local.node.network import addresses
from traincrew.local.node.network.addresses import PodAddresses


@pytest.fixture(autouse=True)
def port(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Leave the networks to the clusters of this machine, which claim them on another port."""
    monkeypatch.setattr(addresses, "_CLAIM_PORT", unused_tcp_port)
    return unused_tcp_port


@contextlib.contextmanager
def taken(port: int, *, listening: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for number, octet in enumerate(range(42, 64)):
            claim = stack.enter_context(socket.socket())
            claim.bind((f"127.{octet}.255.254", port))
            if number < listening:
                claim.listen()
        yield


def test_networks_that_are_all_taken_are_an_error_that_says_by_whom(
    tmp_path: Path, port: int
) -> None:
    user = getpass.getuser()
    for listening, who in (
        (22, f"user {user!r} (22)"),
        (3, f"user {user!r} (3), programs that cannot be identified (19)"),
    ):
        with taken(port, listening=listening), pytest.raises(NetworksTakenError) as caught:
            PodAddresses(tmp_path).open()
        assert str(caught.value) == (
            "all 22 networks for pods, 127.42.0.0/16 to 127.63.0.0/16, are taken by: "
            f"{who}; end a cluster (`traincrew down`), or a program that listens on port "
            f"{port}"
        )
    assert not (tmp_path / "network").exists()


def test_the_holder_of_a_network_can_be_found(tmp_path: Path) -> None:
    holder = PodAddresses(tmp_path)
    holder.open()
    assert addresses.holders() == [getpass.getuser()]
    holder.close()
    assert addresses.holders() == []


async def test_a_cluster_does_not_start_on_the_network_of_another(
    tmp_path: Path, port: int
) -> None:
    with taken(port, listening=22), pytest.raises(CommandFailed) as caught:
        await Embedded(Options(operator=False), tmp_path).start()
    assert caught.value.message.startswith("all 22 networks for pods")
    assert "\n" not in caught.value.message
