"""Manifests of MXJobs of training-operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parent / "examples"


def example(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest of the examples, with further fields of the spec."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    document["spec"].update(spec)
    return document


def mxnet(policy: str | None = None, **run: Any) -> dict[str, Any]:
    """A scheduler, a server and two workers; `run` are fields of the run policy."""
    document = example("train", runPolicy=run)
    for each in document["spec"]["mxReplicaSpecs"].values():
        pod = each["template"]["spec"]
        pod["containers"] = [one for one in pod["containers"] if one.get("name") != "log"]
        each.pop("restartPolicy", None)
        if policy is not None:
            each["restartPolicy"] = policy
    return document
