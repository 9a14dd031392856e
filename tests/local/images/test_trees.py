"""Finished environments: read-only, and damage is noticed at the next use and repaired."""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.images.support import BUILT, Catalog, StandIn, nothing, refused, until
from traincrew.local.directories import remove_tree
from traincrew.local.images import BuildError, ImagePullError, ImageStore, Notice
from traincrew.local.images import builder as builder_module
from traincrew.local.images import trees as trees_module
from traincrew.local.images.manifest import Damage
from traincrew.local.images.trees import MARKER, Marker, Seals, finish

NOBODY = 65534

# What the stand-in for uv installs: a package, a program, and a link.
INSTALL = """\
top="${4%/bin/python}"
packages="$top/lib/python3.99/site-packages"
mkdir -p "$packages/one/deep"
echo "ANSWER = 42" > "$packages/one/__init__.py"
echo "ANSWER = 43" > "$packages/one/deep/module.py"
printf 'print(1)' > "$top/bin/program" && chmod 777 "$top/bin/program"
ln -sf program "$top/bin/alias"
"""
MODULE = "lib/python3.99/site-packages/one/deep/module.py"


class Place:
    """A store with a built environment."""

    def __init__(self, cache: Path, catalog: Path, stand_in: StandIn) -> None:
        self.cache, self.catalog, self.stand_in = cache, catalog, stand_in
        self.tree = cache
        self.lines: list[str] = []

    async def pull(self, store: ImageStore | None = None) -> Path:
        """Pull in a new process, or with the store of one that runs."""
        self.lines.clear()
        store = store or ImageStore(self.cache, [self.catalog])
        prefix = (await store.pull("me/built", self.lines.append)).prefix
        assert prefix is not None
        return prefix

    @property
    def builds(self) -> int:
        return self.stand_in.log().count("venv")

    @property
    def notices(self) -> list[str]:
        return [line for line in self.lines if isinstance(line, Notice)]


@pytest.fixture
async def place(tmp_path: Path, catalog: Catalog, stand_in: StandIn) -> Place:
    stand_in.pip(INSTALL)
    place = Place(tmp_path / "cache", catalog(BUILT), stand_in)
    place.tree = await place.pull()
    assert place.builds == 1
    return place


@contextlib.contextmanager
def writable(*paths: Path) -> Iterator[None]:
    """Lift the protection, as somebody could who means harm."""
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o755)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            if path.exists():
                path.chmod(mode)


# -- read-only ---------------------------------------------------------------------------------

# As a buggy program, or pip install, does it: without lifting the protection.
BUGGY = """
import errno, os, sys
top = sys.argv[1]
def refused(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM, errno.EROFS), error
    else:
        sys.exit(f"{function} {arguments} did it")
for directory, names, files in os.walk(top):
    refused(open, os.path.join(directory, "new"), "w")
    refused(os.mkdir, os.path.join(directory, "__pycache__.new"))
    for name in files:
        path = os.path.join(directory, name)
        refused(open, path, "r+") if os.path.isfile(path) else None
        refused(os.unlink, path)
        refused(os.rename, path, path + ".old")
"""


def test_an_ordinary_program_cannot_write_a_finished_tree() -> None:
    # Root ignores permissions: what it breaks is noticed, see below.
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        tree = make(Path(directory) / "environments" / "0123", 3)
        owner = os.geteuid() or NOBODY
        for path in (tree, *tree.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, owner, owner, follow_symlinks=False)
        python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
        result = subprocess.run(
            [python, "-I", "-S", "-c", BUGGY, str(tree)],
            user=owner if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        remove_tree(tree)
    assert result.returncode == 0, result.stderr


def make(tree: Path, count: int) -> Path:
    """Make and finish a tree by hand."""
    for name in ("bin", "lib", "lib/empty"):
        (tree / name).mkdir(parents=True)
    (tree / "bin" / "python").symlink_to(sys.executable)
    for number in range(count):
        (tree / "lib" / f"module{number}.py").write_text(f"NUMBER = {number}\n")
    finish(tree, Marker("x", "", "", "3.99", "python", (), 0.0))
    return tree


async def test_nothing_in_a_finished_tree_is_writable_and_programs_stay_executable(
    place: Place,
) -> None:
    modes = {path: path.lstat().st_mode for path in (place.tree, *place.tree.rglob("*"))}
    assert not [path for path, mode in modes.items() if not path.is_symlink() and mode & 0o222]
    assert modes[place.tree / "bin/program"] & 0o777 == 0o555
    assert modes[place.tree / MODULE] & 0o777 == 0o444


async def test_no_file_is_shared_with_a_package_cache(tmp_path: Path) -> None:
    tree, cached = tmp_path / "environments" / "0123", tmp_path / "cached.py"
    cached.write_text("ANSWER = 42\n")
    cached.chmod(0o664)
    (tree / "lib").mkdir(parents=True)
    os.link(cached, tree / "lib" / "module.py")
    before = cached.stat().st_mtime_ns
    make_tree_of(tree)
    assert cached.stat().st_nlink == 1
    assert (cached.stat().st_mode & 0o777, cached.stat().st_mtime_ns) == (0o664, before)
    # The compiled module stays valid: it has the time of its source.
    assert (tree / "lib/module.py").stat().st_mtime_ns == before
    cached.write_text("EVIL\n")
    assert Seals().damage(tree) == []


def make_tree_of(tree: Path) -> None:
    (tree / "bin").mkdir()
    (tree / "bin" / "python").symlink_to(sys.executable)
    finish(tree, Marker("x", "", "", "3.99", "python", (), 0.0))


async def test_uv_is_told_to_copy(
    place: Place, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_LINK_MODE", "symlink")
    stand_in.pip("echo $UV_LINK_MODE > $STAND_IN/mode")
    await ImageStore(place.cache, [place.catalog]).pull("me/other", nothing)
    assert (stand_in.directory / "mode").read_text() == "copy\n"


async def test_devices_pipes_and_odd_names_are_no_obstacle(tmp_path: Path) -> None:
    tree = tmp_path / "environments" / "0123"
    (tree / "lib").mkdir(parents=True)
    os.mkfifo(tree / "lib" / "pipe")
    for name in (b"caf\xe9", "café".encode(), b"new\nline", b"back\\slash", b"\x1b[31mred"):
        (tree / "lib" / os.fsdecode(name)).write_text("x")
    (tree / "lib" / "link").symlink_to(os.fsdecode(b"to \xff"))
    make_tree_of(tree)
    assert Seals().is_unchanged(tree)
    assert Seals().damage(tree) == []
    with writable(tree / "lib"):
        (tree / "lib" / "new\nline").unlink()
        (tree / "lib" / os.fsdecode(b"caf\xe9")).unlink()
        (tree / "lib" / "\x1b[31mred").unlink()
    lost = [r"lib/\x1b[31mred", r"lib/caf\xe9", r"lib/new\nline"]
    assert Seals().damage(tree) == [Damage("missing", path) for path in lost]


def test_what_a_pull_compares_does_not_grow_with_the_environment(tmp_path: Path) -> None:
    tree = make(tmp_path / "environments" / "0123", 3000)
    asked = 0
    real = os.stat

    def count(*arguments: object, **options: object) -> os.stat_result:
        nonlocal asked
        asked += 1
        return real(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "stat", count)
        assert Seals().is_unchanged(tree)
    assert 500 < asked < 2100


# -- damage ------------------------------------------------------------------------------------


def flip(tree: Path) -> None:
    """Change one byte and nothing that a look at size and time would show."""
    path, found = tree / MODULE, (tree / MODULE).stat()
    with writable(path):
        path.write_text(path.read_text().replace("43", "44"))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def truncate(tree: Path) -> None:
    with writable(tree / MODULE):
        os.truncate(tree / MODULE, 3)


def delete(tree: Path) -> None:
    with writable((tree / MODULE).parent):
        (tree / MODULE).unlink()


def add(tree: Path) -> None:
    with writable(tree / "bin"):
        (tree / "bin" / "evil").write_text("")


def redirect(tree: Path) -> None:
    with writable(tree / "bin"):
        (tree / "bin" / "alias").unlink()
        (tree / "bin" / "alias").symlink_to("/bin/true")


def unprotect(tree: Path) -> None:
    (tree / MODULE).chmod(0o644)


def replace_by_link(tree: Path) -> None:
    with writable((tree / MODULE).parent):
        (tree / MODULE).unlink()
        (tree / MODULE).symlink_to("/etc/hostname")


def lose_manifest(tree: Path) -> None:
    with writable(tree):
        (tree / "traincrew-manifest.json").unlink()


def forge_manifest(tree: Path) -> None:
    flip(tree)
    manifest = tree / "traincrew-manifest.json"
    with writable(manifest):
        manifest.write_bytes(manifest.read_bytes().replace(b"0", b"1"))


def garble_marker(tree: Path) -> None:
    with writable(tree / MARKER):
        (tree / MARKER).write_text("{")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip, f"1 changed ({MODULE})"),
        (truncate, f"1 changed ({MODULE})"),
        (delete, f"1 missing ({MODULE})"),
        (add, "1 added (bin/evil)"),
        (redirect, "1 changed (bin/alias)"),
        (unprotect, f"1 changed ({MODULE})"),
        (replace_by_link, f"1 changed ({MODULE})"),
        (lose_manifest, "1 missing (traincrew-manifest.json)"),
        (forge_manifest, "1 changed (traincrew-manifest.json)"),
        (garble_marker, "1 changed (traincrew-manifest.json)"),
    ],
)
@pytest.mark.parametrize("running", [True, False], ids=["running", "started later"])
async def test_damage_is_noticed_at_the_next_pull_and_repaired(
    place: Place, harm: Callable[[Path], None], said: str, *, running: bool
) -> None:
    store = ImageStore(place.cache, [place.catalog])
    assert await place.pull(store) == place.tree
    harm(place.tree)
    repaired = await place.pull(store if running else None)
    assert place.notices == [
        f'environment "built" is damaged, so it is built anew: {said}; in {place.tree}'
    ]
    assert (repaired / MODULE).read_text() == "ANSWER = 43\n"
    # Pods that run keep theirs, such as it is, until it is pruned.
    assert repaired != place.tree
    assert place.tree.is_dir()
    assert store.unused() == [place.tree]
    assert await place.pull(store) == repaired
    assert (place.lines, place.builds) == ([], 2)
    await store.remove(place.tree, nothing)
    assert not place.tree.exists()
    assert place.tree.with_suffix(".log").exists()
    assert await place.pull() == repaired
    assert (place.lines, place.builds) == ([], 2)


async def test_a_change_that_was_undone_is_no_damage(place: Place) -> None:
    with writable(place.tree / MODULE):
        pass
    assert await place.pull() == place.tree
    assert place.lines == [
        "comparing the environment with its manifest, because something has changed there"
    ]
    assert await place.pull() == place.tree
    assert (place.lines, place.builds) == ([], 1)


async def test_a_lost_seal_is_renewed(place: Place) -> None:
    seal = place.tree.with_suffix(".seal")
    seal.write_bytes(seal.read_bytes()[:20])
    assert await place.pull() == place.tree
    assert len(place.lines) == 1
    seal.unlink()
    assert await place.pull() == place.tree
    assert await place.pull() == place.tree
    assert (place.lines, place.builds) == ([], 1)


async def test_a_cache_that_cannot_be_written_is_compared_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a cache in an image, say: it has other times, and no seal can be written."""
    with writable(place.tree / MODULE):
        pass
    place.tree.with_suffix(".seal-new").mkdir()
    store = ImageStore(place.cache, [place.catalog])
    assert await place.pull(store) == place.tree
    assert len(place.lines) == 1
    assert await place.pull(store) == place.tree
    assert place.lines == []
    flip(place.tree)

    def unwritable(cache: Path, name: str) -> None:
        raise BuildError(f'the cache {cache} cannot be written: build "{name}" elsewhere')

    monkeypatch.setattr(builder_module, "check_writable", unwritable)
    error = await refused(store, "me/built")
    assert "cannot be written" in error.message
    assert place.builds == 1


async def test_pulls_at_the_same_time_repair_once(place: Place) -> None:
    delete(place.tree)
    store = ImageStore(place.cache, [place.catalog])
    other = ImageStore(place.cache, [place.catalog])
    pulls = [each.pull("me/built", nothing) for each in (store, store, other, other)]
    assert len({environment.prefix for environment in await asyncio.gather(*pulls)}) == 1
    assert place.builds == 2


async def test_a_tree_of_another_recipe_is_not_taken_for_this_one(place: Place) -> None:
    store = ImageStore(place.cache, [place.catalog])
    other = (await store.pull("me/other", nothing)).prefix
    assert other is not None
    remove_tree(place.tree)
    shutil.copytree(other, place.tree, symlinks=True)
    assert await place.pull() != place.tree
    assert f"1 changed ({MARKER})" in place.notices[0]


async def test_a_tree_with_an_incomplete_marker_is_replaced(place: Place) -> None:
    remove_tree(place.tree)
    place.tree.with_suffix(".seal").unlink()
    (place.tree / "bin").mkdir(parents=True)
    (place.tree / "bin" / "python").symlink_to(sys.executable)
    (place.tree / MARKER).write_text('{"name": "built", "python": "3.99.1", "seconds": 1.0}')
    assert await place.pull() != place.tree
    assert len(place.notices) == 1


# -- builds that do not end well ---------------------------------------------------------------


async def test_a_full_disk_leaves_nothing(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    stand_in.pip(INSTALL)
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    with monkeypatch.context() as patch:
        patch.setattr(trees_module, "write_new", full)
        error = await refused(store, "me/built")
    assert "No space left on device: free some disk space" in error.message
    assert not store.is_present("me/built")
    assert not list((tmp_path / "cache/environments").glob("*/"))
    await store.pull("me/built", nothing)


async def test_a_builder_killed_while_it_finishes_is_replaced(
    place: Place, catalog: Catalog, stand_in: StandIn
) -> None:
    """Everything is read-only by then, and the next one can remove it all the same."""
    script = (
        "import asyncio, sys, time; from pathlib import Path\n"
        "from traincrew.local.images import ImageStore, trees\n"
        "from traincrew.local.images.installation import uv\n"
        "uv.find_uv = lambda: sys.argv[3]\n"
        "def stuck(*_): print('stuck', flush=True); time.sleep(600)\n"
        "trees.scan = stuck\n"
        "store = ImageStore(Path(sys.argv[1]), [Path(sys.argv[2])])\n"
        "asyncio.run(store.pull('me/other', lambda _: None))\n"
    )
    arguments = (str(place.cache), str(place.catalog), str(stand_in.uv))
    builder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert builder.stdout is not None
    assert await builder.stdout.readline() == b"stuck\n"
    builder.send_signal(signal.SIGKILL)
    await builder.wait()
    left = [path for path in (place.cache / "environments").glob("*/") if path != place.tree]
    assert len(left) == 1
    store = ImageStore(place.cache, [place.catalog])
    assert not store.is_present("me/other")
    await store.pull("busybox", nothing)
    await until(lambda: not left[0].exists(), "the unfinished tree to be removed")
    assert (await store.pull("me/other", nothing)).prefix == left[0]


async def test_a_repair_that_fails_keeps_what_is_there(place: Place, stand_in: StandIn) -> None:
    store = ImageStore(place.cache, [place.catalog])
    stand_in.pip("exit 1")
    with pytest.raises(BuildError, match="uv could not install"):
        await store.repair("built", nothing)
    assert await place.pull(store) == place.tree
    assert place.lines == []
    stand_in.pip(INSTALL)
    repaired = await store.repair("built", nothing)
    assert await place.pull(store) == repaired
    assert repaired != place.tree
    assert place.tree.is_dir()


# -- a cache that others can write -------------------------------------------------------------


@pytest.mark.parametrize(
    "where", ["", "environments", "downloads", "python", "python/cpython-3.99.1/bin", "TREE/bin"]
)
@pytest.mark.parametrize("how", ["mode", "owner"])
async def test_nothing_of_a_cache_that_others_can_write_is_used(
    place: Place, where: str, how: str
) -> None:
    if how == "owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = place.cache / where.replace("TREE", f"environments/{place.tree.name}")
    path.mkdir(parents=True, exist_ok=True)
    before = path.stat()
    if how == "mode":
        path.chmod(0o777)
        fix = f"chmod go-w {path}"
    else:
        os.chown(path, NOBODY, NOBODY)
        fix = "use a directory that is yours or root's"
    store = ImageStore(place.cache, [place.catalog])
    error = await refused(store, "me/built")
    assert error.message.startswith(
        f'image "me/built": environment "built": the cache is not safe to use: {path} '
    )
    assert error.message.endswith(f"{fix}; or set TRAINCREW_CACHE to another")
    with pytest.raises(ImagePullError, match="not safe to use"):
        store.check("me/built")
    with pytest.raises(BuildError, match="not safe to use"):
        store.verify(place.tree)
    # One that would have to be built, too: packages and interpreters would come from there.
    if "TREE" not in where:
        assert "not safe to use" in (await refused(store, "me/other")).message
    os.chown(path, before.st_uid, before.st_gid)
    path.chmod(before.st_mode)
    assert await place.pull(store) == place.tree


async def test_a_program_is_what_the_catalog_names_whatever_lies_in_the_cache(
    tmp_path: Path, catalog: Catalog
) -> None:
    (tmp_path / "tool.py").write_text("print(1)\n")
    own = catalog(
        "environments: [{name: x, images: [x], python: current, programs: {/bin/tool: tool.py}}]"
    )
    first = (await ImageStore(tmp_path / "cache", [own]).pull("x", nothing)).files["/bin/tool"]
    good = first.read_bytes()
    first.write_bytes(b"#!/bin/sh\necho evil\n")
    again = (await ImageStore(tmp_path / "cache", [own]).pull("x", nothing)).files["/bin/tool"]
    assert again.read_bytes() == good
