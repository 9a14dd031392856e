"""Files of runs that are kept for a day: how long, how many, and for whom."""

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from traincrew.cli.main import cli
from traincrew.cli.run import kept
from traincrew.cli.run.kept import Kept, kept_runs
from traincrew.cli.run.results import Results
from traincrew.local.node import ClaimContents, Collected, Written


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(name: str = "digits", content: str = "model") -> tuple[Path, str]:
    """A run whose only pod wrote a file; return where it is kept, and the last line."""
    of_run = Kept(f"ChainerJob {name}")
    results = Results([], "default", of_run)
    results.prepare()
    to = of_run.directory / "default" / "p" / "main" / "0"
    if content:
        (to / "result").mkdir(parents=True)
        (to / "result" / "model").write_text(content)
    copy = Collected("/", str(to), int(bool(content)), len(content))
    paths = [("/result", 1, len(content))] if content else []
    written = Written(("default", "p", "main"), paths=paths, collected=[copy])
    lines = results.lines([written], [])
    results.remove()
    return of_run.directory, lines[-1].text if lines else ""


def test_they_are_listed_and_removed(cache: Path) -> None:
    directory, line = run()
    assert line == (
        f"Kept for a day in {directory}: 1 file, 5 B, outside volumes (/result of pod p)."
        " To save that yourself: --output DIR:/result"
    )
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent == cache / "kept"
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    said = CliRunner().invoke(cli, ["runs"]).output
    assert said.startswith("ChainerJob digits, ")
    assert f"ago: 1 file, 5 B\n  {directory}\n" in said
    assert CliRunner().invoke(cli, ["runs", "--remove"]).output == "removed the files of 1 run\n"
    assert not directory.exists()
    assert CliRunner().invoke(cli, ["runs"]).output == "no files of runs are kept\n"


def test_only_the_last_runs_of_a_day_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    found = []
    for number in range(5):
        monkeypatch.setattr(time, "strftime", lambda _, number=number: f"20260101-00000{number}")
        found.append(run()[0])
    assert [each.exists() for each in found] == [False, False, True, True, True]
    monkeypatch.setattr(time, "time", lambda: now + kept.KEPT_SECONDS + 60)
    assert kept_runs() == []
    assert not any(each.exists() for each in found)


def test_a_run_that_wrote_nothing_leaves_nothing(cache: Path) -> None:
    directory, line = run(content="")
    assert line == ""
    assert not directory.exists()
    assert kept_runs() == []


def test_a_run_that_lasts_longer_than_a_day_keeps_its_directory() -> None:
    of_run = Kept("ChainerJob digits")
    assert of_run.prepare()
    old = time.time() - 2 * kept.KEPT_SECONDS
    os.utime(of_run.directory, (old, old))
    assert kept_runs() == []
    assert of_run.directory.exists()
    of_run.finish(1, 1)
    assert len(kept_runs()) == 1


def test_a_run_that_others_overtake_keeps_its_directory() -> None:
    running = Kept("ChainerJob slow")
    assert running.prepare()
    for _ in range(kept.MOST_RUNS + 2):
        run()
    assert running.directory.is_dir()
    running.finish(0, 0)


def test_a_claim_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    of_run = Kept("ChainerJob digits")
    results = Results([], "default", of_run)
    results.prepare()
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_text(name)
    claims = [
        ClaimContents("default", "small", tmp_path / "small", 1, 5, True),
        ClaimContents("default", "large", tmp_path / "large", 1, kept.MOST_BYTES, True),
    ]
    (line,) = [each.text for each in results.lines([], claims)]
    assert line.startswith("Kept for a day (not all of it: it is too much) in ")
    assert (of_run.directory / "claims/default/small/data").read_text() == "small"
    assert not (of_run.directory / "claims/default/large").exists()


def test_where_nothing_can_be_kept_that_is_said_at_the_start(cache: Path) -> None:
    cache.mkdir()
    (cache / "kept").write_text("in the way")
    results = Results([], "default", Kept("ChainerJob digits"))
    results.prepare()
    assert results.keep is None
    assert results.warning.startswith("files that pods write are discarded at the end")
