"""A distributed ChainerJob trains for any paths of checkout, cache and home directory."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# Spaces, quotes, non-ASCII letters, and more characters than a `#!` line may have.
NAME = 'it\'s "my" projects/Übung 学習/' + "d" * 100 + "/" + "e" * 100


def test_the_example_trains(tmp_path: Path) -> None:
    place = tmp_path / NAME
    checkout, home = place / "checkout", place / "home"
    home.mkdir(parents=True)
    checkout.mkdir()
    for part in ("src", "examples", "pyproject.toml"):
        (checkout / part).symlink_to(REPOSITORY / part)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    python = checkout / ".venv/bin/python"
    # The packages installed here, without another installation.
    packages = next((checkout / ".venv/lib").glob("python3*")) / "site-packages"
    (packages / "here.pth").write_text(
        f"{checkout}/src\n{sysconfig.get_path('purelib')}\n", encoding="utf-8"
    )
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("TRAINCREW_")
    }
    result = subprocess.run(
        [python, "-m", "traincrew.cli", "run", "-f", "examples/chainer/chainerjob-mn.yaml"],
        cwd=checkout,
        env={**variables, "HOME": str(home), "TRAINCREW_CACHE": str(place / "cache")},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 process(es)" in result.stdout
    assert "ChainerJob digits-mn: Succeeded" in result.stdout
    # The scripts of the environment start, too.
    (program,) = (place / "cache/environments").glob("*/bin/f2py")
    shown = subprocess.run([program, "-v"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip()
