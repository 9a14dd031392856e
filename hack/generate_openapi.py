"""Write the schema data files from the published Kubernetes OpenAPI definitions.

    python -m hack.generate_openapi

Needs Go: the definitions are those of the Kubernetes release itself, whose module is downloaded,
supplemented by its Go types (see ``gotypes.py``). The script writes:

- ``src/traincrew/local/apiserver/schema/data/schemas.json.xz``: the definitions of every kind the
  embedded API server stores or returns, without descriptions;
- ``src/traincrew/local/apiserver/schema/data/descriptions.json.xz``: their descriptions, which only
  ``kubectl explain`` requests;
- ``src/traincrew/api/data/pod-template.schema.json``: PodTemplateSpec as one structural schema, to
  be embedded in the ``openAPIV3Schema`` of a custom resource definition.

The definitions are in the form of OpenAPI v2 and contain everything server-side apply and strategic
merge need (list types, map keys, merge keys), but hardly any defaults.
"""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from hack import gotypes

RELEASE = "v1.36.3"
ROOT = Path(__file__).resolve().parent.parent
SERVER_DATA = ROOT / "src/traincrew/local/apiserver/schema/data"
API_DATA = ROOT / "src/traincrew/api/data"

CORE = "io.k8s.api.core.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
AGGREGATION = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# Structs that are written as null when they are empty.
NULL_STRUCTS = {
    f"{META}.Time",
    f"{META}.MicroTime",
    f"{META}.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    f"{EXTENSIONS}.JSON",
}

# Stored kinds have a List kind, too; the others only occur in requests and responses.
STORED = {
    CORE: """ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
        ServiceAccount""",
    "io.k8s.api.apps.v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "io.k8s.api.autoscaling.v1": "HorizontalPodAutoscaler",
    "io.k8s.api.autoscaling.v2": "HorizontalPodAutoscaler",
    "io.k8s.api.batch.v1": "CronJob Job",
    "io.k8s.api.certificates.v1": "CertificateSigningRequest",
    "io.k8s.api.coordination.v1": "Lease",
    "io.k8s.api.discovery.v1": "EndpointSlice",
    "io.k8s.api.events.v1": "Event",
    "io.k8s.api.flowcontrol.v1": "FlowSchema PriorityLevelConfiguration",
    "io.k8s.api.networking.v1": "Ingress IngressClass NetworkPolicy",
    "io.k8s.api.node.v1": "RuntimeClass",
    "io.k8s.api.policy.v1": "PodDisruptionBudget",
    "io.k8s.api.rbac.v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "io.k8s.api.scheduling.v1": "PriorityClass",
    "io.k8s.api.scheduling.v1alpha2": "PodGroup Workload",
    "io.k8s.api.storage.v1": "CSINode StorageClass",
    "io.k8s.api.admissionregistration.v1": """MutatingAdmissionPolicy
        MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy
        ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration""",
    EXTENSIONS: "CustomResourceDefinition",
    AGGREGATION: "APIService",
}
TRANSIENT = {
    CORE: "Binding",
    "io.k8s.api.authentication.v1": "SelfSubjectReview TokenRequest TokenReview",
    "io.k8s.api.authorization.v1": """LocalSubjectAccessReview SelfSubjectAccessReview
        SelfSubjectRulesReview SubjectAccessReview""",
    "io.k8s.api.autoscaling.v1": "Scale",
    "io.k8s.api.policy.v1": "Eviction",
    META: "DeleteOptions Status",
}

# The only defaults published in the schema that other semantics depend on: a default of a list-map
# key takes part in the identity of a list item (server-side apply, x-kubernetes-list-map-keys).
DEFAULTS = {
    (f"{CORE}.ContainerPort", "protocol"): "TCP",
    (f"{CORE}.ServicePort", "protocol"): "TCP",
    (f"{CORE}.LocalObjectReference", "name"): "",
}
# What resource.Quantity accepts, as Kubernetes' own CRD generator writes it.
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
DROPPED = {"x-kubernetes-unions", "enum"}


def download() -> dict[str, Any]:
    """Return the published definitions by name."""
    directory = gotypes.download({"k8s.io/kubernetes": RELEASE})["k8s.io/kubernetes"]
    text = (directory / "api/openapi-spec/swagger.json").read_text()
    definitions: dict[str, Any] = json.loads(text)["definitions"]
    # Here v3 is more precise than v2.
    definitions[QUANTITY] = definitions[QUANTITY] | {"oneOf": _either("number")}
    definitions[INT_OR_STRING] = definitions[INT_OR_STRING] | {"oneOf": _either("integer")}
    for name in (QUANTITY, INT_OR_STRING):
        del definitions[name]["type"]
    return definitions


def _either(other: str) -> list[dict[str, str]]:
    return [{"type": "string"}, {"type": other}]


def clean(schema: Any) -> Any:
    """Return the schema as an OpenAPI v3 server publishes it, with descriptions."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in DROPPED:
            continue
        if key == "$ref":
            result[key] = "#/components/schemas/" + value.rsplit("/", 1)[1]
        elif key == "properties":
            result[key] = {name: clean(item) for name, item in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = clean(value)
        elif key == "oneOf":
            result[key] = [clean(item) for item in value]
        else:
            result[key] = value
    return result


def references(schema: Any) -> set[str]:
    """Return the names of the definitions that a schema refers to."""
    if isinstance(schema, list):
        return set().union(*map(references, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    found = set().union(*map(references, schema.values())) if schema else set()
    target = schema.get("$ref")
    return found | {target.rsplit("/", 1)[1]} if isinstance(target, str) else found


def closure(definitions: dict[str, Any], roots: list[str]) -> dict[str, Any]:
    """Return the roots and all they refer to, cleaned, in name order."""
    wanted: dict[str, Any] = {}
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted[name] = clean(definitions[name])
            pending += references(wanted[name])
    for (name, field), default in DEFAULTS.items():
        if field in wanted.get(name, {}).get("properties", {}):
            wanted[name]["properties"][field]["default"] = default
    # Every group lists DeleteOptions as its own; one entry is enough for a client.
    options = wanted[f"{META}.DeleteOptions"]
    options["x-kubernetes-group-version-kind"] = [
        {"group": "", "kind": "DeleteOptions", "version": "v1"}
    ]
    return dict(sorted(wanted.items()))


def split_descriptions(schema: Any) -> tuple[Any, Any]:
    """Return the schema without descriptions, and a tree of just the descriptions (or None)."""
    texts: dict[str, Any] = {}
    bare = dict(schema)
    if "description" in bare:
        texts["description"] = bare.pop("description")
    if "properties" in bare:
        pairs = {name: split_descriptions(item) for name, item in bare["properties"].items()}
        bare["properties"] = {name: pair[0] for name, pair in pairs.items()}
        kept = {name: pair[1] for name, pair in pairs.items() if pair[1]}
        if kept:
            texts["properties"] = kept
    for key in ("items", "additionalProperties"):
        if isinstance(bare.get(key), dict):
            bare[key], inner = split_descriptions(bare[key])
            if inner:
                texts[key] = inner
    return bare, texts or None


def structural(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return one definition with every reference expanded, as a CRD structural schema."""
    if name == QUANTITY:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    if name == INT_OR_STRING:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
    if name == f"{META}.ObjectMeta":
        # Metadata that a template may set. creationTimestamp: null is printed by `kubectl create
        # --dry-run` and Go programs, so it must be accepted.
        text = {"type": "string"}
        return {
            "type": "object",
            "properties": {
                "annotations": {"type": "object", "additionalProperties": text},
                "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
                "finalizers": {"type": "array", "items": text},
                "generateName": text,
                "labels": {"type": "object", "additionalProperties": text},
                "name": text,
                "namespace": text,
            },
        }

    def expand(schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return structural(schema["$ref"].rsplit("/", 1)[1], definitions)
        result = {
            key: value
            for key, value in schema.items()
            if key not in ("description", "x-kubernetes-group-version-kind")
            and not key.startswith("x-kubernetes-patch")
        }
        if "properties" in result:
            result["properties"] = {key: expand(item) for key, item in result["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(result.get(key), dict):
                result[key] = expand(result[key])
        keys = result.get("x-kubernetes-list-map-keys", [])
        for key in keys:
            item = result["items"]
            has_default = "default" in item["properties"][key]
            if key not in item.get("required", []) and not has_default:
                sys.exit(f"{name}: list-map key {key} is neither required nor defaulted")
        if result.get("type") == "object" and not (
            "properties" in result or "additionalProperties" in result
        ):
            result["x-kubernetes-preserve-unknown-fields"] = True
        return result

    return expand(clean(definitions[name]))


def write_xz(path: Path, document: Any) -> None:
    """Write compact JSON, compressed by xz as far as possible."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    data = lzma.compress(text.encode(), format=lzma.FORMAT_XZ, filters=filters)
    path.write_bytes(data)
    print(f"{path.relative_to(ROOT)}: {len(text):,} bytes of JSON, {len(data):,} bytes")


def root_names() -> list[str]:
    """Return the names of the definitions of all kinds the server serves."""
    stored = [
        f"{prefix}.{kind}{suffix}"
        for prefix, kinds in STORED.items()
        for kind in kinds.split()
        for suffix in ("", "List")
    ]
    return stored + [
        f"{prefix}.{kind}" for prefix, kinds in TRANSIENT.items() for kind in kinds.split()
    ]


def add_go_rules(schemas: dict[str, Any]) -> None:
    """Add how Go encodes fields that are empty or missing.

    ``x-omit-empty`` lists the fields that are omitted when they are empty, such as
    ``hostNetwork: false`` or ``env: []``. ``x-go-zero`` has the fields that are always present,
    and their value when they are not set: ``resources: {}``, ``rules: null``. ``x-go-type`` is the
    name of a type, which errors mention, where it does not follow from the schema.
    """
    modules = gotypes.download(dict.fromkeys(gotypes.MODULES, gotypes.VERSION))
    packages: dict[str, Any] = {}
    for name, schema in schemas.items():
        package, _, struct = name.rpartition(".")
        if package not in packages:
            directory = gotypes.package_directory(modules, package)
            packages[package] = gotypes.read_structs(directory)[0]
        structs = packages[package]
        properties = schema.get("properties", {})
        pending, omitted, zero = [struct], set(), {}
        while pending:
            for field in structs.get(pending.pop(), ()):
                if not field.json:
                    pending.append(field.type)  # inlined: its fields belong to this struct
                    continue
                schema_of_field = properties.get(field.json)
                if schema_of_field is None:
                    continue
                name_of_type = gotypes.type_name(field.type, package.rpartition(".")[2])
                if name_of_type != evident_type(schema_of_field):
                    schema_of_field["x-go-type"] = name_of_type
                if gotypes.is_dropped_when_empty(field, structs):
                    omitted.add(field.json)
                elif gotypes.is_always_written(field, structs):
                    zero[field.json] = zero_value(field, properties[field.json])
        if omitted:
            schema["x-omit-empty"] = sorted(omitted)
        if zero:
            schema["x-go-zero"] = zero


def evident_type(schema: dict[str, Any]) -> str:
    """Return the Go type that follows from a schema without ``x-go-type``."""
    if "$ref" in schema:
        return ".".join(schema["$ref"].rsplit("/", 1)[-1].split(".")[-2:])
    if schema["type"] == "array":
        return f"[]{evident_type(schema['items'])}"
    if schema["type"] == "object":
        return f"map[string]{evident_type(schema['additionalProperties'])}"
    scalars = {"string": "string", "boolean": "bool", "number": "float64"}
    return scalars.get(schema["type"]) or schema["format"]


def zero_value(field: gotypes.Field, schema: dict[str, Any]) -> Any:
    """Return what Go writes for a field that is not set."""
    if field.type.startswith(("*", "[]", "map[")):
        return None
    target = schema.get("$ref", "").rsplit("/", 1)[-1]
    if target:
        return {QUANTITY: "0", INT_OR_STRING: 0}.get(target, None if target in NULL_STRUCTS else {})
    return {"string": "", "integer": 0, "number": 0, "boolean": False}.get(schema["type"])


def main() -> None:
    """Write the three files."""
    definitions = download()
    roots = root_names()
    schemas, texts = {}, {}
    for name, schema in closure(definitions, roots).items():
        schemas[name], inner = split_descriptions(schema)
        if inner:
            texts[name] = inner
    add_go_rules(schemas)
    write_xz(SERVER_DATA / "schemas.json.xz", schemas)
    write_xz(SERVER_DATA / "descriptions.json.xz", texts)
    # The template needs defaults, too: for the key fields of its lists.
    for (name, field), default in DEFAULTS.items():
        definitions[name]["properties"][field]["default"] = default
    template = structural(f"{CORE}.PodTemplateSpec", definitions)
    path = API_DATA / "pod-template.schema.json"
    path.write_text(json.dumps(template, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
