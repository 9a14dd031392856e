"""MPIClusters on an embedded cluster of somebody whom the machine gives nothing.

sshd refuses accounts that are locked, and runs commands by their shell in their home directory:
nobody has neither, and a number without an entry in /etc/passwd has not even a name.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from suites.nobody import NOBODY, usable_python
from suites.openmpi_user import EXAMPLES

from . import mpiclusters
from .mpiclusters import NEEDS_SSHD

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
UNKNOWN = 2_000_000_125
"""A user of no machine."""
PYTHON = usable_python() if os.geteuid() == 0 else None
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user"),
    NEEDS_SSHD,
    pytest.mark.skipif(
        os.geteuid() == 0 and PYTHON is None,
        reason="no interpreter of this version that another user may run",
    ),
]


class Stranger(mpiclusters.User):
    """Another user, who may only read this project.

    Args:
        uid: The user's number, which is the group's as well.
        home: A directory of the user's.
        cache: Of environments.
    """

    def __init__(self, uid: int, home: Path, cache: Path) -> None:
        super().__init__(home, cache)
        self.uid = uid
        programs = home / "bin"
        programs.mkdir()
        command = programs / "traincrew"
        text = "import sys; from traincrew.cli.main import main; sys.exit(main())"
        command.write_text(f"#!{PYTHON}\n{text}\n")
        command.chmod(0o755)
        shutil.copy2(Path(sys.executable).with_name("uv"), programs)
        kubectl = shutil.which("kubectl")
        if kubectl is not None:
            shutil.copy2(kubectl, programs)
        self.environment |= {
            "PATH": f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{PROJECT / 'src'}:{sysconfig.get_path('purelib')}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for path in (home, programs):
            os.chown(path, uid, uid)

    def does(self, *command: str, code: int | None = 0, given: str | None = None) -> str:
        """Run a command as this user."""
        who = ("setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        return super().does(*who, *command, code=code, given=given)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A directory that others may enter, unlike those of pytest."""
    found = Path("/tmp") / f"traincrew-strangers-{os.getpid()}"
    found.mkdir(mode=0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module", params=[NOBODY, UNKNOWN], ids=["nobody", "a number"])
def user(directory: Path, request: pytest.FixtureRequest) -> Stranger:
    """Nobody, and somebody without a name; each has a cache, because that of another is refused."""
    home = directory / str(request.param)
    cache = directory / f"cache-{request.param}"
    home.mkdir()
    cache.mkdir()
    os.chown(cache, request.param, request.param)
    return Stranger(request.param, home, cache)


def test_processes_start_in_other_pods(user: Stranger) -> None:
    output = user.traincrew("run", "-f", str(EXAMPLES / "one-shot.yaml"))
    assert "Succeeded" in output
    assert "3 process(es), 479 images each" in output
    # Each session of ssh would complain.
    assert "chdir" not in output
