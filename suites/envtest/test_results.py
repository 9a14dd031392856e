"""The table and its page are of what is built."""

from __future__ import annotations

from suites.envtest import results


def test_the_table_has_every_package_that_is_built() -> None:
    found = {(project, package) for project, rows in results.read().items() for package in rows}
    assert found == results.packages()


def test_every_spec_that_fails_has_a_reason() -> None:
    reasons = {
        reason
        for rows in results.read().values()
        for result in rows.values()
        for reason in result.failing
    }
    assert results.NO_REASON not in reasons


def test_the_page_shows_the_table() -> None:
    assert results.shown_page() == "".join(results.page(results.read()))
