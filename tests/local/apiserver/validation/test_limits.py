"""Limits of sizes, and texts of a library that differ from Go's; all else is recorded."""

import base64
from typing import Any

import pytest

from local.apiserver.support import Api

NAMESPACED = "/api/v1/namespaces/default"
LARGE = "x" * (1024 * 1024 + 1)


@pytest.mark.parametrize(
    ("plural", "body", "field", "message"),
    [
        ("configmaps", {"data": {"big": LARGE}}, "[]", "may not be more than 1048576 bytes"),
        (
            "secrets",
            {"data": {"big": base64.b64encode(LARGE.encode()).decode()}},
            "data",
            "may not be more than 1048576 bytes",
        ),
        (
            "configmaps",
            {"metadata": {"name": "x", "annotations": {"a": "x" * 262144}}},
            "metadata.annotations",
            "may not be more than 262144 bytes",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}},
            "data[.dockerconfigjson]",
            'Invalid value: "<secret contents redacted>"',
        ),
    ],
)
async def test_what_is_too_long_or_no_json_is_refused(
    api: Api, plural: str, body: dict[str, Any], field: str, message: str
) -> None:
    answer = await api.post(f"{NAMESPACED}/{plural}", {"metadata": {"name": "x"}} | body)
    (cause,) = answer.refused(422, "Invalid")["details"]["causes"]
    assert cause["field"] == field
    assert message in cause["message"]
