"""Somebody else's catalog: reading it ends, with an error that names the place."""

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from local.images.support import StandIn, nothing, refused
from traincrew.local.images import CatalogError, ImageStore
from traincrew.local.images.catalog import Catalog, load_catalogs


@pytest.fixture(autouse=True)
def little_memory_and_time() -> Iterator[None]:
    """Bound what a test may take, so that a bomb fails it rather than the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + (512 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def load(path: Path, text: str | bytes) -> Catalog:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_catalogs([path])


def error(path: Path, text: str | bytes) -> str:
    with pytest.raises(CatalogError) as caught:
        load(path, text)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert len(message) < 3100
    assert message.isprintable(), message
    return message


def levels(first: str, following: str, count: int) -> str:
    text = [f"a0: &a0 {first}"]
    for number in range(1, count):
        nested = ", ".join([f"*a{number - 1}"] * 10)
        text.append(f"a{number}: &a{number} {following.format(nested)}")
    return "\n".join(text)


BOMBS: dict[str, str | bytes] = {
    "aliases": levels("[x]", "[{}]", 9),
    "merges": levels("{x: y}", "{{<<: [{}]}}", 9),
    "depth": "[" * 100_000,
    "depth of mappings": "{a: " * 20_000,
    "depth of blocks": "\n".join(" " * number + "a:" for number in range(1200)),
    "size": "environments: [" + "x, " * 1_000_000 + "]",
    "number": "environments: " + "9" * 10_000,
    "sexagesimal": "environments: " + ":".join(["59"] * 5000),
    "date": "environments: 2001-99-99",
    "tag": "environments: !!python/object/apply:os.system [exit 1]",
    "binary": "environments: !!binary '#'",
    "mapping as key": "environments: [{[a, b]: c}]",
    "null byte": b"environments: \x00",
    "not UTF-8": b"environments: \xff",
    "UTF-16": "environments: []".encode("utf-16"),
    "surrogate": 'environments: [{name: "\\ud800"}]',
    "terminal": 'environments: [{name: "\\e[2J"}]',
    "long name": "environments: [{name: " + "-" * 50_000 + "!}]",
    "long field": "environments: [{name: a, " + "b" * 100_000 + ": c}]",
    "many entries": "environments:\n" + "\n".join(f"- {{name: n{n}}}" for n in range(20_000)),
    "chain": "environments:\n"
    + "\n".join(f"- {{name: n{n}, from: n{n + 1}}}" for n in range(900))
    + "\n- {name: n900}",
    "circle": "environments: [{name: a, from: b}, {name: b, from: a}]",
    "own circle": "environments: [{name: a, from: a}]",
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_is_an_error(tmp_path: Path, name: str) -> None:
    error(tmp_path / "environments.yaml", BOMBS[name])


def test_anchors_and_merges_of_reasonable_size_work(tmp_path: Path) -> None:
    text = """
    environments:
    - &base {name: a, images: [a], python: "3.11", requirements: &common [x==1]}
    - {<<: *base, name: b, images: [b], requirements: *common}
    """
    assert load(tmp_path / "environments.yaml", text).definitions[1].requirements == ("x==1",)


def test_a_file_without_an_end(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="/dev/zero"):
        load_catalogs([Path("/dev/zero")])


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ('files: {"{prefix}/../../evil": x}', "files.{prefix}/../../evil"),
        ('files: {"/a/../../evil": x}', "files./a/../../evil"),
        ("files: {relative: x}", "files.relative"),
        ('files: {"{prefix}/traincrew-environment.json": x}', "traincrew's own"),
        ('files: {"{prefix}/traincrew-manifest.json": x}', "traincrew's own"),
        ('files: {"/a\\0b": x}', "files"),
        ('files: {/a: "x\\0"}', "files./a"),
        ("requirements: [--index-url=http://evil]", "requirements[0]"),
        ("requirements: [' -e .']", "requirements[0]"),
        ('requirements: ["a\\n--index-url=http://evil"]', "requirements[0]"),
        ('requirements: ["a\\r--index-url=http://evil"]', "requirements[0]"),
        ("requirements: [-r other.txt]", "requirements[0]"),
        ("buildRequirements: [-e .]", "buildRequirements[0]"),
        ("pipArguments: [--target, /home]", "pipArguments[0]"),
        ("pipArguments: [--target=/home]", "pipArguments[0]"),
        ("pipArguments: [-t/home]", "pipArguments[0]"),
        ("pipArguments: [--prefix=/home]", "pipArguments[0]"),
        ("pipArguments: [--python, /usr/bin/python3]", "pipArguments[0]"),
        ("pipArguments: [-p, /usr/bin/python3]", "pipArguments[0]"),
        ("pipArguments: [--system]", "pipArguments[0]"),
        ("pipArguments: [--cache-dir=/home]", "pipArguments[0]"),
        ("pipArguments: [-qt/home]", "pipArguments[0]"),
        ("pipArguments: [evil]", "pipArguments[0]"),
        ("pipArguments: [--, evil]", "pipArguments[0]"),
        ('env: {A: "x\\0y"}', "env.A"),
        ("env: {'A=B': x}", "env.A=B"),
        ("machinePrograms: {../sh: x}", "machinePrograms.../sh"),
        ("workingDir: relative", "workingDir"),
        ("user: '0:99999999999'", "user"),
        ("images: ['a b']", "images[0]"),
    ],
)
def test_fields_that_lead_elsewhere_are_refused(tmp_path: Path, field: str, named: str) -> None:
    text = f'environments: [{{name: x, images: [x], python: "3.11", {field}}}]'
    assert named in error(tmp_path / "environments.yaml", text)


def test_options_that_only_choose_packages_are_allowed(tmp_path: Path) -> None:
    options = ["--no-deps", "--find-links=/wheels", "--find-links", "/wheels", "-f", "/wheels"]
    options += ["--index-url", "https://index.example.com", "--pre", "--no-binary", "x"]
    entry = {"name": "x", "python": "3.11", "pipArguments": options}
    text = yaml.safe_dump({"environments": [entry]})
    found = load(tmp_path / "environments.yaml", text)
    assert found.definitions[0].pip_arguments == tuple(options)


@pytest.mark.parametrize("kind", ["files", "programs"])
@pytest.mark.parametrize("source", ["pipe", "huge", "directory", "/dev/zero"])
async def test_sources_that_cannot_be_copied_are_refused(
    tmp_path: Path, stand_in: StandIn, kind: str, source: str
) -> None:
    """They are read when the store is asked anything, so a pipe must not be waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    own = tmp_path / "environments.yaml"
    target = "{prefix}/lib/x.py" if kind == "files" else "/bin/x"
    entry = f'name: x, images: [x], python: "3.99", {kind}: {{"{target}": {source}}}'
    own.write_text(f"environments: [{{{entry}}}]")
    store = ImageStore(tmp_path / "cache", [own])
    async with asyncio.timeout(20):
        assert not store.is_present("x")
        store.environments()
        message = (await refused(store, "x")).message
    assert f"which {kind} puts at {target}" in message
    assert "is no file of at most 16 MiB" in message
    assert stand_in.log() == []


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.dates() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    *("images", "from", "python", "buildRequirements", "requirements", "pipArguments", "files"),
    *("programs", "machinePrograms", "env", "command", "args", "workingDir", "user", "ownPorts"),
)
ENTRY = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "c"]) | VALUE},
    optional=dict.fromkeys(FIELDS, VALUE),
)


@settings(max_examples=50, deadline=None)
@given(st.fixed_dictionaries({"environments": st.lists(ENTRY | VALUE, max_size=3)}) | VALUE)
def test_any_document_is_a_catalog_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        catalog = load_catalogs([path])
    except CatalogError as found:
        assert str(found).startswith(str(path))  # noqa: PT017 - both outcomes are allowed
        return
    for definition in catalog.definitions:
        for word in (*definition.command, *definition.variables.values()):
            assert "\0" not in word


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_are_a_catalog_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    try:
        load_catalogs([path])
    except CatalogError as found:
        assert str(found).startswith(str(path))  # noqa: PT017 - both outcomes are allowed


async def test_an_image_that_is_no_catalogs_business(tmp_path: Path) -> None:
    """A name of a pod never becomes a path."""
    store = ImageStore(tmp_path / "cache")
    for image in ("../../etc/passwd", "a/../../b", "x" * 10_000, "a\0b", "a\nb:c"):
        await refused(store, image)
    assert not (tmp_path / "cache" / "environments").exists()
    await store.pull("busybox", nothing)
