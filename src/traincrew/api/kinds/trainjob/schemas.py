"""Parts of pods in the schemas of TrainJobs and runtimes, as the API of pods has them."""

from __future__ import annotations

from typing import Any

from traincrew.api.crd import pod_template
from traincrew.api.kind import Rule, rules

Schema = dict[str, Any]

MAX_TEXT = 253
"""Maximum length of names of objects."""
IMMUTABLE = rules(Rule(rule="self == oldSelf", message="field is immutable"))
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_POD: Schema = pod_template()["properties"]["spec"]["properties"]
_CONTAINER: Schema = _POD["containers"]["items"]["properties"]
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}


def _bounded(node: Schema, most: int, **more: Any) -> Schema:
    """Return the schema of a list with a maximum length."""
    return {**node, "maxItems": most, **more}


def _fixed(node: Schema) -> Schema:
    """Return the schema of a field that cannot be changed."""
    return {**node, **IMMUTABLE}


def variables() -> Schema:
    """Return the schema of a list of environment variables."""
    return _bounded(_CONTAINER["env"], 128)


def resources() -> Schema:
    """Return the schema of the resources of a container."""
    found: Schema = _CONTAINER["resources"]
    return found


def metadata() -> Schema:
    """Return the schema of labels and annotations."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": "object", "properties": {"labels": texts, "annotations": texts}}


def _containers() -> Schema:
    fields = {
        "name": _NAME,
        "env": variables(),
        "volumeMounts": _bounded(_CONTAINER["volumeMounts"], 128),
        "securityContext": _CONTAINER["securityContext"],
    }
    items = {"type": "object", "required": ["name"], "properties": fields}
    return _fixed(_bounded({"type": "array", "items": items}, 64, **BY_NAME))


def template_patch() -> Schema:
    """Return the schema of a patch of a Job's template."""
    fields = {
        "serviceAccountName": _fixed({"type": "string", "maxLength": MAX_TEXT}),
        "volumes": _fixed(_bounded(_POD["volumes"], 128)),
        "initContainers": _containers(),
        "containers": _containers(),
        "imagePullSecrets": _fixed(_bounded(_POD["imagePullSecrets"], 64)),
        "securityContext": _fixed(_POD["securityContext"]),
        "nodeSelector": _POD["nodeSelector"],
        "affinity": _POD["affinity"],
        "tolerations": _bounded(_POD["tolerations"], 128),
        "schedulingGates": _bounded(_POD["schedulingGates"], 16),
    }
    pod = {"type": "object", "properties": fields}
    pods = {"type": "object", "properties": {"metadata": metadata(), "spec": pod}}
    job = {"type": "object", "properties": {"template": pods}}
    return {"type": "object", "properties": {"metadata": metadata(), "spec": job}}


def runtime_patch() -> Schema:
    """Return the schema of what may be patched of a runtime."""
    named = {"name": _NAME, "template": template_patch()}
    items = {"type": "object", "required": ["name"], "properties": named}
    jobs = _bounded({"type": "array", "items": items}, 100, **BY_NAME)
    spec = {"type": "object", "properties": {"replicatedJobs": jobs}}
    template = {"type": "object", "properties": {"metadata": metadata(), "spec": spec}}
    template["description"] = "What is changed of the template of the JobSet."
    return {"type": "object", "properties": {"template": template}}
