"""Writes clusters into kubeconfig files of the user, and takes them out again.

A file that is there keeps everything in it: only the cluster, user and context of our name are
added or replaced, as other local clusters do it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from traincrew.cli.main import BadInput

_SECTIONS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


def context_name(cluster: str) -> str:
    """The context of a cluster: ``traincrew``, or ``traincrew-NAME``."""
    return "traincrew" if cluster == "default" else f"traincrew-{cluster}"


def merge_into(path: Path, document: dict[str, Any], name: str) -> None:
    """Add a cluster to a kubeconfig file and make its context the current one.

    Args:
        path: The file; made if it is not there.
        document: A kubeconfig with one cluster, user and context.
        name: What to call all three.

    Raises:
        BadInput: The file is there and is not a kubeconfig, or it cannot be written.
    """
    merged = _read(path) or {"apiVersion": "v1", "kind": "Config"}
    ours = {
        "clusters": {"name": name, "cluster": document["clusters"][0]["cluster"]},
        "users": {"name": name, "user": document["users"][0].get("user") or {}},
        "contexts": {
            "name": name,
            "context": {**document["contexts"][0]["context"], "cluster": name, "user": name},
        },
    }
    for section, _ in _SECTIONS:
        others = [entry for entry in merged.get(section) or [] if entry.get("name") != name]
        merged[section] = [*others, ours[section]]
    merged["current-context"] = name
    _write(path, merged)


def remove_from(path: Path, name: str, server: str) -> None:
    """Take a cluster out of a kubeconfig file; a file that had nothing else is removed.

    Nothing happens if the entry of that name meanwhile means another server.
    """
    try:
        document = _read(path)
    except BadInput:
        return
    if not document:
        return
    entry = next((e for e in document.get("clusters") or [] if e.get("name") == name), None)
    if entry is None or (entry.get("cluster") or {}).get("server") != server:
        return
    for section, _ in _SECTIONS:
        document[section] = [e for e in document.get(section) or [] if e.get("name") != name]
    if document.get("current-context") == name:
        document["current-context"] = ""
    if any(document[section] for section, _ in _SECTIONS):
        _write(path, document)
    else:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read kubeconfig {path}: {error}") from error
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInput(f"{path} is no kubeconfig: {error}") from error
    if document is None:
        return None
    sections = [document.get(s) or [] for s, _ in _SECTIONS] if isinstance(document, dict) else [0]
    if not all(
        isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
        for entries in sections
    ):
        raise BadInput(f"{path} is no kubeconfig; give a file that is one, or that is not there")
    return dict(document)


def _write(path: Path, document: dict[str, Any]) -> None:
    target = path.resolve()  # a link stays a link
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise BadInput(f"cannot write kubeconfig {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            yaml.safe_dump(document, file, sort_keys=False)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
