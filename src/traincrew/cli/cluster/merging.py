"""Keeps track of the user's kubeconfig files that a cluster was merged into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.cli.cluster.files import all_clusters, home, write_file

if TYPE_CHECKING:
    from traincrew.cli.cluster.files import ClusterFiles


def merge(files: ClusterFiles, path: Path) -> None:
    """Merge a cluster into a kubeconfig file of the user."""
    from traincrew.cli.cluster.kubeconfig import context_name, merge_into
    from traincrew.engine import yamlreader

    document = yamlreader.read(files.kubeconfig.read_bytes())
    merge_into(path, document, context_name(files.name))
    merged = _merged_files(files)
    if str(path) not in merged:
        write_file(files.merged, [*merged, str(path)])


def refresh(files: ClusterFiles, server: str | None) -> None:
    """Update the cluster's credentials in the user's kubeconfig files.

    They are replaced if an earlier version may have exposed them to others.

    Args:
        files: The cluster.
        server: Its previous address; entries with another one are not ours.
    """
    from traincrew.cli.cluster.kubeconfig import context_name, replace_in
    from traincrew.engine import yamlreader

    paths = _merged_files(files) if server else []
    for path in paths:
        document = yamlreader.read(files.kubeconfig.read_bytes())
        replace_in(Path(path), document, context_name(files.name), str(server))


def unmerge(files: ClusterFiles) -> None:
    """Remove a cluster from the kubeconfig files it was merged into."""
    from traincrew.cli.cluster.kubeconfig import context_name, remove_from

    merged = _merged_files(files)
    server = server_of(files) if merged else None
    if server is None:
        return
    for path in merged:
        remove_from(Path(path), context_name(files.name), server)


def credential_files() -> list[Path]:
    """Return where the user's clusters, all of them, keep credentials."""
    merged = {path for each in all_clusters() for path in _merged_files(each)}
    return [home() / "clusters", *map(Path, sorted(merged))]


def server_of(files: ClusterFiles) -> str | None:
    """Return the server address in the cluster's own kubeconfig."""
    from traincrew.engine import yamlreader

    try:
        document = yamlreader.read(files.kubeconfig.read_bytes())
        return str(document["clusters"][0]["cluster"]["server"])
    except (OSError, yamlreader.YamlError, LookupError, TypeError):
        return None


def _merged_files(files: ClusterFiles) -> list[str]:
    """Return the kubeconfig files of the user that a cluster was merged into."""
    try:
        return list(json.loads(files.merged.read_text()))
    except (OSError, ValueError):
        return []
