"""Adds clusters to kubeconfig files of the user, and removes them.

An existing file keeps its contents: only the cluster, user and context of our name are added or
replaced, as other local clusters do it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from traincrew.cli.errors import BadInput
from traincrew.engine import yamlreader

_SECTIONS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


def context_name(cluster: str) -> str:
    """Return the context name of a cluster: ``traincrew``, or ``traincrew-NAME``."""
    return "traincrew" if cluster == "default" else f"traincrew-{cluster}"


def merge_into(path: Path, document: dict[str, Any], name: str) -> None:
    """Add a cluster to a kubeconfig file and make its context the current one.

    Args:
        path: The file; created if it does not exist.
        document: A kubeconfig with one cluster, user and context.
        name: The name of all three.

    Raises:
        BadInput: The file exists and is not a kubeconfig, or it cannot be written.
    """
    merged = _read(path) or {"apiVersion": "v1", "kind": "Config"}
    _put(merged, document, name)
    merged["current-context"] = name
    _write(path, merged)


def replace_in(path: Path, document: dict[str, Any], name: str, server: str) -> None:
    """Update a cluster in a kubeconfig file.

    Args:
        path: The file; ignored if it does not exist or is not a kubeconfig.
        document: As for `merge_into`.
        name: As for `merge_into`.
        server: The current address of the entry; an entry with another one is left unchanged.
    """
    try:
        merged = _read(path)
        if merged and _server(merged, name) == server:
            _put(merged, document, name)
            _write(path, merged)
    except BadInput:
        return


def _server(document: dict[str, Any], name: str) -> str | None:
    """Return the server address of the cluster of that name."""
    entry = next((e for e in document.get("clusters") or [] if e.get("name") == name), None)
    return (entry.get("cluster") or {}).get("server") if entry is not None else None


def _put(merged: dict[str, Any], document: dict[str, Any], name: str) -> None:
    """Add or replace the entries of that name."""
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


def remove_from(path: Path, name: str, server: str) -> None:
    """Remove a cluster from a kubeconfig file; a file that contains nothing else is removed.

    An entry that has another server address by now is left unchanged.
    """
    try:
        document = _read(path)
    except BadInput:
        return
    if not document:
        return
    if _server(document, name) != server:
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
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"cannot read kubeconfig {path}: {error}") from error
    try:
        document = yamlreader.read(text)
    except yamlreader.YamlError as error:
        raise BadInput(f"{yamlreader.explain(str(path), error)}: this is no kubeconfig") from error
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
    target = path.resolve()  # keep a symbolic link
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
