"""Fixtures for pytest: a Kubernetes API for the tests of a session, and a new state for each test.

Registered by the entry point ``pytest11``: a project that has traincrew installed can use
`traincrew_cluster` or `traincrew_apiserver` without importing anything. Nothing is started, nor
imported, before a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew import ApiServer, LocalCluster


@pytest.fixture(scope="session")
def traincrew_cluster_options() -> dict[str, Any]:
    """Arguments of the cluster; override this fixture in your ``conftest.py`` for other ones.

    By default a plain cluster, without the training kinds and their operator.
    """
    return {"training": False}


@pytest.fixture(scope="session")
def traincrew_cluster(traincrew_cluster_options: dict[str, Any]) -> Iterator[LocalCluster]:
    """Provide a running cluster, shared by all tests of the session."""
    from traincrew import LocalCluster

    with LocalCluster(**traincrew_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def traincrew_namespace(traincrew_cluster: LocalCluster) -> Iterator[str]:
    """Provide a new namespace of the shared cluster; it is deleted after the test."""
    created = traincrew_cluster.client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}}
    )
    name: str = created["metadata"]["name"]
    yield name
    traincrew_cluster.client.delete("Namespace", name)


@pytest.fixture(scope="session")
def traincrew_apiserver_options() -> dict[str, Any]:
    """Arguments of the API server; override this fixture in your ``conftest.py`` for other ones."""
    return {}


@pytest.fixture(scope="session")
def traincrew_apiserver_shared(traincrew_apiserver_options: dict[str, Any]) -> Iterator[ApiServer]:
    """Provide a running API server without nodes, shared by all tests of the session."""
    from traincrew import ApiServer

    with ApiServer(**traincrew_apiserver_options) as server:
        yield server


@pytest.fixture
def traincrew_apiserver(traincrew_apiserver_shared: ApiServer) -> ApiServer:
    """Provide the shared API server as if it were new: empty, without faults."""
    traincrew_apiserver_shared.reset()
    return traincrew_apiserver_shared
