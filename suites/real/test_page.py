"""`traincrew ui` beside a real cluster: an ElasticJob is scaled while it trains."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml
from suites.pages import PageProcess, Window, browser, scaled_while_it_trains

from hack import images
from traincrew.operator.manifests import render
from traincrew.operator.manifests.values import parse

from .install_support import ROOT, User, namespace, uninstall, volume_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster
    from selenium import webdriver

__all__ = ["browser"]

SPACE = "digits"
EXAMPLE = ROOT / "examples" / "elastic" / "elasticjob.yaml"
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def user(cluster: RealCluster, tmp_path: Path) -> Iterator[User]:
    """A user of an operator that receives reports, with a volume for the example's claim."""
    cluster.load_images([images.build("torch")])
    uninstall(cluster)
    path = tmp_path / "operator.yaml"
    path.write_text("---\n".join(render(parse({"progress": {"enabled": True}})).values()))
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    checkpoints.chmod(0o777)
    claim, _ = yaml.safe_load_all(EXAMPLE.read_text())
    volume = volume_of(claim, SPACE, checkpoints)
    with namespace(cluster, SPACE) as found:
        cluster.kubectl("create", "-f", str(path))
        try:
            found.create(volume)
            found.rolled_out()
            yield found
        finally:
            cluster.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")
            uninstall(cluster)
            cluster.kubectl("delete", "-f", str(path), "--ignore-not-found", "--timeout=180s")


def test_an_elastic_job_is_scaled_while_it_trains(
    browser: webdriver.Chrome, user: User, tmp_path: Path
) -> None:
    user.kubectl("create", "-f", str(EXAMPLE))
    page = PageProcess(os.environ, "--kubeconfig", str(user.cluster.kubeconfig), "-n", SPACE)
    try:
        window = Window(browser, page)
        window.resize(1280, 1100)
        window.open()
        window.show(f"ElasticJob.elastic.pytorch.org/{SPACE}/digits")

        def scale() -> None:
            user.kubectl("scale", "elasticjob", "digits", "--replicas=3")

        scaled_while_it_trains(window, scale, "page-scaled-real", tmp_path)
        nodes = {node.name for node in user.cluster.nodes}
        assert {name for name in nodes if name in window.text(".few-pods")} == nodes
        window.driver.get("about:blank")
        assert window.complaints() == []
    finally:
        assert page.end() == 0
