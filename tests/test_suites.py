"""Which suites a run has, and what becomes of suite tests that fail."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from suites import parts, repeats, scratch
from suites.repeats import Known
from suites.results import Failure, Results
from suites.scenarios.all_scenarios import SCENARIOS

ROOT = Path(__file__).parents[1]
PLAN = parts.read()
FILES = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("suites/**/test_*.py")}
UNITS = {*PLAN.always, *PLAN.seconds}
SCENARIO = f"{parts.SCENARIOS}[mpi]"


def results(passed: int, *failed: str) -> Results:
    """Return the results of a run in which these tests failed."""
    return Results(passed=passed, failures=tuple(Failure(each, f"of {each}") for each in failed))


# -- parts -------------------------------------------------------------------------------------


def test_every_suite_is_in_the_table() -> None:
    scenarios = {f"{parts.SCENARIOS}[{name}]" for name in SCENARIOS}
    assert FILES | scenarios == UNITS, "write it by python -m suites run --record"


def test_every_suite_has_its_turn_and_what_is_always_run_always_runs() -> None:
    turns = [parts.chosen(PLAN, UNITS, part) for part in range(parts.PARTS)]

    assert set.union(*turns) == UNITS
    assert set.intersection(*turns) == PLAN.always


def test_parts_take_about_the_same_time() -> None:
    units = parts.part_of(PLAN)
    for lane in ("real", "embedded"):
        turning = [unit for unit in units if parts.lane_of(unit) == lane]
        longest = max(PLAN.seconds[unit] for unit in turning)
        sums = [
            sum(PLAN.seconds[unit] for unit in turning if units[unit] == part)
            for part in range(parts.PARTS)
        ]
        assert max(sums) - min(sums) <= longest


def test_a_suite_that_nobody_has_measured_runs() -> None:
    for part in range(parts.PARTS):
        assert parts.chosen(PLAN, ["suites/new/test_new.py"], part) == {"suites/new/test_new.py"}


def test_the_three_tests_of_a_scenario_are_one_unit() -> None:
    tests = [f"{parts.SCENARIOS}::test_{each}[mpi]" for each in ("embedded", "real", "same")]
    assert {parts.unit_of(test) for test in tests} == {SCENARIO}
    assert parts.unit_of("suites/cli/test_up.py::test_a[b]") == "suites/cli/test_up.py"


def test_the_real_cluster_is_one_group_and_every_other_directory_is_one() -> None:
    assert parts.group_of("suites/real/test_page.py") == parts.group_of(SCENARIO) == "real"
    assert parts.group_of("suites/kubectl/comparison/test_comparison.py") == "real"
    assert parts.group_of("suites/kubectl/test_kubectl.py") == "suites/kubectl"


def test_the_real_cluster_begins_first_and_then_what_takes_longest() -> None:
    slow, other, last = "suites/a/test_slow.py", "suites/b/test_other.py", "suites/c/test_new.py"
    plan = PLAN._replace(seconds={slow: 90, other: 50, "suites/real/test_page.py": 10})
    groups = {
        "suites/c": [last],
        "suites/b": [other, other],  # a unit for each of its tests
        "suites/a": [slow],
        "real": ["suites/real/test_page.py"],
    }
    order = []
    while groups:
        order.append(parts.first(plan, groups))
        del groups[order[-1]]
    assert order == ["real", "suites/a", "suites/b", "suites/c"]


def test_a_part_builds_what_its_suites_need_and_no_more() -> None:
    table = {"suites/a/": ("x", "y"), "suites/a/test_b.py": ("y", "z"), "suites/c/": ("w",)}
    assert parts.needed(table, ["suites/a/test_b.py"]) == ["x", "y", "z"]
    assert parts.needed(table, ["suites/a/test_a.py", "suites/c/test_c.py"]) == ["x", "y", "w"]


def test_builds_are_for_suites_that_exist() -> None:
    for beginning in {*PLAN.programs, *PLAN.images}:
        assert any(unit.startswith(beginning) for unit in UNITS), beginning


def test_seconds_are_recorded_beside_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "parts.toml"
    path.write_text('always = ["a"]\n[builds.a]\nprograms = ["p"]\n[seconds]\n"a" = 1\n"b" = 2\n')

    parts.record({"b[x]": 2.6, "b": 3.2}, path)

    assert parts.read(path).seconds == {"a": 1, "b": 3, "b[x]": 3}
    assert parts.read(path).programs == {"a": ("p",)}


# -- tests that failed -------------------------------------------------------------------------


def test_a_run_without_failures_repeats_nothing() -> None:
    verdict = repeats.judge(results(5), None)
    assert (verdict.exit_code, verdict.passed, verdict.flaky) == (0, 5, [])
    assert repeats.report(verdict, [], date(2026, 1, 2)) == ""


def test_what_passes_when_it_is_run_again_is_flaky_and_no_failure() -> None:
    first = results(5, "suites/a.py::test_b")
    assert repeats.to_repeat(first) == ["suites/a.py::test_b"]

    verdict = repeats.judge(first, results(1))

    assert (verdict.exit_code, verdict.passed, verdict.failed) == (0, 6, [])
    report = repeats.report(verdict, [], date(2026, 1, 2))
    assert "of suites/a.py::test_b" in report, "the first failure is shown in full"
    assert 'test = "suites/a.py::test_b"\nseen = 2026-01-02\n' in report


def test_what_fails_twice_has_failed() -> None:
    verdict = repeats.judge(results(5, "a", "b"), results(1, "b"))
    assert verdict.exit_code == 1
    assert verdict.failed_tests == ["b"]
    assert [each.test for each in verdict.flaky] == ["a"]


@pytest.mark.parametrize("again", [None, results(0), results(1)])
def test_what_was_not_run_again_has_failed(again: Results | None) -> None:
    verdict = repeats.judge(results(5, "a", "b"), again)
    assert verdict.exit_code == 1
    assert verdict.failed_tests == ["a", "b"]


def test_more_than_three_flaky_tests_are_no_chance() -> None:
    three, four = ("a", "b", "c"), ("a", "b", "c", "d")
    assert repeats.judge(results(5, *three), results(3)).exit_code == 0
    verdict = repeats.judge(results(5, *four), results(4))
    assert verdict.exit_code == 1
    assert "4 are no chance" in repeats.report(verdict, [], date(2026, 1, 2))


def test_the_tests_of_a_scenario_count_once() -> None:
    tests = [
        f"{parts.SCENARIOS}::test_{each}[{name}]"
        for each in ("embedded", "same")
        for name in ("mpi", "training")
    ]
    assert repeats.judge(results(5, *tests), results(4)).exit_code == 0


def test_nothing_is_run_again_when_much_has_failed() -> None:
    many = [f"test_{number}" for number in range(repeats.MOST_REPEATED + 1)]
    assert repeats.to_repeat(results(5, *many)) == []
    assert repeats.judge(results(5, *many), None).exit_code == 1


def test_a_test_that_is_listed_is_to_be_mended() -> None:
    known = [Known("a", date(2026, 1, 1), "a port was taken")]
    report = repeats.report(repeats.judge(results(5, "a"), results(1)), known, date(2026, 1, 2))
    assert "mend or remove a" in report
    assert "[[flaky]]" not in report


def test_a_test_is_listed_once(tmp_path: Path) -> None:
    path = tmp_path / "flaky.toml"
    entry = '[[flaky]]\ntest = "a"\nseen = 2026-01-02\ncause = "c"\n'
    path.write_text(entry)
    assert repeats.read(path) == [Known("a", date(2026, 1, 2), "c")]
    path.write_text(entry * 2)
    with pytest.raises(ValueError, match="mend or remove what was flaky twice: a"):
        repeats.read(path)


def test_listed_tests_exist() -> None:
    for entry in repeats.read():
        path, _, name = entry.test.partition("::")
        function = re.sub(r"\[.*", "", name).rpartition("::")[2]
        assert f"def {function}(" in (ROOT / path).read_text(), entry.test
        assert len(entry.cause) > 20, "say what was found"


# -- the directory of a run --------------------------------------------------------------------


def test_a_run_removes_its_directory_and_those_of_runs_that_were_killed(tmp_path: Path) -> None:
    killed = tmp_path / "suites-killed"
    (killed / "images").mkdir(parents=True)

    with scratch.directory(tmp_path) as made:
        (made / "large").write_text("")
        assert set(tmp_path.iterdir()) == {made}

    assert not list(tmp_path.iterdir())


def test_a_run_leaves_the_directories_of_runs_beside_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("")
    (tmp_path / "suites-link").symlink_to(elsewhere)

    with scratch.directory(tmp_path) as one:
        (one / "results").write_text("")
        with scratch.directory(tmp_path) as other:
            assert other != one
        assert (one / "results").exists()

    assert (elsewhere / "kept").exists()


def test_a_run_says_when_space_may_be_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEEDED_BYTES", 0)
    assert scratch.shortage(tmp_path) is None

    monkeypatch.setattr(scratch, "NEEDED_BYTES", 2**70)
    assert (scratch.shortage(tmp_path) or "").startswith("warning: ")
