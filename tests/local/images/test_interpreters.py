"""The search for a Python interpreter."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from traincrew.local.images.interpreters import find_interpreter, probe

CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"


async def test_an_unreadable_directory_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glob = Path.glob

    def refused(path: Path, pattern: str) -> Iterator[Path]:
        if path == tmp_path / "versions":
            raise PermissionError(13, "Permission denied", str(path))
        return glob(path, pattern)

    monkeypatch.setattr(Path, "glob", refused)
    monkeypatch.setattr("sys.executable", "/bin/false")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.base_prefix, "bin", f"python{CURRENT}"))
    assert (await find_interpreter([CURRENT])).is_version(CURRENT)


async def test_the_newest_of_several_bundled_wheels_counts(tmp_path: Path) -> None:
    """Some Pythons are distributed with two versions of pip."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("pip-9.0.3", "pip-22.0.4", "pip-23.0.1", "setuptools-56.0.0"):
        (wheels / f"{name}-py3-none-any.whl").touch()
    python = tmp_path / "python3"
    python.write_text(
        f"""#!/bin/sh
exec "{sys.executable}" -I -c "import sysconfig
sysconfig.get_config_vars()['WHEEL_PKG_DIR'] = '{wheels}'
$3"
"""
    )
    python.chmod(0o755)

    found = (await probe(python)).bundled_wheels
    assert [wheel.name.split("-py3")[0] for wheel in found] == ["pip-23.0.1", "setuptools-56.0.0"]
