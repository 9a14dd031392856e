"""Rules for CustomResourceDefinitions: names, versions, structural schemas, CEL."""

from typing import Any

import pytest

from local.apiserver.strategies import default
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.apiextensions import structural
from traincrew.local.apiserver.kinds.apiextensions.custom_resource_definition import STRATEGY
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.values.codec import clone

KNOWN = schema.load_builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
TEXT = {"type": "string"}
OBJECT = {"type": "object"}


def definition(root: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    entry = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": OBJECT if root is None else root},
    }
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.t.io"},
        "spec": {
            "group": "t.io",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [entry | version],
        },
    }
    cloned: dict[str, Any] = clone(obj)
    return cloned


def faults(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    assert KNOWN.prune(obj) == []
    default("apiextensions.k8s.io", "CustomResourceDefinition", obj)
    found = KNOWN.validate(obj) or validate(STRATEGY, obj, old)
    return [(cause.field, cause.message) for cause in found]


def test_a_valid_definition() -> None:
    properties = {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "minimum": 0, "default": 1},
                "port": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                },
                "free": {"x-kubernetes-preserve-unknown-fields": True},
            },
            "x-kubernetes-validations": [{"rule": "self.replicas < 10", "message": "too many"}],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    obj = definition(
        {"type": "object", "properties": properties},
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
        ],
        selectableFields=[{"jsonPath": ".spec.replicas"}],
    )
    assert faults(obj) == []
    old = clone(obj) | {
        "status": {
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": ["v1"],
        }
    }
    assert faults(clone(old), old) == []


def test_our_own_schema_checks_the_schema_of_definitions() -> None:
    obj = definition({"type": "object", "properties": {"a": {"type": "string", "typo": 1}}})
    path = "spec.versions[0].schema.openAPIV3Schema.properties.a.typo"
    assert KNOWN.prune(obj) == [path]


LABEL = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (
            {"metadata": {"name": "widget.t.io"}},
            "metadata.name",
            'must be spec.names.plural+"."+spec.group',
        ),
        ({"spec": {"group": "tio"}}, "spec.group", "should be a domain with at least one dot"),
        ({"spec": {"scope": "Global"}}, "spec.scope", 'supported values: "Cluster", "Namespaced"'),
        ({"spec": {"names": {"kind": "Bad Kind"}}}, "spec.names.kind", "may have mixed case"),
        (
            {"spec": {"names": {"listKind": "Widget"}}},
            "spec.names.listKind",
            "kind and listKind may not be the same",
        ),
        ({"spec": {"names": {"shortNames": ["W"]}}}, "spec.names.shortNames[0]", LABEL),
        ({"spec": {"names": {"categories": ["A"]}}}, "spec.names.categories[0]", LABEL),
        (
            {"spec": {"versions": []}},
            "spec.versions",
            "must have exactly one version marked as storage version",
        ),
        (
            {"spec": {"preserveUnknownFields": True}},
            "spec.preserveUnknownFields",
            "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            {"spec": {"conversion": {"strategy": "Magic"}}},
            "spec.conversion.strategy",
            'supported values: "None", "Webhook"',
        ),
        (
            {"spec": {"conversion": {"strategy": "Webhook"}}},
            "spec.conversion.webhookClientConfig",
            "required when strategy is set to Webhook",
        ),
        (
            {"spec": {"conversion": {"webhook": {"clientConfig": {}}}}},
            "spec.conversion.webhookClientConfig",
            "should not be set when strategy is not set to Webhook",
        ),
        (
            {"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v1"]}}}},
            "spec.conversion.conversionReviewVersions",
            "should not be set when strategy is not set to Webhook",
        ),
        (
            {
                "metadata": {"name": "widgets.x.k8s.io"},
                "spec": {"group": "x.k8s.io"},
            },
            "metadata.annotations[api-approved.kubernetes.io]",
            "protected groups must have approval annotation",
        ),
    ],
)
def test_invalid_definitions(change: dict[str, Any], field: str, text: str) -> None:
    obj = definition()
    for part, values in change.items():
        for key, item in values.items():
            if isinstance(item, dict):
                obj[part].setdefault(key, {}).update(item)
            else:
                obj[part][key] = item
    found = dict(faults(obj))
    assert field in found
    assert text in found[field]


@pytest.mark.parametrize(
    ("version", "field", "text"),
    [
        ({"name": "V1"}, "name", LABEL),
        ({"storage": False}, "", "must have exactly one version marked as storage version"),
        ({"schema": {}}, "schema.openAPIV3Schema", "Required value"),
        (
            {"deprecationWarning": "old"},
            "deprecationWarning",
            "can only be set for deprecated versions",
        ),
        (
            {
                "subresources": {
                    "scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.n"}
                }
            },
            "subresources.scale.specReplicasPath",
            "should be a json path under .spec",
        ),
        (
            {
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.n",
                        "statusReplicasPath": ".status.n",
                        "labelSelectorPath": ".selector",
                    }
                }
            },
            "subresources.scale.labelSelectorPath",
            "should be a json path under either .spec or .status",
        ),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]},
            "additionalPrinterColumns[0].type",
            "must be one of boolean,date,integer,number,string",
        ),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a"}]},
            "additionalPrinterColumns[0].JSONPath",
            "must be a simple json path starting with .",
        ),
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a["}]},
            "additionalPrinterColumns[0].JSONPath",
            "invalid JSON path",
        ),
        (
            {"selectableFields": [{"jsonPath": ".spec.typo"}]},
            "selectableFields[0].jsonPath",
            "is an invalid path",
        ),
    ],
)
def test_invalid_versions(version: dict[str, Any], field: str, text: str) -> None:
    found = dict(faults(definition(**version)))
    path = f"spec.versions[0].{field}" if field else "spec.versions"
    assert path in found
    assert text in found[path]


def test_version_names_are_unique() -> None:
    obj = definition()
    obj["spec"]["versions"].append(obj["spec"]["versions"][0] | {"storage": False})
    assert ("spec.versions", 'Invalid value: ["v1","v1"]: must contain unique version names') in (
        faults(obj)
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Gadget", "plural": "widgets"}}, "spec.names.kind"),
    ],
)
def test_immutable_fields(change: dict[str, Any], field: str) -> None:
    old = definition()
    assert faults(old) == []
    old["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    new = clone(old)
    new["spec"] |= change
    assert field in dict(faults(new, old))


def test_stored_versions_cannot_be_removed() -> None:
    old = definition()
    assert faults(old) == []
    new = clone(old) | {"status": {"storedVersions": ["v0", "v1"]}}
    ((field, message),) = faults(new, old)
    assert field == "status.storedVersions[0]"
    assert "missing from spec.versions; v0 was previously a storage version" in message


def test_cel_rules_that_do_not_compile_refuse_the_definition() -> None:
    root = {
        "type": "object",
        "properties": {"spec": OBJECT | {"x-kubernetes-validations": [{"rule": "self.typo == 1"}]}},
    }
    ((field, message),) = faults(definition(root))
    assert field == (
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    )
    assert "undefined field 'typo'" in message


# --- structural schemas -------------------------------------------------------------------------


def spec(schema_: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema_}}


LIST = {"type": "array", "items": TEXT}
ITEM = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": ITEM,
}

STRUCTURAL: list[tuple[dict[str, Any], str, str]] = [
    ({}, "type", "Required value: must not be empty at the root"),
    ({"type": "string"}, "type", 'Invalid value: "string": must be object at the root'),
    (OBJECT | {"nullable": True}, "nullable", "Forbidden: nullable cannot be true at the root"),
    (
        OBJECT | {"additionalProperties": TEXT},
        "additionalProperties",
        "Forbidden: must not be used at the root",
    ),
    (
        {"type": "object", "properties": {"metadata": {"type": "string"}}},
        "properties[metadata].type",
        'Invalid value: "string": must be object',
    ),
    (
        {
            "type": "object",
            "properties": {"metadata": OBJECT | {"properties": {"labels": OBJECT}}},
        },
        "properties[metadata]",
        (
            "Forbidden: must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        ),
    ),
    ({"type": "object", "properties": {"kind": OBJECT}}, "properties[kind].type", "must be string"),
    (
        spec({}),
        "properties[a].type",
        "Required value: must not be empty for specified object fields",
    ),
    (spec({"type": "null"}), "properties[a].type", "Forbidden: type cannot be set to null"),
    (spec({"type": "text"}), "properties[a].type", 'Unsupported value: "text"'),
    (spec({"type": "array"}), "properties[a].items", "Required value: must be specified"),
    (
        spec({"type": "array", "items": {}}),
        "properties[a].items.type",
        "Required value: must not be empty for specified array items",
    ),
    (spec(TEXT | {"id": "x"}), "properties[a].id", "Forbidden: id is not supported"),
    (
        spec(OBJECT | {"properties": {"b": TEXT}, "additionalProperties": TEXT}),
        "properties[a].additionalProperties",
        "Forbidden: additionalProperties and properties are mutual exclusive",
    ),
    (spec(LIST | {"uniqueItems": True}), "properties[a].uniqueItems", "becomes quadratic"),
    (
        spec(TEXT | {"pattern": "("}),
        "properties[a].pattern",
        "must be a valid regular expression, but isn't",
    ),
    (
        spec(OBJECT | {"x-kubernetes-preserve-unknown-fields": False}),
        "properties[a].x-kubernetes-preserve-unknown-fields",
        "Invalid value: false: must be true or undefined",
    ),
    (
        spec({"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
        "properties[a].x-kubernetes-preserve-unknown-fields",
        "must be false if x-kubernetes-int-or-string is true",
    ),
    (
        spec(TEXT | {"x-kubernetes-embedded-resource": True}),
        "properties[a].type",
        "must be object if x-kubernetes-embedded-resource is true",
    ),
    (
        spec(OBJECT | {"x-kubernetes-embedded-resource": True}),
        "properties[a].properties",
        "must not be empty if x-kubernetes-embedded-resource is true",
    ),
    (
        spec(TEXT | {"x-kubernetes-map-type": "atomic"}),
        "properties[a].type",
        "must be object if x-kubernetes-map-type is specified",
    ),
    (
        spec(OBJECT | {"x-kubernetes-map-type": "loose"}),
        "properties[a].x-kubernetes-map-type",
        'supported values: "atomic", "granular"',
    ),
    (
        spec(LIST | {"x-kubernetes-list-type": "bag"}),
        "properties[a].x-kubernetes-list-type",
        'supported values: "atomic", "set", "map"',
    ),
    (
        spec(LIST | {"x-kubernetes-list-map-keys": ["a"]}),
        "properties[a].x-kubernetes-list-type",
        "Required value: must be map if x-kubernetes-list-map-keys is non-empty",
    ),
    (
        spec({k: v for k, v in MAP.items() if k != "x-kubernetes-list-map-keys"}),
        "properties[a].x-kubernetes-list-map-keys",
        "Required value: must not be empty if x-kubernetes-list-type is map",
    ),
    (
        spec(MAP | {"x-kubernetes-list-map-keys": ["typo"]}),
        "properties[a].x-kubernetes-list-map-keys",
        "entries must all be names of item properties",
    ),
    (
        spec(MAP | {"items": OBJECT | {"properties": {"name": TEXT}}}),
        "properties[a].items.properties[name].default",
        (
            "Required value: this property is in x-kubernetes-list-map-keys, so it must have a"
            " default or be a required property"
        ),
    ),
    (
        spec(MAP | {"items": TEXT}),
        "properties[a].items.type",
        "must be object if parent array's x-kubernetes-list-type is map",
    ),
    (
        spec({"type": "array", "x-kubernetes-list-type": "set", "items": OBJECT}),
        "properties[a].items.x-kubernetes-map-type",
        "must be atomic as item of a list with x-kubernetes-list-type=set",
    ),
    (
        spec(TEXT | {"x-kubernetes-list-type": "set"}),
        "properties[a].type",
        "must be array if x-kubernetes-list-type is specified",
    ),
    (
        spec(TEXT | {"anyOf": [{"type": "string"}]}),
        "properties[a].anyOf[0].type",
        "Forbidden: must be empty to be structural",
    ),
    (
        spec(TEXT | {"not": {"description": "no"}}),
        "properties[a].not.description",
        "Forbidden: must be empty to be structural",
    ),
    (
        spec(OBJECT | {"oneOf": [{"properties": {"b": {"pattern": "x"}}}]}),
        "properties[a].properties[b]",
        "Required value: because it is defined in root.properties[a].oneOf[0].properties[b]",
    ),
    (
        spec(TEXT | {"default": 1}),
        "properties[a].default",
        'Invalid value: "integer": ',
    ),
    (
        spec(OBJECT | {"properties": {"b": TEXT}, "default": {"c": 1}}),
        "properties[a].default",
        "must not have unknown fields: ['c']",
    ),
    (
        {"type": "object", "properties": {"kind": TEXT | {"default": "x"}}},
        "properties[kind].default",
        "Forbidden: must not be set in top-level kind",
    ),
]


@pytest.mark.parametrize(("root", "field", "text"), STRUCTURAL, ids=lambda value: str(value)[:50])
def test_schemas_that_are_not_structural(root: dict[str, Any], field: str, text: str) -> None:
    found = {cause.field: cause.message for cause in structural.check(root, "root")}
    assert f"root.{field}" in found
    assert text in found[f"root.{field}"]


@pytest.mark.parametrize(
    "root",
    [
        OBJECT,
        OBJECT | {"x-kubernetes-preserve-unknown-fields": True},
        spec(MAP),
        spec(LIST | {"x-kubernetes-list-type": "set"}),
        spec(
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+$",
            }
        ),
        spec(OBJECT | {"properties": {"b": TEXT}, "oneOf": [{"required": ["b"]}]}),
        spec(TEXT | {"default": None, "nullable": True}),
        {
            "type": "object",
            "properties": {"metadata": OBJECT | {"properties": {"name": TEXT | {"maxLength": 9}}}},
        },
    ],
)
def test_structural_schemas(root: dict[str, Any]) -> None:
    assert structural.check(root, "root") == []


def test_some_keywords_are_refused_at_the_root_with_a_status_subresource() -> None:
    root = OBJECT | {"oneOf": [{"required": ["spec"]}]}
    assert structural.check(root, "root") == []
    (cause,) = structural.check(root, "root", status_subresource=True)
    assert "fields are allowed at the root of the schema if the status subresource" in cause.message


SERVICE = {"name": "n", "namespace": "s", "port": 443}


@pytest.mark.parametrize(
    ("config", "field", "text"),
    [
        ({}, "", "exactly one of url or service is required"),
        ({"url": "https://h", "service": SERVICE}, "", "exactly one of url or service is required"),
        ({"url": "http://h/x"}, ".url", "'https' is the only allowed URL scheme; desired format:"),
        ({"url": "https:///x"}, ".url", "host must be specified; desired format:"),
        ({"url": "https://u@h"}, ".url", "user information is not permitted in the URL"),
        ({"url": "https://h/#x"}, ".url", "fragments are not permitted in the URL"),
        ({"url": "https://h/?x"}, ".url", "query parameters are not permitted in the URL"),
        ({"service": SERVICE | {"port": 0}}, ".service.port", "must be between 1 and 65535"),
        ({"service": SERVICE | {"path": "ab"}}, ".service.path", "must start with a '/'"),
        ({"service": SERVICE | {"path": "//"}}, ".service.path", "segment[0] may not be empty"),
        ({"service": SERVICE | {"path": "/a//"}}, ".service.path", "segment[1] may not be empty"),
        (
            {"service": SERVICE | {"path": "/A"}},
            ".service.path",
            "segment[0]: a lowercase RFC",
        ),
    ],
)
def test_how_a_conversion_webhook_is_called(config: dict[str, Any], field: str, text: str) -> None:
    obj = definition()
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    obj["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    found = faults(obj)
    assert f"spec.conversion.webhookClientConfig{field}" in dict(found)
    assert text in dict(found)[f"spec.conversion.webhookClientConfig{field}"]


@pytest.mark.parametrize(
    ("versions", "field", "text"),
    [
        ([], "", "Required value"),
        (["v7"], "", "must include at least one of v1, v1beta1"),
        (["v1", "v1"], "[1]", "duplicate version"),
        (["v1", "V2"], "[1]", LABEL),
    ],
)
def test_versions_of_conversion_reviews(versions: list[str], field: str, text: str) -> None:
    obj = definition()
    webhook = {"clientConfig": {"service": SERVICE}, "conversionReviewVersions": versions}
    obj["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    ((path, said),) = faults(obj)
    assert path == f"spec.conversion.conversionReviewVersions{field}"
    assert text in said


def test_a_stored_conversion_may_keep_unknown_versions() -> None:
    obj = definition()
    webhook = {"clientConfig": {"service": SERVICE}, "conversionReviewVersions": ["v7"]}
    obj["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    assert faults(clone(obj), obj) == []
