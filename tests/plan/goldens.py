"""Children of a job as YAML, compared with a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import yaml

from traincrew.api.meta import Owner

if TYPE_CHECKING:
    from pathlib import Path


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> Any:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def owner_of(job: dict[str, Any], uid: str = "8c2f4f1e") -> Owner:
    """Return the owner of the children of a job."""
    return Owner(
        api_version=job["apiVersion"],
        kind=job["kind"],
        name=job["metadata"]["name"],
        namespace="default",
        uid=uid,
        labels=job["metadata"].get("labels", {}),
    )


def assert_golden(golden: Path, documents: list[dict[str, Any]]) -> None:
    """Compare documents with a file, or write the file if `REGENERATE` is set."""
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100)
    if os.environ.get("REGENERATE"):
        golden.write_text(text)

    assert text == golden.read_text()
