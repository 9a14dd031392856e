"""What a new user sees who runs the examples in one terminal and the page in another."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from suites.pages import TRAINCREW, PageProcess, Window, scaled_while_it_trains, until

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

    import traincrew

ROOT = Path(__file__).parents[2]
MAKE_RUN = "examples/chainer/chainerjob-mn.yaml"
"""What `make run` runs."""
ELASTIC = ROOT / "examples" / "elastic" / "elasticjob.yaml"
pytestmark = pytest.mark.timeout(1200)


@contextmanager
def run_beside(home: Path, manifest: str) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """`traincrew run` of a user without clusters, from when it says how to see the job."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "TRAINCREW_HOME": str(home / "clusters"),
        "TRAINCREW_CACHE": str(default_cache()),
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("KUBECONFIG", None)
    with subprocess.Popen(
        [TRAINCREW, "run", "-f", manifest],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert any("to see it in a browser: " in line for line in process.stdout)
            yield environment, process
        finally:
            process.terminate()


def test_make_run_shows_how_the_accuracy_rises(browser: webdriver.Chrome, tmp_path: Path) -> None:
    assert f"run -f {MAKE_RUN}\n" in (ROOT / "Makefile").read_text()
    with run_beside(tmp_path, MAKE_RUN) as (environment, run):
        page = PageProcess(environment)
        window = Window(browser, page)
        window.resize(1280, 1180)
        window.open()
        # The only job is shown at once.
        window.until_text("digits-mn", "h1")
        assert run.stdout is not None
        assert "ChainerJob digits-mn: Succeeded" in run.stdout.read()
        assert run.wait() == 0

        # The cluster is gone, and the page has kept what it showed.
        window.until_text("The run has ended, and its cluster with it.", "#connection")
        window.until_text("Succeeded", "h1")
        window.until_text("100 % done")
        accuracy = "validation accuracy"
        until(lambda: window.curve(accuracy), "a curve")
        until(lambda: "reported" not in window.curve(accuracy).text, "printed values are enough")
        assert window.value_at(accuracy, 0) < 0.85
        assert window.value_at(accuracy, 1) > 0.95
        window.until_text("validation accuracy: 0.9", ".log")
        window.until_text("ws0 1", ".timeline")
        assert window.find(".problem") == []
        window.driver.execute_script("window.scrollTo(0, 0)")
        window.picture("page-run", tmp_path)

        # A second window sees the same.
        window.open()
        window.until_text("The run has ended", "#connection")
        window.driver.get("about:blank")
        assert page.end() == 0
        assert window.complaints() == []


def test_an_elastic_job_is_scaled_while_it_trains(
    window: Window, cluster: traincrew.LocalCluster, tmp_path: Path
) -> None:
    documents = list(yaml.safe_load_all(ELASTIC.read_text()))
    for document in documents:
        cluster.client.create(document)
    window.resize(1280, 1100)
    window.show("ElasticJob.elastic.pytorch.org/default/digits")
    worker = {"replicaSpecs": {"Worker": {"replicas": 3}}}

    def scale() -> None:
        cluster.client.patch("elasticjob", "digits", {"spec": worker})

    scaled_while_it_trains(window, scale, "page-scaled", tmp_path)
    for document in documents:
        cluster.client.delete(document["kind"], document["metadata"]["name"])
