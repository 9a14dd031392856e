"""Generates the reference page of kube-openmpi's values."""

from __future__ import annotations

import json
from typing import Any

from traincrew.api.kinds.mpicluster.convert import fields
from traincrew.api.kinds.mpicluster.values import NO_EFFECT, ChartValues, defaults
from traincrew.api.kinds.mpicluster.valuescheck import described

FILE = "mpicluster-values.md"

_INTRODUCTION = """\
# Values of kube-openmpi

<!-- Generated from the types by hack/reference.py; change those, not this page. -->

The keys of kube-openmpi 0.7.0, with `transport` and `appCodesToSync[].updateEvery`, which are new,
and the field of an [MPICluster](mpicluster.md) that each becomes.
The chart `charts/kube-openmpi` and [`traincrew mpi`](cli.md#mpi) read the same values files, and
make the same MPICluster of them. Files are merged as Helm does it: mappings key by key, later files
win, and `null` removes a default. A key that is not in the table is refused.

| key | default | becomes, in `spec` | |
|---|---|---|---|
"""
_REST = """
`containers[]` is the container `mpi-master` or `mpi-worker`. What else pods need (init containers,
environment variables, annotations), slots, and the policies for deadlines, retries and cleaning up
have no key: write an [MPICluster](mpicluster.md), for which the output of `traincrew mpi` is a
start.
"""


def page() -> str:
    """Return the page, in Markdown."""
    usual = defaults()
    keys = list(described(ChartValues, ""))
    sections = {key.rpartition(".")[0] for key, _ in keys}
    rows = "".join(
        f"| `{key}` | {_default(usual, key)} | {_fields(key)} | {about} |\n"
        for key, about in keys
        if _is_shown(key, about, sections)
    )
    return f"{_INTRODUCTION}{rows}{_REST}"


def _is_shown(key: str, about: str, sections: set[str]) -> bool:
    """Return whether a key has a row: each that has a value, but one for those without effect."""
    if about == NO_EFFECT:
        return "." not in key
    return key not in sections


def _default(usual: dict[str, Any], key: str) -> str:
    node: Any = usual
    for step in key.split("."):
        if step.endswith("[]"):
            return ""
        node = node[step]
    if isinstance(node, dict) or node in ("", []):
        return ""
    if isinstance(node, str):
        return "`mpiexec …`" if "\n" in node else f"`{node}`"
    return f"`{json.dumps(node)}`"


def _fields(key: str) -> str:
    return ", ".join(f"`{field}`" for field in fields().get(key, ()))
