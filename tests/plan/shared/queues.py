"""What queues do to the pod templates of suspended jobs."""

from __future__ import annotations

from typing import Any


def moved(template: dict[str, Any]) -> dict[str, Any]:
    """A template as a queue changes it to place its pod: all of what decides where it runs."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    return {
        **template,
        "metadata": {
            **metadata,
            "labels": {**metadata.get("labels", {}), "queue": "b"},
            "annotations": {**metadata.get("annotations", {}), "flavor": "spot"},
        },
        "spec": {
            **spec,
            "nodeSelector": {"pool": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
    }


def assert_moved(template: dict[str, Any]) -> None:
    """Assert that a pod or a template has these changes."""
    assert template["metadata"]["labels"]["queue"] == "b"
    assert template["metadata"]["annotations"]["flavor"] == "spot"
    if "containers" in template["spec"]:  # in some worlds, pods have no more than a node
        assert template["spec"]["nodeSelector"] == {"pool": "spot"}
        assert template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
