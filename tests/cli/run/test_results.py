"""`traincrew run --output`: results that are saved, and the line about those that are not."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.run.podfiles import job
from traincrew.cli.main import cli
from traincrew.cli.run.results import Output, Results, _move
from traincrew.local.node import ClaimContents, Collected, Written


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "o:relative"], "begin it with '/'"),
        (["--output", ":/x"], "has no directory"),
        (["--output", "job.yaml"], "is not a directory"),
        (["--output", "job.yaml/x"], "cannot write to"),
        (["--output", "o", "--output", "o:/x"], "name a directory for each"),
        (["--output", "o", "--output", "p"], "both save all PersistentVolumeClaims"),
        (["--output", "o:/x/y", "-v", ".:/x"], "on this machine already"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    tmp_path: Path, options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", "-f", str(path), *options])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "--output" in result.output


def saved(directory: Path, *written: Written) -> tuple[Results, list[str]]:
    results = Results([Output(directory / "out", "/r", "out:/r")], "default")
    return results, [line.text for line in results.lines(written, [])]


def collected(directory: Path, pod: str, *, container: str = "main", number: int = 0,
              problem: str = "", content: str = "") -> Written:  # fmt: skip
    to = directory / "staging" / pod / container / str(number)
    if content:
        to.mkdir(parents=True)
        (to / "file").write_text(content)
    one = Collected("/r", str(to), int(bool(content)), len(content), problem)
    return Written(("default", pod, container), number, collected=[one])


def test_the_last_attempt_that_wrote_something_counts(tmp_path: Path) -> None:
    results, lines = saved(
        tmp_path,
        collected(tmp_path, "a", content="first"),
        collected(tmp_path, "a", number=1, content="second"),
        collected(tmp_path, "a", number=2),
        collected(tmp_path, "b"),
    )
    assert not results.problem
    assert lines[0].endswith("out: 1 file, 6 B (/r of pod a)")
    assert (tmp_path / "out" / "file").read_text() == "second"


def test_containers_of_several_pods_have_directories_of_their_own(tmp_path: Path) -> None:
    saved(
        tmp_path,
        collected(tmp_path, "a", content="1"),
        collected(tmp_path, "a", container="side", content="2"),
        collected(tmp_path, "b", content="3"),
    )
    found = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("file")}
    assert found == {"a/main/file", "a/side/file", "b/file"}


def test_files_that_cannot_be_saved_are_a_problem(tmp_path: Path) -> None:
    broken = "/r/x: No space left on device\x1b[2J"
    results, lines = saved(tmp_path, collected(tmp_path, "a", problem=broken))
    assert results.problem
    said = "--output out:/r: not everything is saved: a: /r/x: No space left on device?[2J"
    assert lines == [said]


def test_missing_output_is_reported(tmp_path: Path) -> None:
    results, lines = saved(tmp_path, collected(tmp_path, "a"))
    assert not results.problem
    assert lines == ["--output out:/r: no pod wrote anything to /r"]


def test_names_from_pods_cannot_change_the_terminal() -> None:
    report = Written(("default", "p", "main"), files=1, paths=[("/a\x1b[2J\n", 1, 1)])
    claim = ClaimContents("default", "data", Path("/x"), 0, 0, True)
    (line,) = Results([], "default").lines([report], [claim])
    assert line.text == (
        "Discarded: 1 file, 1 B, outside volumes (/a?[2J? of pod p). "
        "To keep that: --output DIR:/a?[2J?"
    )


def test_moving_follows_no_link_of_an_earlier_run(tmp_path: Path) -> None:
    new, out, elsewhere = tmp_path / "new", tmp_path / "out", tmp_path / "elsewhere"
    (new / "sub").mkdir(parents=True)
    (new / "sub" / "file").write_text("new")
    (new / "single").write_text("new")
    out.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("old")
    (out / "sub").symlink_to(elsewhere)
    (out / "single").symlink_to(elsewhere / "kept")
    _move(new, out)
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert (elsewhere / "kept").read_text() == "old"
    assert (out / "sub" / "file").read_text() == "new"
