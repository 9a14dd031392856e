"""uv uses the index, the proxy and the certificates that pip would use."""

from pathlib import Path

import pytest

from traincrew.local.images.installation.pip_settings import uv_variables


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        "traincrew.local.images.installation.pip_settings._MACHINE", tmp_path / "none"
    )
    (tmp_path / ".config/pip").mkdir(parents=True)
    return tmp_path


def variables(home: Path, **environment: str) -> dict[str, str]:
    return uv_variables({"HOME": str(home), "XDG_CONFIG_DIRS": "/nowhere", **environment})


def configure(home: Path, text: str, name: str = ".config/pip/pip.conf") -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_users_file(home: Path) -> None:
    configure(
        home,
        """
        [global]
        index-url = https://index.example.com/simple
        extra-index-url =
            https://more.example.com/simple
            https://most.example.com/simple
        trusted-host = index.example.com more.example.com:8443
        proxy = proxy.example.com:3128
        client_cert = ~/client.pem
        [install]
        cert = /etc/company.pem
        find-links = /srv/wheels https://wheels.example.com/
        no-index = false
        """.replace("        ", "").replace("\nhttps", "\n    https"),
    )
    found = variables(home)
    assert found == {
        "UV_DEFAULT_INDEX": "https://index.example.com/simple",
        "UV_INDEX": "https://more.example.com/simple https://most.example.com/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "index.example.com more.example.com:8443",
        "HTTP_PROXY": "http://proxy.example.com:3128",
        "HTTPS_PROXY": "http://proxy.example.com:3128",
        "SSL_CERT_FILE": "/etc/company.pem",
        "SSL_CLIENT_CERT": str(Path("~/client.pem").expanduser()),
        "UV_FIND_LINKS": "/srv/wheels,https://wheels.example.com/",
    }


def test_the_environment_wins_over_files_and_uv_over_pip(home: Path) -> None:
    configure(home, "[global]\nindex-url = https://file.example.com/\ncert = /file.pem\n")
    found = variables(home, PIP_INDEX_URL="https://variable.example.com/", SSL_CERT_FILE="/own.pem")
    assert found == {"UV_DEFAULT_INDEX": "https://variable.example.com/"}
    assert "UV_DEFAULT_INDEX" not in variables(home, UV_DEFAULT_INDEX="https://own.example.com/")


def test_the_legacy_file_and_an_explicit_file(home: Path) -> None:
    configure(home, "[global]\nindex-url = https://old.example.com/\n", ".pip/pip.conf")
    assert variables(home)["UV_DEFAULT_INDEX"] == "https://old.example.com/"
    named = configure(home, "[install]\nindex-url = https://named.example.com/\n", "named.conf")
    found = variables(home, PIP_CONFIG_FILE=str(named))
    assert found["UV_DEFAULT_INDEX"] == "https://named.example.com/"
    assert variables(home, PIP_CONFIG_FILE="/dev/null") == {}


def test_no_index_and_constraints(home: Path) -> None:
    found = variables(home, PIP_NO_INDEX="1", PIP_PRE="yes", PIP_CONSTRAINT="/a.txt /b.txt")
    assert found == {
        "UV_NO_INDEX": "1",
        "UV_PRERELEASE": "allow",
        "UV_CONSTRAINT": "/a.txt /b.txt",
    }


@pytest.mark.parametrize("text", ["no section\n", "[global\n", "[global]\nindex-url\n"])
def test_an_invalid_file_is_skipped(home: Path, text: str) -> None:
    configure(home, text)
    assert variables(home) == {}
