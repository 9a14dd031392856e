"""An environment with hashes installs the files that its catalog was written with, or nothing.

The packages are real ones, made here and installed by uv without an index.
"""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from traincrew.local.images import ImagePullError, ImageStore, hashes
from traincrew.local.images.builder import environment_path
from traincrew.local.images.catalog import load_catalogs
from traincrew.local.images.errors import BuildError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def package(directory: Path, name: str, *, needs: str = "", text: str = "") -> str:
    """Write a wheel of version 1, and return its hash."""
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}-1-py3-none-any.whl"
    about = f"{name}-1.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    metadata += f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(f"{about}/METADATA", metadata)
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where environments are built: pip is unpacked for all of them once, by uv.

    They have nothing else in common, as each installs from a directory of its own.
    """
    return tmp_path_factory.mktemp("cache")


def store(
    cache: Path, directory: Path, requirements: list[str], locked: dict[str, str], more: str = ""
) -> ImageStore:
    """Return images with the environment "x" of packages in `directory`/wheels."""
    (directory / "hashes.txt").write_text(
        "".join(f"{pin} \\\n    --hash=sha256:{digest}\n" for pin, digest in locked.items())
    )
    catalog = directory / "environments.yaml"
    catalog.write_text(
        "environments:\n"
        f"- {{name: x, images: [x], python: '{PYTHON}', requirements: {requirements},\n"
        f"   pipArguments: [--no-index, --find-links={directory}/wheels], hashes: [hashes.txt]}}\n"
        f"{more}"
    )
    return ImageStore(cache, [catalog])


def nothing(line: str) -> None:
    """Ignore progress."""


async def refused(images: ImageStore) -> ImagePullError:
    with pytest.raises(ImagePullError) as caught:
        await images.pull("x", nothing)
    assert not images.is_present("x")
    return caught.value


async def test_the_file_with_the_hash_is_installed(cache: Path, tmp_path: Path) -> None:
    digest = package(tmp_path / "wheels", "one")
    environment = await store(cache, tmp_path, ["one==1"], {"one==1": digest}).pull("x", nothing)
    assert environment.prefix is not None
    assert list(environment.prefix.glob("lib/*/site-packages/one.py"))


async def test_another_file_of_the_same_version_is_refused(cache: Path, tmp_path: Path) -> None:
    digest = package(tmp_path / "wheels", "one")
    images = store(cache, tmp_path, ["one==1"], {"one==1": digest})
    package(tmp_path / "wheels", "one", text="import os\n")
    error = await refused(images)
    assert error.permanent
    assert "Hash mismatch for `one==1`" in error.message
    assert "set hashes: [] in an environment of your own" in error.message


async def test_a_dependency_without_a_hash_is_refused(cache: Path, tmp_path: Path) -> None:
    package(tmp_path / "wheels", "two")
    digest = package(tmp_path / "wheels", "one", needs="two")
    error = await refused(store(cache, tmp_path, ["one==1"], {"one==1": digest}))
    assert "no trusted hash was provided for: `two`" in error.message
    assert "Name this package and its version under requirements" in error.message


async def test_a_derived_environment_may_add_packages_and_end_the_check(
    cache: Path, tmp_path: Path
) -> None:
    digest = package(tmp_path / "wheels", "one")
    package(tmp_path / "wheels", "two")
    images = store(
        cache,
        tmp_path,
        ["one==1"],
        {"one==1": digest},
        "- {name: more, images: [more], from: x, requirements: [two]}\n"
        "- {name: any, images: [any], from: x, hashes: []}\n",
    )
    await images.pull("more", nothing)
    package(tmp_path / "wheels", "one", text="import os\n")
    await images.pull("any", nothing)


async def test_what_a_derived_environment_inherits_is_checked(cache: Path, tmp_path: Path) -> None:
    """Also beside packages without hashes."""
    digest = package(tmp_path / "wheels", "one")
    package(tmp_path / "wheels", "one", text="import os\n")
    package(tmp_path / "wheels", "two")
    images = store(
        cache,
        tmp_path,
        ["one==1"],
        {"one==1": digest},
        "- {name: more, images: [more], from: x, requirements: ['two==1']}\n",
    )
    with pytest.raises(ImagePullError, match="Hash mismatch for `one==1`"):
        await images.pull("more", nothing)


def test_hashes_are_part_of_the_recipe(cache: Path, tmp_path: Path) -> None:
    """What was installed without a check does not stand in for what is checked."""
    places = set()
    for digest in ("0" * 64, "1" * 64):
        store(cache, tmp_path, ["one==1"], {"one==1": digest}, "- {name: y, from: x, hashes: []}\n")
        catalog = load_catalogs([tmp_path / "environments.yaml"])
        checked, unchecked = catalog.definitions[:2]
        places |= {environment_path(tmp_path, checked), environment_path(tmp_path, unchecked)}
    assert len(places) == 3


def test_names_are_compared_as_the_index_does(tmp_path: Path) -> None:
    file = tmp_path / "hashes.txt"
    file.write_text(
        "# a comment\n"
        'typing-extensions==4 ; python_version < "3.12" \\\n'
        "    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via one\n"
        'typing-extensions==5 ; python_version >= "3.12" --hash=sha256:cc\n'
    )
    found = hashes.read([file])
    assert found == {
        ("typing-extensions", "4"): ("sha256:aa", "sha256:bb"),
        ("typing-extensions", "5"): ("sha256:cc",),
    }
    wanted = ["Typing_Extensions == 4", "typing.extensions==5; os_name == 'a'", "one", "one==1.*"]
    assert hashes.hashed(wanted, found) == (
        [
            "Typing_Extensions == 4 --hash=sha256:aa --hash=sha256:bb",
            "typing.extensions==5; os_name == 'a' --hash=sha256:cc",
            "one",
            "one==1.*",
        ],
        False,
    )
    assert hashes.hashed(wanted[:2], found)[1]
    assert not hashes.hashed(wanted[:2], found, without=("typing-extensions",))[1]


@pytest.mark.parametrize("line", ["one>=1 --hash=sha256:aa", "one==1", "-r other.txt"])
def test_a_file_without_hashes_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "hashes.txt"
    file.write_text(line)
    with pytest.raises(BuildError, match=r"hashes\.txt: .*must be NAME==VERSION --hash=sha256"):
        hashes.read([file])


def test_shipped_environments_have_hashes_of_all_they_name() -> None:
    built = [each for each in load_catalogs([]).definitions if each.requirements]
    assert {each.name for each in built} >= {"chainer", "openmpi", "mxnet", "torch", "etcd"}
    for definition in built:
        known = hashes.read(definition.hashes)
        for requirements in (definition.requirements, definition.build_requirements):
            lines, _ = hashes.hashed(requirements, known)
            assert [line for line in lines if "--hash" not in line] == []


def test_dependencies_of_pytorch_need_no_hashes() -> None:
    """They are those of CUDA or not, depending on the index; PyTorch itself is still compared."""
    known = {("torch", "2.0"): ("sha256:aa",), ("numpy", "2.0"): ("sha256:bb",)}

    lines, complete = hashes.hashed(["torch==2.0", "numpy==2.0"], known)
    assert lines == ["torch==2.0 --hash=sha256:aa", "numpy==2.0 --hash=sha256:bb"]
    assert not complete
    assert hashes.hashed(["numpy==2.0"], known)[1]
