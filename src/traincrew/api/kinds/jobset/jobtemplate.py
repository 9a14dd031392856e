"""The schema of a Job template, as batch/v1 has it; the Job itself checks the values."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

MAX_PARALLELISM = 100_000


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found


def _list(items: Schema, kind: str = "atomic") -> Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": kind}


def _texts() -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}}


_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_INT: Schema = {"type": "integer", "format": "int32"}
_COUNT: Schema = {**_INT, "minimum": 0}
_SELECTED = _object(("key", "operator"), key=_TEXT, operator=_TEXT, values=_list(_TEXT))
_EXIT_CODES = _object(
    ("operator", "values"), containerName=_TEXT, operator=_TEXT, values=_list(_INT, "set")
)
_FAILURE_RULE = _object(
    ("action",),
    action=_TEXT,
    onExitCodes=_EXIT_CODES,
    onPodConditions=_list(_object(("type",), type=_TEXT, status=_TEXT)),
)
_SUCCESS_RULE = _object(succeededCount=_INT, succeededIndexes=_TEXT)

JOB_FIELDS: dict[str, Schema] = {
    "activeDeadlineSeconds": {"type": "integer", "format": "int64"},
    "backoffLimit": _COUNT,
    "backoffLimitPerIndex": _COUNT,
    "completionMode": _TEXT,
    "completions": _COUNT,
    "managedBy": _TEXT,
    "manualSelector": _FLAG,
    "maxFailedIndexes": _COUNT,
    "parallelism": _COUNT,
    "podFailurePolicy": _object(("rules",), rules=_list(_FAILURE_RULE)),
    "podReplacementPolicy": _TEXT,
    "selector": _object(matchLabels=_texts(), matchExpressions=_list(_SELECTED)),
    "successPolicy": _object(("rules",), rules=_list(_SUCCESS_RULE)),
    "suspend": _FLAG,
    "ttlSecondsAfterFinished": _COUNT,
}
"""The fields of a Job's ``spec`` beside its pod template."""
JOB_TEMPLATE = _object(
    ("spec",),
    metadata=_object(
        annotations=_texts(),
        finalizers={"type": "array", "items": _TEXT},
        labels=_texts(),
        name=_TEXT,
        namespace=_TEXT,
    ),
    spec=_object(
        ("template",),
        **JOB_FIELDS,
        template={"x-pod-template": {}},
    ),
)
"""The schema; its pod template has a placeholder, as in the fields of other kinds."""
