"""Generates the CustomResourceDefinition of a kind from its types.

The schema of a kind's own fields comes from its msgspec types, descriptions included. A pod
template is the full upstream schema of ``PodTemplateSpec`` without descriptions, so that a typo in
a container field is refused at create, and the whole definition still fits the 256 KiB that a
plain ``kubectl apply`` can store in its annotation.

Structural schemas (Kubernetes documentation, "Specifying a structural schema") have no references,
no ``null`` alternatives and no titles; the conversion here removes exactly those.
"""

from __future__ import annotations

# Over 400 lines: the schema of a status is one table.
import copy
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from traincrew.api import placeholders
from traincrew.api.kind import (
    MANAGED_BY,
    MANAGED_BY_RULE,
    Column,
    Kind,
    Manager,
    Referenced,
    Rule,
    Scale,
    StatusWords,
    rules,
)

__all__ = [
    "Column",
    "Kind",
    "definition",
    "definitions",
    "pod_template",
    "schema",
    "status_schema",
]

MAX_CONTAINERS = 64
"""Limits of lists and strings in CEL rules, so that the cost of the rules can be estimated."""
MAX_CONTAINER_NAME = 63
MAX_METRICS = 256
"""Metrics of one report. The Kubeflow SDK sends at most as many."""
MAX_SLOWEST = 5
"""Ranks in ``status.progress.ranks``."""


NOT_SCALABLE = Scale(spec_replicas_path=".spec.replicas", status_replicas_path=".status.replicas")
"""The ``scale`` subresource of kinds that refuse to be scaled.

Without one `kubectl scale` reports that the job was not found. With this one it writes a field that
a rule refuses, and reports why.
"""


def definition(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind, as a plain document."""
    subresources: dict[str, Any] = {"status": {}}
    if (scale := kind.scale or (NOT_SCALABLE if kind.not_scalable else None)) is not None:
        subresources["scale"] = msgspec.to_builtins(scale)
    names: dict[str, Any] = {"shortNames": list(kind.short_names)} if kind.short_names else {}
    return _document(
        kind,
        {**names, "categories": ["all"]},
        {
            "subresources": subresources,
            "additionalPrinterColumns": [
                {"name": column.name, **msgspec.to_builtins(column)} for column in kind.columns
            ],
            "schema": {"openAPIV3Schema": schema(kind)},
        },
    )


def definitions(kind: Kind) -> list[dict[str, Any]]:
    """Return the definition of a kind, and those of what its jobs refer to."""
    return [definition(kind), *map(_reference, kind.referenced)]


def _reference(kind: Referenced) -> dict[str, Any]:
    """Return the CustomResourceDefinition of objects that jobs refer to."""
    whole = {
        "description": kind.description,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": kind.spec,
        },
    }
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return _document(kind, {}, {"schema": {"openAPIV3Schema": whole}}, scope)


def _document(
    kind: Kind | Referenced,
    names: dict[str, Any],
    version: dict[str, Any],
    scope: str = "Namespaced",
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": scope,
            "names": {
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                **names,
            },
            "versions": [{"name": kind.version, "served": True, "storage": True, **version}],
        },
    }


def schema(kind: Kind) -> dict[str, Any]:
    """Return the structural schema of a kind's objects."""
    (reference,), definitions = msgspec.json.schema_components([kind.spec], ref_template="#/{name}")
    spec = _structural(reference, definitions)
    described = "Specification of the desired behavior of the job."
    spec = {**spec, **copy.deepcopy(kind.spec_rules), "description": described}
    if kind.manager == Manager():  # a kind of another project has a field of its own
        spec["properties"] = {**spec["properties"], "managedBy": dict(MANAGED_BY)}
        _add_rules(spec, MANAGED_BY_RULE)
    if kind.not_scalable:
        count = {"type": "integer", "description": f"Not a field: {kind.not_scalable}."}
        spec["properties"] = {**spec["properties"], "replicas": count}
        _add_rules(spec, Rule(rule="!has(self.replicas)", message=kind.not_scalable))
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


def _add_rules(node: dict[str, Any], *more: Rule) -> None:
    for key, added in rules(*more).items():
        node[key] = [*node.get(key, ()), *added]


def _structural(
    node: dict[str, Any], definitions: dict[str, Any], *, listed: bool = False
) -> dict[str, Any]:
    """Convert a schema node: resolve references, drop titles and null alternatives.

    Args:
        node: The node.
        definitions: What it may refer to.
        listed: Whether it is in a list, where there are no defaults: clients compare and replace
            lists as a whole, so a default would be a difference that never ends.
    """
    node = dict(node)
    if (name := node.pop("$ref", None)) is not None:
        target = definitions[name.removeprefix("#/")]
        return _structural({**target, **node}, definitions, listed=listed)
    if _is_quantity(node):
        return {**node, "x-kubernetes-int-or-string": True}
    if (options := node.pop("anyOf", None)) is not None:
        (option,) = [option for option in options if option.get("type") != "null"]
        return _structural({**option, **node}, definitions, listed=listed)
    if (template := node.pop("x-pod-template", None)) is not None:
        return {**pod_template(**template), **node}
    node.pop("title", None)
    if listed or node.get("default") is None or isinstance(node["default"], dict | list):
        # The default of an object or list would add fields to every stored job that nobody wrote.
        node.pop("default", None)
    if "enum" in node:
        node["type"] = "string"
    if not node.get("required", True):
        del node["required"]
    if "properties" in node:
        node["properties"] = {
            key: _structural(value, definitions, listed=listed)
            for key, value in node["properties"].items()
        }
    if isinstance(node.get("items"), dict):
        node["items"] = _structural(node["items"], definitions, listed=True)
    if isinstance(node.get("additionalProperties"), dict):
        node["additionalProperties"] = _structural(
            node["additionalProperties"], definitions, listed=listed
        )
    return node


def _is_quantity(node: dict[str, Any]) -> bool:
    """Return whether a schema accepts an integer and a string, as a resource quantity."""
    return {each.get("type") for each in node.get("anyOf", ())} == {"integer", "string"}


@cache
def _upstream_pod_template() -> bytes:
    return resources.files("traincrew.api").joinpath("data/pod-template.schema.json").read_bytes()


def pod_template(restart_policy: str | None = None) -> dict[str, Any]:
    """Return the schema of a pod template, with what our kinds allow beyond a plain one.

    Args:
        restart_policy: Default of ``spec.restartPolicy``, if any.
    """
    template: dict[str, Any] = msgspec.json.decode(_upstream_pod_template())
    # Old manifests have them inside templates, where they have no effect.
    template["properties"]["apiVersion"] = {"type": "string"}
    template["properties"]["kind"] = {"type": "string"}
    template["required"] = ["spec"]
    pod = template["properties"]["spec"]["properties"]
    del pod["ephemeralContainers"]  # the API refuses them in templates
    for group in ("containers", "initContainers"):
        pod[group]["items"]["properties"]["image"]["pattern"] = placeholders.NONE_IN_IMAGES
    containers = pod["containers"]
    containers["minItems"] = 1
    containers["maxItems"] = MAX_CONTAINERS
    containers["items"]["required"].remove("name")
    if not containers["items"]["required"]:
        del containers["items"]["required"]
    # The plan names a single container. Server-side apply takes the list as a whole, since a list
    # that is a map by name needs one, or a default.
    name = {"type": "string", "maxLength": MAX_CONTAINER_NAME}
    containers["items"]["properties"]["name"] = name
    _without_defaults(template["properties"]["spec"])
    if restart_policy is not None:
        pod["restartPolicy"]["default"] = restart_policy
    containers |= rules(
        Rule(
            rule="size(self) == 1 || self.all(c, has(c.name))",
            message="name is required for each of several containers",
        ),
        Rule(
            rule="self.all(c, !has(c.name) || self.exists_one(o, has(o.name) && o.name == c.name))",
            message="several containers have the same name: give each a name of its own",
        ),
    )
    return template


def _without_defaults(node: dict[str, Any]) -> None:
    """Remove the defaults of a pod's fields, which the API sets in the pods.

    A list whose keys must be there is a map by these keys in server-side apply. If one of them may
    be left out, here or in a pod, the list is owned as a whole.
    """
    node.pop("default", None)
    items = node.get("items")
    if isinstance(items, dict):
        if not {*node.get("x-kubernetes-list-map-keys", ())} <= {*items.get("required", ())}:
            del node["x-kubernetes-list-map-keys"]
            node["x-kubernetes-list-type"] = "atomic"
        _without_defaults(items)
    for child in node.get("properties", {}).values():
        _without_defaults(child)
    if isinstance(node.get("additionalProperties"), dict):
        _without_defaults(node["additionalProperties"])


def status_schema(own: StatusWords) -> dict[str, Any]:
    """Return the schema of ``status``: what all our kinds share, and a kind's own fields.

    Unknown fields are kept: they may come from other versions, or from a newer Job status.
    """
    # Over 60 lines: a table of the fields of every status.
    time = {"type": "string", "format": "date-time"}
    count = {"type": "integer", "format": "int32"}

    def text(description: str) -> dict[str, str]:
        return {"type": "string", "description": description}

    return {
        "description": "Most recently observed status of the job. Written by the operator.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "phase": text(
                "Phase of the job: Created, Suspended, Running, Restarting, Succeeded or"
                " Failed. It summarizes the conditions."
            ),
            "reason": text("Reason for the phase, as one word in CamelCase."),
            "message": text("Human-readable reason for the phase."),
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "Generation of the spec that the operator has acted on last.",
            },
            "startTime": {**time, "description": own.start_time},
            "completionTime": {**time, "description": "Time at which the job succeeded or failed."},
            "workersReady": text(
                "Number of ready worker pods, of the number desired, for example 1/2."
            ),
            "restarts": {
                **count,
                "description": "Number of restarts of pods and containers. It never decreases.",
            },
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
            "progress": _progress_schema(),
            "gangReleases": count
            | {"description": "How often the pods were released, for lack of others."},
            "gangReleasedAt": time | {"description": "When, until they are created again."},
            "queue": _queue_schema(),
            "podRecords": {
                "description": (
                    "For use by the operator only: the pods whose restarts have been counted, one"
                    " entry per role, with creation times, indexes, container restarts, flags and"
                    " short UIDs."
                ),
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"type": "string"},
            },
            **copy.deepcopy(own.fields),
        },
    }


def _queue_schema() -> dict[str, Any]:
    """Return the schema of what is known of the queue of a job."""

    def text(description: str) -> dict[str, str]:
        return {"type": "string", "description": description}

    return {
        "description": "The queue of the job, if its label asks for one.",
        "type": "object",
        "properties": {
            "name": text("Name of the LocalQueue."),
            "workload": text("Name of the Workload, as long as it may have quota."),
            "clusterQueue": text("Name of the ClusterQueue that has admitted the job."),
            "admitted": {
                "description": "Number of pods of each set that were admitted, if not all were.",
                "type": "object",
                "additionalProperties": {"type": "integer", "format": "int32"},
            },
            "message": text("What a job with fewer pods asks for, to grow, and why it waits."),
        },
    }


def _progress_schema() -> dict[str, Any]:
    """Return the schema of what training programs report, in the words of KEP-2779."""
    text = {"type": "string"}
    time = {"type": "string", "format": "date-time"}
    return {
        "description": "The newest report of the training program, if it reports its progress.",
        "type": "object",
        "properties": {
            "percentage": {
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 100,
                "description": "How much of the training is done, in percent.",
            },
            "estimatedRemainingSeconds": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "description": "Seconds that the training will still take, as it estimates.",
            },
            "metrics": {
                "description": "The newest metrics, as the program wrote them.",
                "type": "array",
                "maxItems": MAX_METRICS,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["name", "value"],
                    "properties": {
                        "name": {**text, "description": "Name of the metric, for example loss."},
                        "value": {**text, "description": "Its value, for example 0.41."},
                    },
                },
            },
            "lastUpdateTime": {
                **time,
                "description": "Time at which the operator received the report.",
            },
            "lastAdvanceTime": {
                **time,
                "description": (
                    "Time of the last report that differed from the one before in its percentage,"
                    " a metric, or the percentage of a rank."
                ),
            },
            "ranks": _ranks_schema(),
        },
    }


def _ranks_schema() -> dict[str, Any]:
    """Return the schema of what ranks report of their positions."""
    number = {"type": "number", "minimum": 0, "maximum": 100}
    count = {"type": "integer", "format": "int32", "minimum": 0}
    return {
        "description": "How far the ranks are, if they report their positions.",
        "type": "object",
        "properties": {
            "count": {**count, "description": "Number of ranks whose position is known."},
            "median": {**number, "description": "Median of their percentages."},
            "slowest": {
                "description": "The slowest ranks, the one that has done least first.",
                "type": "array",
                "maxItems": MAX_SLOWEST,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["rank", "pod", "percentage"],
                    "properties": {
                        "rank": {**count, "description": "Number of the rank in the job."},
                        "pod": {"type": "string", "description": "Pod in which it runs."},
                        "percentage": {
                            **number,
                            "description": "How much of its work is done, in percent.",
                        },
                        "lastAdvanceTime": {
                            "type": "string",
                            "format": "date-time",
                            "description": "Time of its last report with another percentage.",
                        },
                    },
                },
            },
        },
    }
