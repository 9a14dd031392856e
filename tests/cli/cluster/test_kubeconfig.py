"""Clusters are written into kubeconfig files of the user without losing anything in them."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from traincrew.cli.cluster.kubeconfig import context_name, merge_into, remove_from, replace_in
from traincrew.cli.errors import BadInput

OURS = {
    "clusters": [{"name": "traincrew", "cluster": {"server": "https://127.0.0.1:4"}}],
    "users": [{"name": "traincrew", "user": {"token": "old"}}],
    "contexts": [
        {"name": "traincrew", "context": {"cluster": "traincrew", "namespace": "default"}}
    ],
}
OTHER = """apiVersion: v1
kind: Config
clusters: [{name: prod, cluster: {server: "https://prod"}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: prod, context: {cluster: prod, user: me}}]
current-context: prod
preferences: {colors: true}
"""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_a_new_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    merge_into(path, OURS, "traincrew")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read(path)["current-context"] == "traincrew"
    assert read(path)["contexts"][0]["context"]["user"] == "traincrew"


def test_other_clusters_stay(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(OTHER)
    merge_into(path, OURS, "traincrew-two")
    merge_into(path, OURS, "traincrew-two")
    merged = read(path)
    assert [entry["name"] for entry in merged["clusters"]] == ["prod", "traincrew-two"]
    assert merged["preferences"] == {"colors": True}
    remove_from(path, "traincrew-two", "https://127.0.0.1:4")
    left = read(path)
    assert {**left, "current-context": "prod"} == yaml.safe_load(OTHER)
    assert left["current-context"] == ""


def test_new_credentials_replace_old_ones_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config"
    new = OURS | {"users": [{"name": "traincrew", "user": {"token": "new"}}]}
    replace_in(path, new, "traincrew", "https://127.0.0.1:4")
    assert not path.exists()
    path.write_text(OTHER)
    merge_into(path, OURS, "traincrew")
    merged = read(path)
    path.write_text(yaml.safe_dump(merged | {"current-context": "prod"}))
    replace_in(path, new, "traincrew", "https://127.0.0.1:5")
    assert read(path)["users"][-1]["user"] == {"token": "old"}
    replace_in(path, new, "traincrew", "https://127.0.0.1:4")
    assert read(path) == merged | {
        "current-context": "prod",
        "users": [*yaml.safe_load(OTHER)["users"], *new["users"]],
    }
    path.write_text("[]")
    replace_in(path, new, "traincrew", "https://127.0.0.1:4")
    assert path.read_text() == "[]"


def test_a_file_of_our_own_is_removed_with_us(tmp_path: Path) -> None:
    path = tmp_path / "config"
    merge_into(path, OURS, "traincrew")
    remove_from(path, "traincrew", "https://127.0.0.1:4")
    assert not path.exists()
    remove_from(path, "traincrew", "https://127.0.0.1:4")


def test_an_entry_of_another_cluster_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    merge_into(path, OURS, "traincrew")
    remove_from(path, "traincrew", "http://127.0.0.1:5/other")
    assert path.exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text(OTHER)
    link = tmp_path / "config"
    link.symlink_to(target)
    merge_into(link, OURS, "traincrew")
    assert link.is_symlink()
    assert len(read(target)["clusters"]) == 2


@pytest.mark.parametrize("text", ["[1, 2]", "text", "clusters: {a: b}", "clusters: [1]", "a: [b"])
def test_a_file_that_is_no_kubeconfig_is_not_modified(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(BadInput, match="is no kubeconfig"):
        merge_into(path, OURS, "traincrew")
    assert path.read_text() == text
    remove_from(path, "traincrew", "https://127.0.0.1:4")
    assert path.read_text() == text


def test_context_names() -> None:
    assert [context_name("default"), context_name("two")] == ["traincrew", "traincrew-two"]
