"""Pulling: what is built, when, by whom, and what is said when it fails.

Most tests build on a stand-in for Python 3.99, a shell script that takes the same command lines,
so that they need no network and no seconds.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from traincrew.local.images import CatalogError, ImagePullError, ImageStore
from traincrew.local.images.builder import MARKER

Catalog = Callable[[str], Path]

STAND_IN = """\
#!/bin/sh
# Understands what the builder says to Python: a probe, "-m venv PATH", "-m pip ... install ...".
case "$*" in
  *"-m venv "*)
    for path; do :; done
    echo venv >> "$STAND_IN/log"
    mkdir -p "$path/bin" && cp "$0" "$path/bin/python" ;;
  *"-m pip "*)
    echo pip >> "$STAND_IN/log"
    echo "$@" >> "$STAND_IN/arguments"
    . "$STAND_IN/pip" ;;
  *)
    echo '{"executable": "'"$0"'", "prefix": "/", "version": "3.99.1", "has_pip_bundle": true}' ;;
esac
"""


class StandIn:
    """What the stand-in has been asked to do, and what its pip does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "python3.99").write_text(STAND_IN, encoding="utf-8")
        (directory / "python3.99").chmod(0o755)
        self.pip("true")

    def pip(self, script: str) -> None:
        (self.directory / "pip").write_text(script, encoding="utf-8")

    def log(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "log").read_text(encoding="utf-8").split()
        return []


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(directory))
    return StandIn(directory)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    def write(text: str) -> Path:
        path = tmp_path / "environments.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write


BUILT = """
environments:
- {name: built, images: [me/built], python: "3.99", requirements: [one==1, two==2]}
- {name: same, images: [me/same], python: "3.99", requirements: [one==1, two==2], env: {A: b}}
- {name: other, images: [me/other], python: "3.99", requirements: [one==1]}
"""


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def nothing(line: str) -> None:
    """Progress nobody looks at."""


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited for: {what}"
        await asyncio.sleep(0.01)


async def refused(store: ImageStore, image: str) -> ImagePullError:
    with pytest.raises(ImagePullError) as caught:
        await store.pull(image, nothing)
    assert "\n" not in caught.value.message
    return caught.value


# -- without building --------------------------------------------------------------------------


async def test_tools_of_this_machine(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    assert store.is_present("busybox:1.36")
    environment = await store.pull("busybox:1.36", nothing)
    assert environment.prefix is None
    assert environment.arguments == ["sh"]
    assert environment.variables["PATH"].startswith("/usr/local/sbin:/usr/local/bin:")
    assert environment.working_directory == "/"


async def test_the_python_that_is_already_there(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog(
        """
        environments:
        - name: mine
          images: [me/mine]
          python: current
          command: [python, train.py]
          args: [--fast]
          workingDir: /app
          env: {MODELS: "{prefix}/models"}
          files: {/app/train.py: train.py}
        """
    )
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    store = ImageStore(tmp_path / "cache", [own])
    assert store.is_present("me/mine:7")
    environment = await store.pull("me/mine:7", nothing)
    assert environment.prefix == Path(sys.prefix)
    assert environment.variables["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert environment.variables["MODELS"] == f"{sys.prefix}/models"
    assert environment.files == {"/app/train.py": tmp_path / "train.py"}
    assert (environment.command, environment.arguments) == (["python", "train.py"], ["--fast"])
    assert environment.working_directory == "/app"


async def test_an_interpreter_by_its_path(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog(
        f"""
        environments:
        - {{name: file, images: [me/file], python: {sys.executable}}}
        - {{name: directory, images: [me/directory], python: {sys.prefix}/}}
        - {{name: absent, images: [me/absent], python: /nowhere/bin/python}}
        - {{name: other, images: [me/other], python: /bin/true}}
        """
    )
    store = ImageStore(tmp_path / "cache", [own])
    for image in ("me/file", "me/directory"):
        environment = await store.pull(image, nothing)
        assert environment.prefix == Path(sys.prefix)
        assert environment.variables["PATH"].split(":")[0] == str(Path(sys.prefix) / "bin")
    absent = await refused(store, "me/absent")
    assert "/nowhere/bin/python cannot be run: No such file or directory" in absent.message
    assert f'{own}: environments[2] ("absent")' in absent.message
    other = await refused(store, "me/other")
    assert "/bin/true is not a working Python 3 interpreter" in other.message


async def test_unknown_and_malformed_images(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: []")
    store = ImageStore(tmp_path / "cache", [own])
    assert not store.is_present("nginx:1.27")
    unknown = await refused(store, "nginx:1.27")
    assert unknown.reason == "ErrImagePull"
    assert 'image "nginx:1.27": no environment is defined for it' in unknown.message
    assert f'under "environments:" in {own} add' in unknown.message
    assert '{name: nginx, images: ["nginx"], python: current}' in unknown.message
    assert not store.is_present("Nginx")
    assert (await refused(store, "Nginx")).reason == "InvalidImageName"


async def test_the_advice_for_an_unknown_image_works(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: []")
    store = ImageStore(tmp_path / "cache", [own])
    message = (await refused(store, "team/app:2")).message
    entry = message.partition("add  ")[2].partition("  for")[0]
    own.write_text(f"environments:\n{entry}\n", encoding="utf-8")
    assert (await store.pull("team/app:2", nothing)).name == "app"


async def test_a_changed_catalog_is_read_again(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: []")
    store = ImageStore(tmp_path / "cache", [own])
    await refused(store, "me/late")
    catalog("environments: [{name: late, images: [me/late], python: current}]")
    assert (await store.pull("me/late", nothing)).name == "late"
    catalog("environments: [{name: late, images: me/late, python: current}]")
    assert (
        'environments[0] ("late").images: must be a list'
        in (await refused(store, "me/late")).message
    )
    own.unlink()
    assert "no environment is defined" in (await refused(store, "me/late")).message


def test_a_wrong_catalog_is_refused_at_once(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"environments\[0\].name: is required"):
        ImageStore(tmp_path, [catalog("environments: [{}]")])


async def test_a_missing_file_is_named(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: [{name: x, images: [x], files: {/app.py: gone.py}}]")
    error = await refused(ImageStore(tmp_path / "cache", [own]), "x")
    assert f"{tmp_path}/gone.py, which files puts at /app.py, does not exist" in error.message


# -- programs ----------------------------------------------------------------------------------

PROGRAM = "import sys\nprint(sys.argv[1:], sys.flags.isolated, sys.flags.no_site, __name__)\n"


@pytest.mark.parametrize("directory", ["plain", "with a space", "deep/" + "x" * 150])
async def test_programs_run_on_their_interpreter_wherever_they_are(
    tmp_path: Path, catalog: Catalog, directory: str
) -> None:
    python = tmp_path / directory / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "tool.py").write_text(PROGRAM, encoding="utf-8")
    own = catalog(
        f"""
        environments:
        - {{name: x, images: [x], python: "{python}", programs: {{/usr/bin/tool: tool.py}}}}
        """
    )
    environment = await ImageStore(tmp_path / "cache", [own]).pull("x", nothing)
    copy = tmp_path / "copied"
    copy.write_bytes(environment.files["/usr/bin/tool"].read_bytes())
    copy.chmod(0o755)
    result = await asyncio.to_thread(
        subprocess.run, [copy, "a b", "c"], capture_output=True, text=True, check=True, env={}
    )
    assert result.stdout == "['a b', 'c'] 1 1 __main__\n"


async def test_the_helper_image_has_a_kubectl(tmp_path: Path) -> None:
    environment = await ImageStore(tmp_path).pull("traincrew/helper:0.1.0", nothing)
    kubectl = environment.files["/usr/local/bin/kubectl"]
    result = await asyncio.to_thread(
        subprocess.run, [kubectl, "--help"], capture_output=True, text=True, check=True, env={}
    )
    assert "kubectl exec [-i] [-t] POD" in result.stdout


# -- building ----------------------------------------------------------------------------------


async def test_built_once_and_kept(tmp_path: Path, catalog: Catalog, stand_in: StandIn) -> None:
    stand_in.pip(
        """
        echo 'Collecting one==1'
        echo '  Downloading one-1-py3-none-any.whl (17.1 MB)'
        echo '  Using cached two-2.tar.gz'
        echo '  Building wheel for two (setup.py): started'
        echo 'Installing collected packages: one, two'
        """
    )
    lines: list[str] = []
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    assert not store.is_present("me/built")
    environment = await store.pull("me/built", lines.append)
    assert lines[:-1] == [
        f"Python 3.99.1 ({stand_in.directory}/python3.99)",
        "creating the environment",
        "installing 2 requirements",
        "downloading one 1 (17.1 MB)",
        "using downloaded two 2",
        "building two",
        "unpacking 2 packages",
    ]
    assert lines[-1].startswith("environment ready in ")
    assert store.is_present("me/built:any")
    assert environment.prefix.parent == tmp_path / "cache" / "environments"
    assert environment.variables["PATH"].split(":")[0] == f"{environment.prefix}/bin"
    arguments = (stand_in.directory / "arguments").read_text(encoding="utf-8").strip()
    assert arguments.endswith("-- one==1 two==2")
    assert "--no-build-isolation" not in arguments

    lines.clear()
    again = await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", lines.append)
    assert again.prefix == environment.prefix
    assert lines == []
    assert stand_in.log() == ["venv", "pip"]


async def test_the_same_recipe_shares_a_build_and_another_does_not(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    built = await store.pull("me/built", nothing)
    assert store.is_present("me/same")
    same = await store.pull("me/same", nothing)
    assert same.prefix == built.prefix
    assert (same.variables["A"], "A" in built.variables) == ("b", False)
    assert not store.is_present("me/other")
    assert (await store.pull("me/other", nothing)).prefix != built.prefix


async def test_build_requirements_come_first_and_switch_isolation_off(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    own = catalog(
        """
        environments:
        - name: x
          images: [x]
          python: ["3.98", "3.99"]
          buildRequirements: [setuptools==1]
          requirements: [one==1]
          pipArguments: [--no-index]
          files: {"{prefix}/etc/settings": settings}
        """
    )
    (tmp_path / "settings").write_text("a = 1\n", encoding="utf-8")
    environment = await ImageStore(tmp_path / "cache", [own]).pull("x", nothing)
    first, second = (stand_in.directory / "arguments").read_text(encoding="utf-8").splitlines()
    assert first.endswith("-- setuptools==1")
    assert "--no-build-isolation --no-index -- one==1" in second
    assert (environment.prefix / "etc/settings").read_text(encoding="utf-8") == "a = 1\n"
    assert environment.files == {}
    # What is inside the environment is part of its recipe.
    (tmp_path / "settings").write_text("a = 2\n", encoding="utf-8")
    assert not ImageStore(tmp_path / "cache", [own]).is_present("x")


async def test_pip_is_not_led_astray_by_the_environment(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "/somewhere/else")
    monkeypatch.setenv("PIP_RETRIES", "1")
    stand_in.pip("env > $STAND_IN/environment")
    await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", nothing)
    environment = (stand_in.directory / "environment").read_text(encoding="utf-8")
    assert "/somewhere/else" not in environment
    assert "PIP_RETRIES=1" in environment


async def test_pulls_at_the_same_time_share_one_build(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    lines: list[list[str]] = [[] for _ in range(5)]
    environments = await asyncio.gather(*(store.pull("me/built", one.append) for one in lines))
    assert len({environment.prefix for environment in environments}) == 1
    assert stand_in.log() == ["venv", "pip"]
    assert all(one[-1].startswith("environment ready") for one in lines)


async def test_stores_at_the_same_time_wait_for_each_other(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.pip("while [ ! -e $STAND_IN/go ]; do sleep 0.05; done")
    own = catalog(BUILT)
    lines: list[str] = []
    first = asyncio.create_task(ImageStore(tmp_path / "cache", [own]).pull("me/built", nothing))
    await until(lambda: "pip" in stand_in.log(), "the first build")
    second = asyncio.create_task(
        ImageStore(tmp_path / "cache", [own]).pull("me/built", lines.append)
    )
    await until(lambda: lines, "the second pull to wait")
    assert lines == ["waiting for another process that builds this environment"]
    (stand_in.directory / "go").touch()
    assert (await first).prefix == (await second).prefix
    assert stand_in.log() == ["venv", "pip"]


async def test_a_build_goes_on_while_someone_waits_for_it(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.pip("while [ ! -e $STAND_IN/go ]; do sleep 0.05; done")
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    leaves = asyncio.create_task(store.pull("me/built", nothing))
    stays = asyncio.create_task(store.pull("me/same", nothing))
    await until(lambda: "pip" in stand_in.log(), "the build")
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    (stand_in.directory / "go").touch()
    await stays
    assert stand_in.log() == ["venv", "pip"]


async def test_cancelled_by_all_it_ends_and_is_built_anew(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.pip("echo $$ > $STAND_IN/pid; exec sleep 600")
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    pull = asyncio.create_task(store.pull("me/built", nothing))
    pid_file = stand_in.directory / "pid"
    await until(lambda: pid_file.exists() and pid_file.read_text(), "pip")
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
    assert not store.is_present("me/built")

    stand_in.pip("true")
    await store.pull("me/built", nothing)
    assert stand_in.log() == ["venv", "pip", "venv", "pip"]


async def test_after_a_killed_builder_the_next_one_waits_and_starts_over(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.pip("while [ ! -e $STAND_IN/go ]; do sleep 0.05; done; touch $STAND_IN/orphan")
    own = catalog(BUILT)
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from traincrew.local.images import ImageStore\n"
        "store = ImageStore(Path(sys.argv[1]), [Path(sys.argv[2])])\n"
        "asyncio.run(store.pull('me/built', print))\n"
    )
    builder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(tmp_path / "cache"),
        str(own),
        stdout=asyncio.subprocess.DEVNULL,
    )
    await until(lambda: "pip" in stand_in.log(), "the other process to build")
    builder.send_signal(signal.SIGKILL)
    await builder.wait()

    # Its pip is still at work in there; nobody may build beside it.
    store = ImageStore(tmp_path / "cache", [own])
    assert not store.is_present("me/built")
    lines: list[str] = []
    pull = asyncio.create_task(store.pull("me/built", lines.append))
    await until(lambda: lines, "the next pull to wait")
    assert "waiting for another process" in lines[0]
    (stand_in.directory / "go").touch()
    await pull
    assert (stand_in.directory / "orphan").exists()
    assert stand_in.log() == ["venv", "pip", "venv", "pip"]


async def test_a_half_built_or_broken_environment_is_rebuilt(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    prefix = (await store.pull("me/built", nothing)).prefix
    (prefix / MARKER).unlink()
    (prefix / "left-over").touch()
    assert not store.is_present("me/built")
    await store.pull("me/built", nothing)
    assert not (prefix / "left-over").exists()

    # The interpreter it was made from has been uninstalled.
    (prefix / "bin/python").unlink()
    (prefix / "bin/python").symlink_to("/nowhere/python3.99")
    assert not store.is_present("me/built")
    await store.pull("me/built", nothing)
    assert store.is_present("me/built")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            (
                "ERROR: Could not find a version that satisfies the requirement one==1\n"
                "ERROR: No matching distribution found for one==1"
            ),
            [
                "pip could not install the requirements: ERROR: Could not find a version",
                "ERROR: No matching distribution found for one==1. Correct this requirement",
            ],
        ),
        (
            (
                "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
                '"Failed to establish a new connection: [Errno -3] Temporary failure in name '
                "resolution\")': /x/\nERROR: No matching distribution found for one==1"
            ),
            ["The package index cannot be reached: check the network", "python: current"],
        ),
        (
            (
                "    from numpy.distutils.core import setup\n"
                "ModuleNotFoundError: No module named 'numpy'\n"
                "error: subprocess-exited-with-error"
            ),
            ["ModuleNotFoundError: No module named 'numpy'", "name it under buildRequirements"],
        ),
        (
            (
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
                "device"
            ),
            ["No space left on device", "Free some disk space"],
        ),
        ("", ["it gave no reason"]),
    ],
)
async def test_pip_failures_read_like_pull_errors(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, output: str, expected: list[str]
) -> None:
    (stand_in.directory / "output").write_text(output, encoding="utf-8")
    stand_in.pip("cat $STAND_IN/output; exit 1")
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    error = await refused(store, "me/built:1")
    assert error.reason == "ErrImagePull"
    assert error.message.startswith('image "me/built:1": environment "built": ')
    for part in expected:
        assert part in error.message
    assert output in read(error.message.rsplit("all of pip's output is in ", 1)[1])
    assert not store.is_present("me/built:1")
    # The next try may succeed.
    stand_in.pip("true")
    await store.pull("me/built:1", nothing)


async def test_a_missing_python_says_what_to_install(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: [{name: x, images: [x], python: ['3.98', '3.97']}]")
    error = await refused(ImageStore(tmp_path / "cache", [own]), "x")
    assert "no Python 3.98 or 3.97 was found on PATH" in error.message
    assert "pyenv install 3.98" in error.message
    assert "apt install python3.98 python3.98-venv" in error.message


async def test_a_python_that_cannot_make_environments(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    script = stand_in.directory / "python3.99"
    script.write_text(STAND_IN.replace('"has_pip_bundle": true', '"has_pip_bundle": false'))
    error = await refused(ImageStore(tmp_path / "cache", [catalog(BUILT)]), "me/built")
    assert "Python 3.99.1" in error.message
    assert "apt install python3.99-venv" in error.message


async def test_a_front_for_a_python_that_is_not_installed_is_passed_over(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = tmp_path / "fronts"
    front.mkdir()
    (front / "python3.99").write_text("#!/bin/sh\necho python3.99: not found >&2; exit 127\n")
    (front / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", f"{front}{os.pathsep}{os.environ['PATH']}")
    environment = await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", nothing)
    assert environment.name == "built"


async def test_a_cache_that_cannot_be_written(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    (tmp_path / "cache").write_text("a file, not a directory", encoding="utf-8")
    error = await refused(ImageStore(tmp_path / "cache", [catalog(BUILT)]), "me/built")
    assert f"{tmp_path}/cache/environments: Not a directory" in error.message


async def test_listing_and_removing(tmp_path: Path, catalog: Catalog, stand_in: StandIn) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    await store.pull("me/built", nothing)
    await store.pull("me/other", nothing)
    listed = {status.name: status for status in store.environments()}
    assert list(listed)[:3] == ["built", "same", "other"]
    assert listed["built"].is_ready
    assert listed["built"].images == ("me/built",)
    assert listed["built"].python == "3.99"
    assert listed["helper"].is_ready
    assert listed["helper"].path is None
    assert not listed["chainermn"].is_ready

    await store.remove(listed["built"].path, nothing)
    await store.remove(listed["built"].path, nothing)
    assert not store.is_present("me/built")
    assert store.is_present("me/other")
    assert store.unused() == []
    catalog("environments: []")
    assert store.unused() == [listed["other"].path]


# -- for real ----------------------------------------------------------------------------------


async def test_a_real_environment_without_a_network(tmp_path: Path, catalog: Catalog) -> None:
    wheel = tmp_path / "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("greeting.py", "TEXT = 'hello'\n")
        for name, text in (
            ("METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"),
            (
                "WHEEL",
                "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            ),
            ("RECORD", ""),
        ):
            archive.writestr(f"greeting-1.0.dist-info/{name}", text)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = catalog(
        f"""
        environments:
        - name: real
          images: [me/real]
          python: "{version}"
          requirements: [greeting==1.0]
          pipArguments: [--no-index, --find-links, {tmp_path}]
        """
    )
    lines: list[str] = []
    environment = await ImageStore(tmp_path / "cache", [own]).pull("me/real", lines.append)
    assert "installing 1 requirement" in lines
    result = await asyncio.to_thread(
        subprocess.run,
        ["python3", "-c", "import greeting, sys; print(greeting.TEXT, sys.prefix)"],
        env=dict(environment.variables),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"hello {environment.prefix}\n"
