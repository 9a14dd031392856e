"""PyTorch without CUDA where there is no GPU, if an index has such a build."""

from pathlib import Path

import pytest

from traincrew.local.images import ImageStore
from traincrew.local.images.installation import torch_builds
from traincrew.local.images.installation.torch_builds import REFUSED, Choice, choices, variant

REQUIREMENTS = ("numpy==2.2.6", "torch==2.13.0")
UV = """\
#!/bin/sh
case "$*" in
  venv*) for path; do :; done; mkdir -p "$path/bin"; cp /bin/true "$path/bin/python" ;;
  *"-- torch"*) echo "$*" >> "{log}" ;;
esac
case "$*" in *--dry-run*) exit {code} ;; esac
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Linux machine without a GPU and without a configured index."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(torch_builds, "_DEVICES", (str(tmp_path / "gpu"),))
    monkeypatch.setattr(torch_builds, "pip_settings", lambda _: {})
    for name in torch_builds._INDEX_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_from_pytorchs_own_index() -> None:
    assert list(choices(REQUIREMENTS, ())) == [Choice(("--torch-backend", "cpu"), REQUIREMENTS)]


def test_a_configured_index_is_used_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    local = Choice((), ("numpy==2.2.6", "torch==2.13.0+cpu"))
    assert list(choices(REQUIREMENTS, ("--default-index", "https://index.example.com/"))) == [local]
    monkeypatch.setattr(torch_builds, "pip_settings", lambda _: {"index-url": "https://x/"})
    assert list(choices(REQUIREMENTS, ())) == [local]


def test_with_a_gpu_or_without_torch_there_are_no_choices(tmp_path: Path) -> None:
    assert variant(REQUIREMENTS) == "cpu"
    assert list(choices(("numpy==2.2.6", "torchvision==0.1"), ())) == []
    (tmp_path / "gpu").touch()
    assert variant(REQUIREMENTS) == ""
    assert list(choices(REQUIREMENTS, ())) == []


@pytest.mark.parametrize("available", [True, False])
async def test_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    uv, log = tmp_path / "uv", tmp_path / "log"
    uv.write_text(UV.format(log=log, code=0 if available else 1))
    uv.chmod(0o755)
    python = tmp_path / "python3.99"
    python.write_text(
        "#!/bin/sh\n"
        f'echo \'{{"executable": "{python}", "prefix": "/", "version": "3.99.1", "wheels": []}}\'\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("traincrew.local.images.installation.uv.find_uv", lambda: str(uv))
    catalog = tmp_path / "own.yaml"
    catalog.write_text(
        "environments: [{name: t, images: [t], python: '3.99', requirements: [torch==2.13.0]}]\n"
    )
    lines: list[str] = []
    await ImageStore(tmp_path / "cache", [catalog]).pull("t", lines.append)
    tried, installed = log.read_text().splitlines()
    assert "--torch-backend cpu" in tried
    assert tried.endswith("--dry-run -- torch==2.13.0")
    assert ("--torch-backend cpu" in installed) is available
    assert (REFUSED in lines) is not available
