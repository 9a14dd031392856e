"""Pulls: which environments are built and when, sharing of builds, and error messages.

Most tests build with stand-ins for Python 3.99 and uv (`support`).
"""

import asyncio
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from local.images.support import (
    BUILT,
    PYTHON,
    Catalog,
    StandIn,
    nothing,
    refused,
    until,
)
from traincrew.local.images import CatalogError, ImagePullError, ImageStore, Source
from traincrew.local.images.trees import MARKER


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


# -- without building --------------------------------------------------------------------------


async def test_tools_of_this_machine(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    assert store.is_present("busybox:1.36")
    environment = await store.pull("busybox:1.36", nothing)
    assert environment.prefix is None
    assert environment.arguments == ["sh"]
    assert environment.variables["PATH"].startswith("/usr/local/sbin:/usr/local/bin:")
    assert environment.working_directory == "/"


async def test_the_current_python(tmp_path: Path, catalog: Catalog) -> None:
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
    store = ImageStore(tmp_path / "cache", [own], source=Source.ENVIRONMENT)
    assert not store.is_present("nginx:1.27")
    unknown = await refused(store, "nginx:1.27")
    assert unknown.reason == "ErrImagePull"
    assert 'image "nginx:1.27": no environment is defined for it' in unknown.message
    assert "define one: traincrew images map nginx:1.27 --python 3.11 " in unknown.message
    assert len(unknown.message) < 200
    assert not store.is_present("Nginx")
    assert (await refused(store, "Nginx")).reason == "InvalidImageName"


async def test_a_changed_catalog_is_reloaded(tmp_path: Path, catalog: Catalog) -> None:
    own = catalog("environments: []")
    store = ImageStore(tmp_path / "cache", [own], source=Source.ENVIRONMENT)
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


def test_an_invalid_catalog_is_rejected_at_once(tmp_path: Path, catalog: Catalog) -> None:
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
        subprocess.run, [str(copy), "a b", "c"], capture_output=True, text=True, check=True, env={}
    )
    assert result.stdout == "['a b', 'c'] 1 1 __main__\n"


async def test_the_helper_image_has_a_kubectl(tmp_path: Path) -> None:
    environment = await ImageStore(tmp_path).pull("traincrew/helper:0.1.0", nothing)
    kubectl = environment.files["/usr/local/bin/kubectl"]
    result = await asyncio.to_thread(
        subprocess.run, [str(kubectl), "--help"], capture_output=True, text=True, check=True, env={}
    )
    assert "kubectl exec [-i] [-t] POD" in result.stdout


# -- building ----------------------------------------------------------------------------------


async def test_built_once_and_kept(tmp_path: Path, catalog: Catalog, stand_in: StandIn) -> None:
    stand_in.pip("echo 'Resolved 2 packages in 5ms'; echo '      Built two==2'")
    lines: list[str] = []
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    assert not store.is_present("me/built")
    environment = await store.pull("me/built", lines.append)
    assert lines[:-1] == [
        f"Python 3.99.1 ({stand_in.directory}/python3.99)",
        "creating the environment",
        "installing pip",
        "installing 2 requirements",
        "built two 2",
        "noting what its files contain",
    ]
    assert lines[-1].startswith("environment ready in ")
    assert store.is_present("me/built:any")
    assert environment.prefix is not None
    assert environment.prefix.parent == tmp_path / "cache" / "environments"
    assert environment.variables["PATH"].split(":")[0] == f"{environment.prefix}/bin"
    (arguments,) = stand_in.arguments()
    assert arguments.endswith("-- one==1 two==2")
    assert "--no-build-isolation" not in arguments

    lines.clear()
    again = await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", lines.append)
    assert again.prefix == environment.prefix
    assert lines == []
    assert stand_in.log() == ["venv", "pip"]


async def test_an_installation_that_takes_long_says_so_all_the_time(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while uv draws the same again and again, as when it compiles what it has unpacked."""
    monkeypatch.setattr("traincrew.local.images.installation.uv._TICK_SECONDS", 0.3)
    draw = "printf '\\r[2/2] Installing wheels...'"
    stand_in.pip(f"while [ ! -e $STAND_IN/go ]; do {draw}; sleep 0.1; done")
    lines: list[str] = []
    store = ImageStore(tmp_path, [catalog(BUILT)])
    pull = asyncio.create_task(store.pull("me/built", lines.append))
    said = "unpacking 2 of 2 packages ("
    await until(lambda: len({line for line in lines if line.startswith(said)}) > 1, "the time")
    (stand_in.directory / "go").touch()
    await pull


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
          files: {"{prefix}/etc/settings": settings, "{packages}/settings.pth": settings}
        """
    )
    (tmp_path / "settings").write_text("a = 1\n", encoding="utf-8")
    environment = await ImageStore(tmp_path / "cache", [own]).pull("x", nothing)
    first, second = stand_in.arguments()
    assert first.endswith("-- setuptools==1")
    assert "--no-build-isolation --compile-bytecode --no-index -- one==1" in second
    packages = "lib/python3.99/site-packages"
    assert environment.prefix is not None
    for place in ("etc/settings", f"{packages}/settings.pth"):
        assert (environment.prefix / place).read_text(encoding="utf-8") == "a = 1\n"
    assert environment.files == {}
    # What is inside the environment is part of its recipe.
    (tmp_path / "settings").write_text("a = 2\n", encoding="utf-8")
    assert not ImageStore(tmp_path / "cache", [own]).is_present("x")


async def test_variables_that_would_redirect_uv_are_removed(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "UV_TARGET", "UV_PYTHON", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "/somewhere/else")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.com/simple")
    monkeypatch.setenv("UV_CONCURRENT_DOWNLOADS", "1")
    stand_in.pip("env > $STAND_IN/environment")
    await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", nothing)
    environment = (stand_in.directory / "environment").read_text(encoding="utf-8").splitlines()
    assert not [line for line in environment if "/somewhere/else" in line]
    assert "UV_DEFAULT_INDEX=https://index.example.com/simple" in environment
    assert "UV_CONCURRENT_DOWNLOADS=1" in environment
    assert f"UV_CACHE_DIR={tmp_path}/cache/downloads" in environment


async def test_concurrent_pulls_share_one_build(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    lines: list[list[str]] = [[] for _ in range(5)]
    environments = await asyncio.gather(*(store.pull("me/built", one.append) for one in lines))
    assert len({environment.prefix for environment in environments}) == 1
    assert stand_in.log() == ["venv", "pip"]
    assert all(one[-1].startswith("environment ready") for one in lines)


async def test_concurrent_stores_wait_for_each_other(
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


async def test_a_build_continues_while_a_pull_waits_for_it(
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


async def test_a_build_cancelled_by_all_pulls_is_restarted_later(
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


@pytest.mark.parametrize("hang_up", ["SIG_DFL", "SIG_IGN"], ids=["plain", "nohup"])
async def test_uv_ends_with_a_killed_builder_and_the_next_one_starts_over(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn, hang_up: str
) -> None:
    stand_in.pip("echo $$ > $STAND_IN/pid; sleep 600 & wait")
    own = catalog(BUILT)
    script = (
        "import asyncio, signal, sys; from pathlib import Path\n"
        "from traincrew.local.images import ImageStore\n"
        "from traincrew.local.images.installation import uv\n"
        f"signal.signal(signal.SIGHUP, signal.{hang_up})\n"
        "uv.find_uv = lambda: sys.argv[3]\n"
        "store = ImageStore(Path(sys.argv[1]), [Path(sys.argv[2])])\n"
        "asyncio.run(store.pull('me/built', print))\n"
    )
    builder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(tmp_path / "cache"),
        str(own),
        str(stand_in.uv),
        stdout=asyncio.subprocess.DEVNULL,
    )
    pid_file = stand_in.directory / "pid"
    await until(lambda: pid_file.exists() and pid_file.read_text(), "the other process to build")
    builder.send_signal(signal.SIGKILL)
    await builder.wait()

    def has_ended() -> bool:
        try:
            os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
        except ProcessLookupError:
            return True
        return False

    await until(has_ended, "its uv to end")
    stand_in.pip("true")
    store = ImageStore(tmp_path / "cache", [own])
    assert not store.is_present("me/built")
    await store.pull("me/built", nothing)
    assert stand_in.log() == ["venv", "pip", "venv", "pip"]
    assert list((tmp_path / "cache/temporary").iterdir()) == []


async def test_a_half_built_or_broken_environment_is_rebuilt(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    prefix = (await store.pull("me/built", nothing)).prefix
    assert prefix is not None
    for directory in (prefix, prefix / "bin"):
        directory.chmod(0o755)
    (prefix / MARKER).unlink()
    (prefix / "left-over").touch()
    assert not store.is_present("me/built")
    await store.pull("me/built", nothing)
    assert not (prefix / "left-over").exists()

    # The interpreter it was built with has been uninstalled.
    (prefix / "bin").chmod(0o755)
    (prefix / "bin/python").unlink()
    (prefix / "bin/python").symlink_to("/nowhere/python3.99")
    assert not store.is_present("me/built")
    await store.pull("me/built", nothing)
    assert store.is_present("me/built")


@pytest.mark.parametrize(
    ("output", "expected", "permanent"),
    [
        (
            """\
error: No solution found when resolving dependencies
  cause: Because there is no version of one==1 and you require one==1, we can conclude that your \
requirements are unsatisfiable.
""",
            [
                "uv could not install the requirements: No solution found when resolving",
                "Because there is no version of one==1",
                ". Correct this requirement",
            ],
            True,
        ),
        (
            """\
error: No solution found when resolving dependencies
  cause: Because you require one<1 and one>1, we can conclude that your requirements are \
unsatisfiable.
""",
            ["Because you require one<1 and one>1", "so that they fit together"],
            True,
        ),
        (
            """\
error: Request failed after 2 retries in 3.1s
  cause: Failed to fetch: http://index.example.com/simple/one/
  cause: error sending request for url (http://index.example.com/simple/one/)
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known
""",
            [
                "Failed to fetch: http://index.example.com/simple/one/ | failed to lookup address",
                "The package index cannot be reached: check the network",
                "python: current",
            ],
            False,
        ),
        (
            """\
error: Failed to build `two==2`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 8, in <module>
         ModuleNotFoundError: No module named 'numpy'

hint: This error likely indicates that `two@2` depends on `numpy`, but doesn't declare it
""",
            [
                "Failed to build `two==2` | ModuleNotFoundError: No module named 'numpy'",
                "name it under buildRequirements",
            ],
            True,
        ),
        (
            """\
error: Failed to install: one-1-py3-none-any.whl (one==1)
  cause: failed to write to file: No space left on device (os error 28)
""",
            ["No space left on device", "Free some disk space"],
            True,
        ),
        ("", ["it gave no reason"], True),
    ],
)
async def test_failures_read_like_pull_errors(
    tmp_path: Path,
    catalog: Catalog,
    stand_in: StandIn,
    *,
    output: str,
    expected: list[str],
    permanent: bool,
) -> None:
    (stand_in.directory / "output").write_text(output, encoding="utf-8")
    stand_in.pip("cat $STAND_IN/output; exit 1")
    store = ImageStore(tmp_path / "cache", [catalog(BUILT)])
    error = await refused(store, "me/built:1")
    assert (error.reason, error.permanent) == ("ErrImagePull", permanent)
    assert error.message.startswith('image "me/built:1": environment "built": ')
    for part in expected:
        assert part in error.message
    assert output in read(error.message.rsplit("all of uv's output is in ", 1)[1])
    assert not store.is_present("me/built:1")
    # The next attempt may succeed.
    stand_in.pip("true")
    await store.pull("me/built:1", nothing)


DNS = "dns error: Name or service not known"


async def test_the_error_for_a_missing_python_names_what_to_install(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.other(f"echo 'error: Failed to install cpython'; echo '  cause: {DNS}'; exit 1")
    own = catalog("environments: [{name: x, images: [x], python: ['3.98', '3.97']}]")
    error = await refused(ImageStore(tmp_path / "cache", [own]), "x")
    assert "no Python 3.98 or 3.97 was found on PATH" in error.message
    assert "pyenv install 3.98" in error.message
    assert '"apt install python3.98"' in error.message
    assert f"uv could not download one: Failed to install cpython | {DNS}" in error.message
    assert error.permanent


async def test_a_missing_python_is_downloaded(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    place = tmp_path / "cache/python/cpython-3.98.1-linux/bin"
    stand_in.other(
        f"mkdir -p {place}; sed s/3.99/3.98/ $STAND_IN/python3.99 > {place}/python3.98; "
        f"chmod +x {place}/python3.98"
    )
    own = catalog("environments: [{name: x, images: [x], python: ['3.98', '3.97']}]")
    lines: list[str] = []
    await ImageStore(tmp_path / "cache", [own]).pull("x", lines.append)
    assert lines[:2] == ["downloading Python 3.98", f"Python 3.98.1 ({place}/python3.98)"]
    assert stand_in.arguments() == ["python install --no-bin 3.98"]


async def test_a_python_without_a_bundled_pip_gets_one_from_the_index(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    script = stand_in.directory / "python3.99"
    script.write_text(PYTHON.replace('["/pip.whl"]', "[]"))
    await ImageStore(tmp_path / "cache", [catalog(BUILT)]).pull("me/built", nothing)
    first, second = stand_in.arguments()
    assert first.endswith(" -- pip")
    assert second.endswith(" -- one==1 two==2")


async def test_a_shim_for_a_python_that_is_not_installed_is_skipped(
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
    assert "set TRAINCREW_CACHE" in error.message


async def test_programs_of_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a directory", encoding="utf-8")
    store = ImageStore(tmp_path / "cache")
    environment = await store.pull("traincrew/helper:0.1.0", nothing)
    kubectl = environment.files["/usr/local/bin/kubectl"]
    assert os.access(kubectl, os.X_OK)
    again = await store.pull("traincrew/helper:0.1.0", nothing)
    assert again.files["/usr/local/bin/kubectl"] == kubectl
    assert store._programs._private is not None
    store._programs._private.cleanup()


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

    built = listed["built"].path
    assert built is not None
    await store.remove(built, nothing)
    await store.remove(built, nothing)
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
    assert "installing pip" in lines
    result = await asyncio.to_thread(
        subprocess.run,
        ["python3", "-c", "import greeting, sys; print(greeting.TEXT, sys.prefix)"],
        env=dict(environment.variables),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"hello {environment.prefix}\n"
    # Compiled once here, not by each pod.
    assert environment.prefix is not None
    packages = environment.prefix / "lib" / f"python{version}" / "site-packages"
    assert list(packages.glob("__pycache__/greeting.*.pyc"))


async def test_a_missing_program_of_the_machine_is_named_with_its_fix(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = """
    environments:
    - name: x
      images: [x]
      machinePrograms: {sh: any Unix has it, no-such-sshd: "apt-get install openssh-server"}
    """
    store = ImageStore(tmp_path / "cache", [catalog(text)])
    wanted = (
        'image "x": environment "x": it uses programs of this machine that are not installed: '
        "no-such-sshd (apt-get install openssh-server)"
    )
    error = await refused(store, "x")
    assert error.message == wanted
    assert error.permanent
    with pytest.raises(ImagePullError, match="no-such-sshd"):
        store.check("x")


async def test_nobody_else_can_write_the_cache_whatever_the_umask_is(
    tmp_path: Path, catalog: Catalog, stand_in: StandIn
) -> None:
    stand_in.pip(
        'packages="${4%/bin/python}/lib/python3.99/site-packages"\n'
        'mkdir -p "$packages" && : > "$packages/one.py"'
    )
    (tmp_path / "tool.py").write_text("#!/usr/bin/env python\n", encoding="utf-8")
    (tmp_path / "own.py").write_text("", encoding="utf-8")
    own = catalog(
        """
        environments:
        - name: x
          images: [x]
          python: "3.99"
          requirements: [one==1]
          programs: {/usr/bin/tool: tool.py}
          files: {"{packages}/own.py": own.py}
        """
    )
    before = os.umask(0)
    try:
        environment = await ImageStore(tmp_path / "new" / "cache", [own]).pull("x", nothing)
    finally:
        os.umask(before)
    assert environment.prefix is not None
    written = {
        str(path.relative_to(tmp_path / "new"))
        for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]
        if not path.is_symlink() and path.stat().st_mode & 0o022
    }
    assert written == set()
    assert any(environment.prefix.rglob("one.py"))
