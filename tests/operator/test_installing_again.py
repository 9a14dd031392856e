"""Manifests of the installation that are applied again, in whatever way, conflict with nobody."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from comparison import normalized
from traincrew.engine.resources import Resource
from traincrew.operator.manifests import documents
from traincrew.operator.manifests.values import parse

if TYPE_CHECKING:
    from harness import Cluster

ROOT = Path(__file__).parents[2]
PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}


def resource_of(document: dict[str, Any]) -> Resource:
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"]
    namespaced = "namespace" in document["metadata"]
    return Resource(group, version, PLURALS[kind], kind, namespaced=namespaced)


@pytest.mark.parametrize(
    "values",
    [{}, {"metrics": {"secure": {"enabled": True}}, "replicas": 2}],
    ids=["default", "secure"],
)
async def test_server_side_over_a_plain_installation(cluster: Cluster, values: Any) -> None:
    """`kubectl create -f deploy/`, and then `kubectl apply --server-side` without force."""
    found = [each for group in documents(parse(values)).values() for each in group]
    for document in found:
        if document["kind"] == "CustomResourceDefinition":
            continue  # already there
        await cluster.client.create(
            resource_of(document), copy.deepcopy(document), field_manager="kubectl-create"
        )
    for document in found:
        resource = resource_of(document)
        for manager in ("kubectl", "flux"):
            await cluster.client.apply(resource, document, field_manager=manager, force=False)
        metadata = document["metadata"]
        before = await cluster.client.get(resource, metadata["name"], metadata.get("namespace"))
        again = await cluster.client.apply(resource, document, field_manager="flux", force=False)
        assert normalized(again) == normalized(before)
        assert again["metadata"].get("generation") == before["metadata"].get("generation")


@pytest.mark.parametrize("directory", ["charts", "config", "deploy"])
def test_references_to_fields_are_whole(directory: str) -> None:
    """The server adds the apiVersion, and server-side apply owns the whole reference."""
    for file in (ROOT / directory).rglob("*.yaml"):
        for found in re.finditer(r"fieldRef:\n\s+(\w+): (\S+)", file.read_text()):
            assert found.groups() == ("apiVersion", "v1"), file
