"""The guide and the reference of catalogs are correct."""

import re
from pathlib import Path

from traincrew.local.images.catalog import Catalog, load_catalogs
from traincrew.local.images.entries import Entry

DOCS = Path(__file__).parents[3] / "docs"


def test_the_examples_of_the_guide_are_catalogs(tmp_path: Path) -> None:
    text = (DOCS / "guides/environments.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 4
    for index, example in enumerate(examples):
        path = tmp_path / f"{index}.yaml"
        whole = example if example.startswith("environments:") else f"environments:\n{example}"
        path.write_text(whole, encoding="utf-8")
        assert len(load_catalogs([path]).definitions) > len(load_catalogs([]).definitions)


def test_the_reference_lists_every_field() -> None:
    text = (DOCS / "reference/environments.md").read_text(encoding="utf-8")
    table = text.partition("| field |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(Entry.FIELDS)


def test_the_reference_lists_every_shipped_environment() -> None:
    text = (DOCS / "reference/environments.md").read_text(encoding="utf-8")
    table = text.partition("## Shipped environments")[2].partition("## Cache")[0]
    shipped: Catalog = load_catalogs([])
    for definition in shipped.definitions:
        name = definition.name
        assert f"`{name}`" in table or re.fullmatch(r"python3\.1[0-4]", name), name
