"""Every command prints the same on both clusters, or has named differences.

One version of kubectl, chosen by `variation`; `python -m suites.kubectl.comparison` compares all.
"""

from collections.abc import Iterator

import pytest
from hack.cluster import RealCluster
from hack.kubectls import Unavailable

import variation

from . import clusters, known_differences, page

MINOR = clusters.MINORS[variation.NUMBER % len(clusters.MINORS)]


@pytest.fixture(scope="module")
def findings(real_cluster: RealCluster) -> list[clusters.Finding]:
    """The compared output of every command."""
    try:
        return clusters.run(real_cluster, (MINOR,))
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.fixture(scope="module")
def differences() -> list[known_differences.Known]:
    """The intended differences."""
    return known_differences.load()


def unexplained(
    findings: list[clusters.Finding], differences: list[known_differences.Known]
) -> Iterator[str]:
    for found in findings:
        for line in found.differences:
            if not any(each.covers(found.command.text, line) for each in differences):
                yield f"{found.minor} [{found.group}] {found.command.text}\n    {line}"


def test_every_difference_has_a_name(
    findings: list[clusters.Finding], differences: list[known_differences.Known]
) -> None:
    assert len(findings) >= 150
    found = list(unexplained(findings, differences))
    assert not found, "\n".join(["differences without a name:", *found])


def test_the_page_is_up_to_date(
    findings: list[clusters.Finding], differences: list[known_differences.Known]
) -> None:
    shown = page.read(page.PATH.read_text(), MINOR)
    assert shown == page.column(findings, differences, MINOR), (
        "run `python -m suites.kubectl.comparison --write` and commit docs/design/kubectl.md"
    )


def test_every_name_is_found(differences: list[known_differences.Known]) -> None:
    text = page.PATH.read_text()
    met = {
        name
        for minor in clusters.MINORS
        for row in page.read(text, minor)
        for name in row.result.split(", ")
    }
    unused = [each.name for each in differences if each.name not in met and not each.sometimes]
    assert not unused, f"no longer found, to be removed from known_differences.toml: {unused}"
