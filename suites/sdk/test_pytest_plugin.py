"""The fixtures, in a project of somebody else's."""

import subprocess
import sys
from pathlib import Path

TESTS = """
def test_first(traincrew_cluster, traincrew_namespace):
    client = traincrew_cluster.client
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
                  traincrew_namespace)
    assert traincrew_cluster.kubeconfig.exists()
    assert len(client.list("Node", None)) == 2

def test_second(traincrew_cluster, traincrew_namespace):
    names = [each["metadata"]["name"]
             for each in traincrew_cluster.client.list("ConfigMap", traincrew_namespace)]
    assert "x" not in names

def test_third(traincrew_apiserver):
    assert traincrew_apiserver.client.list("Namespace", None)[-1]["metadata"]["name"] != "x"
    traincrew_apiserver.client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})

def test_fourth(traincrew_apiserver):
    test_third(traincrew_apiserver)
    # With the controllers that the options ask for.
    traincrew_apiserver.client.wait("ServiceAccount", "default", bool, "x")
"""
CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def traincrew_cluster_options():
    return {"training": False, "nodes": 2, "sandbox": "bare"}

@pytest.fixture(scope="session")
def traincrew_apiserver_options():
    return {"controllers": True}
"""


def test_a_cluster_for_a_session_and_a_namespace_for_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    said = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "-W",
            "error",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert said.returncode == 0, said.stdout + said.stderr
    assert "4 passed" in said.stdout


def test_the_fixtures_are_listed_with_their_purpose(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "--fixtures", tmp_path],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout

    names = ["traincrew_cluster", "traincrew_cluster_options", "traincrew_namespace"]
    names += [f"traincrew_apiserver{suffix}" for suffix in ("", "_options", "_shared")]
    for name in names:
        assert f"\n{name} " in said
    assert "Provide a new namespace of the shared cluster" in said
