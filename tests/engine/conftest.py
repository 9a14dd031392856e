"""Fixtures of the engine tests."""

import pytest

from engine.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA with a server certificate for 127.0.0.1 and one for another name, and two clients."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.issue("server", "server", "IP:127.0.0.1,DNS:localhost", "serverAuth")
    authority.issue("elsewhere", "elsewhere", "DNS:kubernetes.example", "serverAuth")
    authority.issue("alice", "alice")
    authority.issue("bob", "bob")
    return authority


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another CA."""
    return Authority(tmp_path_factory.mktemp("stranger"))
