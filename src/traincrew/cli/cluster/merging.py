"""Keeps track of the user's kubeconfig files that a cluster was merged into."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.cli.cluster.files import MERGED, all_clusters, home, write_file

if TYPE_CHECKING:
    from traincrew.cli.cluster.files import ClusterFiles
    from traincrew.local.credentials import Credentials

_MAX_BYTES = 65536
"""Of the list of kubeconfig files of another cluster."""


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
    """Return where clusters keep credentials: this user's, and as root those of other users."""
    import msgspec

    from traincrew.local.credentials import Owned, read_owned

    merged = {path for each in all_clusters() for path in _merged_files(each)}
    for cluster in _credentials().clusters():
        content = read_owned(cluster.path / MERGED, cluster.uid, _MAX_BYTES)
        with suppress(msgspec.MsgspecError):
            paths = msgspec.json.decode(content or b"[]", type=list[str])
            merged |= {path for path in paths if Owned(Path(path), cluster.uid).is_true()}
    return [home() / "clusters", *map(Path, sorted(merged))]


@cache
def _credentials() -> Credentials:
    from traincrew.local.credentials import Credentials
    from traincrew.local.directories import default_cache
    from traincrew.local.node import running_nodes

    return Credentials(default_cache(), running_nodes)


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
