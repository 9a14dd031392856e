"""From the types of a kind to its CustomResourceDefinition.

The schema of a kind's own fields comes from its msgspec types, descriptions included. A pod
template is the full upstream schema of ``PodTemplateSpec`` without descriptions, so that a typo in
a container field is refused at create, and the whole definition still fits the 256 KiB that a
plain ``kubectl apply`` can store in its annotation.

Structural schemas (Kubernetes documentation, "Specifying a structural schema") know no references,
no ``null`` alternatives and no titles; the conversion here removes exactly those.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from traincrew.api.chainerjob import CHAINER_JOB
from traincrew.api.elasticjob_definition import ELASTIC_JOB
from traincrew.api.kind import Column, Kind, StatusWords

__all__ = [
    "CHAINER_JOB",
    "ELASTIC_JOB",
    "KINDS",
    "Column",
    "Kind",
    "definition",
    "pod_template",
    "schema",
    "status_schema",
]

KINDS = (CHAINER_JOB, ELASTIC_JOB)
"""Every kind there is."""

MAX_CONTAINERS = 64
"""Bounds of lists and strings that CEL rules look at, so that their cost can be estimated."""
MAX_CONTAINER_NAME = 63


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind, as a plain document."""
    names = {
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
    }
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale is not None:
        subresources["scale"] = msgspec.to_builtins(kind.scale)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                **names,
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [
                        {"name": column.name, **msgspec.to_builtins(column)}
                        for column in kind.columns
                    ],
                    "schema": {"openAPIV3Schema": schema(kind)},
                }
            ],
        },
    }


def schema(kind: Kind) -> dict[str, Any]:
    """The structural schema of a kind's objects."""
    (reference,), definitions = msgspec.json.schema_components([kind.spec], ref_template="#/{name}")
    spec = _structural(reference, definitions)
    spec = {**spec, **copy.deepcopy(kind.spec_rules), "description": "What is to run."}
    return {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        **copy.deepcopy(kind.rules),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status_schema(kind.status),
        },
    }


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One schema node without references, titles and null alternatives."""
    node = dict(node)
    if (name := node.pop("$ref", None)) is not None:
        target = definitions[name.removeprefix("#/")]
        return _structural({**target, **node}, definitions)
    if (options := node.pop("anyOf", None)) is not None:
        (option,) = [option for option in options if option.get("type") != "null"]
        return _structural({**option, **node}, definitions)
    if (template := node.pop("x-pod-template", None)) is not None:
        return {**pod_template(**template), "description": node["description"]}
    node.pop("title", None)
    if node.get("default") is None or isinstance(node["default"], dict):
        # A default for a whole object would show fields in every stored job that nobody wrote.
        node.pop("default", None)
    if "enum" in node:
        node["type"] = "string"
    if not node.get("required", True):
        del node["required"]
    if "properties" in node:
        node["properties"] = {
            key: _structural(value, definitions) for key, value in node["properties"].items()
        }
    if isinstance(node.get("additionalProperties"), dict):
        node["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    return node


@cache
def _upstream_pod_template() -> dict[str, Any]:
    text = resources.files("traincrew.api").joinpath("data/pod-template.schema.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def pod_template(container: str, restart_policy: str | None = None) -> dict[str, Any]:
    """The schema of a pod template, with what our kinds allow beyond a plain one.

    Args:
        container: What a single unnamed container is called.
        restart_policy: Default of ``spec.restartPolicy``, if any.
    """
    template = copy.deepcopy(_upstream_pod_template())
    # Old manifests carry them inside templates, where they mean nothing.
    template["properties"]["apiVersion"] = {"type": "string"}
    template["properties"]["kind"] = {"type": "string"}
    template["required"] = ["spec"]
    pod = template["properties"]["spec"]["properties"]
    del pod["ephemeralContainers"]  # the API refuses them in templates
    if restart_policy is not None:
        pod["restartPolicy"]["default"] = restart_policy
    containers = pod["containers"]
    containers["minItems"] = 1
    containers["maxItems"] = MAX_CONTAINERS
    # The key of the list, so it needs a default to be allowed to be missing; with several unnamed
    # containers the second one is a duplicate, and refused as such.
    containers["items"]["required"].remove("name")
    if not containers["items"]["required"]:
        del containers["items"]["required"]
    containers["items"]["properties"]["name"] = {
        "type": "string",
        "default": container,
        "maxLength": MAX_CONTAINER_NAME,
    }
    return template


def status_schema(own: StatusWords) -> dict[str, Any]:
    """The schema of ``status``: what all our kinds share, and what a kind has of its own.

    Unknown fields are kept: of other versions, or of a newer cluster's Job status.
    """
    time = {"type": "string", "format": "date-time"}
    count = {"type": "integer", "format": "int32"}

    def text(description: str) -> dict[str, str]:
        return {"type": "string", "description": description}

    return {
        "description": "What has become of the job; written by the operator.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "phase": text(
                "Created, Suspended, Running, Restarting, Succeeded or Failed; says the same as"
                " the conditions, in one word."
            ),
            "reason": text("Why the job is in this phase, in one word."),
            "message": text("Why the job is in this phase, for people."),
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "The version of the spec that is in effect.",
            },
            "startTime": {**time, "description": own.start_time},
            "completionTime": {**time, "description": "When the job succeeded or failed."},
            "workersReady": text("Worker pods that are ready, of those asked for."),
            "restarts": {
                **count,
                "description": "How often pods and containers were started again; never falls.",
            },
            **copy.deepcopy(own.fields),
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "required": ["type", "status"],
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "reason": {"type": "string"},
                        "message": {"type": "string"},
                        **dict.fromkeys(own.condition_times, time),
                    },
                },
            },
            "replicaStatuses": {
                "description": own.replicas,
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        name: text(about) if name == "selector" else {**count, "description": about}
                        for name, about in own.numbers.items()
                    },
                },
            },
            "podRecords": {
                "description": (
                    "The pods whose restarts have been counted, for the operator only: beginning"
                    " of the UID, creation time, container restarts."
                ),
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"type": "string"},
            },
        },
    }
