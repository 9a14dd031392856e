"""Random files of every kind that is read: taken, or refused with a reason."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from suites.differential.random_choice import RandomChoice

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import load
from traincrew.cli.manifest.valuesfiles import load_values
from traincrew.engine.config import load_config
from traincrew.engine.errors import ConfigError
from traincrew.local.images.catalog import SHIPPED_CATALOG, load_catalogs
from traincrew.local.images.errors import CatalogError
from traincrew.operator import accelerators

from . import mutations, yamls
from .requests import own_kinds
from .seeds import VARIABLE, seed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = 150
"""Files of each kind."""
KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    "clusters": [
        {
            "name": "c",
            "cluster": {
                "server": "https://127.0.0.1:6443",
                "certificate-authority-data": base64.b64encode(b"x").decode(),
                "tls-server-name": "x",
                "proxy-url": "http://127.0.0.1:1",
            },
        }
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "token": "t",
                "client-certificate-data": "eA==",
                "client-key-data": "eA==",
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "/nowhere",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                    "interactiveMode": "Never",
                },
            },
        }
    ],
}


def _text(choice: RandomChoice, document: Any) -> bytes:
    if choice.maybe():
        document = mutations.mutated(choice, document)
        return mutations.json_body(choice, document)
    return yamls.text(choice, document).encode("utf-8", "surrogatepass")


def _read_all(
    path: Path, documents: list[Any], read: Callable[[Path], object], *refused: type[Exception]
) -> None:
    first = seed()
    for number in range(FILES):
        choice = RandomChoice(first * 1_000_003 + number)
        path.write_bytes(_text(choice, choice.one(documents)))
        try:
            read(path)
        except refused:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not get to a user
            shown = path.read_bytes()[:2_000]
            pytest.fail(f"{VARIABLE}={first}, number {number}: {error!r}\n{shown!r}")


def test_random_kubeconfigs(tmp_path: Path) -> None:
    _read_all(tmp_path / "config", [KUBECONFIG], lambda path: load_config(str(path)), ConfigError)


def test_random_manifests(tmp_path: Path) -> None:
    documents = [document for _, document in own_kinds()]
    _read_all(
        tmp_path / "job.yaml", documents, lambda path: load([str(path)]), click.ClickException
    )


def test_random_values_files(tmp_path: Path) -> None:
    documents = [{"image": {"name": "a", "tag": "1"}, "mpiWorkers": {"num": 3, "resources": {}}}]
    _read_all(tmp_path / "values.yaml", documents, lambda path: load_values([str(path)]), BadInput)


def test_random_configurations_of_accelerators(tmp_path: Path) -> None:
    volume = {"name": "lib", "hostPath": "/lib", "mountPath": "/lib"}
    accelerator = {"volumes": [volume], "envVars": [{"name": "A", "value": "b"}]}
    documents = [{"accelerators": {"nvidia.com/gpu": accelerator}, "grpcServerFilePath": "/x"}]
    path = tmp_path / "accelerators.yaml"
    _read_all(path, documents, accelerators.read, accelerators.AcceleratorsError)


def test_random_environments_files(tmp_path: Path) -> None:
    shipped = yaml.safe_load(SHIPPED_CATALOG.read_text())
    _read_all(tmp_path / "images.yaml", [shipped], lambda path: load_catalogs([path]), CatalogError)
