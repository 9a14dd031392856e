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
from msgspec import Struct

from traincrew.api import chainerjob

MAX_CONTAINERS = 64
"""Bounds of lists and strings that CEL rules look at, so that their cost can be estimated."""
MAX_CONTAINER_NAME = 63


class Column(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A column of ``kubectl get``; priority 1 means only with ``-o wide``."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0


class Kind(Struct, kw_only=True, frozen=True):
    """What a CustomResourceDefinition says besides the schema of ``spec``."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    description: str
    spec: type[Struct]
    spec_rules: dict[str, Any]
    rules: dict[str, Any]
    """Rules over the whole object."""
    columns: tuple[Column, ...]


CHAINER_JOB = Kind(
    group=chainerjob.GROUP,
    version=chainerjob.VERSION,
    kind=chainerjob.KIND,
    plural=chainerjob.PLURAL,
    short_names=("chj", "chjs", "chjob", "chjobs"),
    description="A Chainer training job: a master and sets of workers, connected by MPI.",
    spec=chainerjob.ChainerJobSpec,
    spec_rules=chainerjob.SPEC_RULES,
    rules=chainerjob.JOB_RULES,
    columns=(
        Column(name="Phase", type="string", json_path=".status.phase"),
        Column(
            name="Workers",
            type="string",
            json_path=".status.workersReady",
            description="Worker pods that are ready, of those asked for.",
        ),
        Column(
            name="Restarts",
            type="integer",
            json_path=".status.restarts",
            description="How often pods and containers of the job were started again.",
        ),
        Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        Column(name="Reason", type="string", json_path=".status.reason", priority=1),
        Column(name="Message", type="string", json_path=".status.message", priority=1),
    ),
)


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind, as a plain document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "shortNames": list(kind.short_names),
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
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
            "status": status_schema(),
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
        return {**pod_template(template["restartPolicy"]), "description": node["description"]}
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


def pod_template(restart_policy: str) -> dict[str, Any]:
    """The schema of a pod template, with what our kinds allow beyond a plain one.

    Args:
        restart_policy: Default of ``spec.restartPolicy``.
    """
    template = copy.deepcopy(_upstream_pod_template())
    # Old manifests carry them inside templates, where they mean nothing.
    template["properties"]["apiVersion"] = {"type": "string"}
    template["properties"]["kind"] = {"type": "string"}
    template["required"] = ["spec"]
    pod = template["properties"]["spec"]["properties"]
    del pod["ephemeralContainers"]  # the API refuses them in templates
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
        "default": chainerjob.CONTAINER,
        "maxLength": MAX_CONTAINER_NAME,
    }
    return template


def status_schema() -> dict[str, Any]:
    """The schema of ``status``: the master Job's status, and what all our kinds share.

    Unknown fields are kept, because a newer cluster's Job status may have more of them.
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
            "startTime": {**time, "description": "When the master was started (again)."},
            "completionTime": {**time, "description": "When the job succeeded or failed."},
            "workersReady": text("Worker pods that are ready, of those asked for."),
            "restarts": {
                **count,
                "description": "How often pods and containers were started again; never falls.",
            },
            "active": count,
            "ready": count,
            "succeeded": count,
            "failed": count,
            "terminating": count,
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
                        "lastProbeTime": time,
                        "lastTransitionTime": time,
                    },
                },
            },
            "replicaStatuses": {
                "description": "The master's pods, and those of every worker set by its name.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "active": {
                            **count,
                            "description": "Pods that hold resources, terminating ones included.",
                        },
                        "ready": {**count, "description": "Pods that are ready."},
                        "succeeded": {**count, "description": "Of the master: 1 at success."},
                        "failed": {**count, "description": "Of the master: pods that failed."},
                        "restarts": {
                            **count,
                            "description": "How often pods and containers were started again.",
                        },
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
