"""The user's settings of pip, translated for uv, which does not read them.

Companies configure their package index, proxy and certificates in ``pip.conf`` or ``PIP_*``, and
environments must be built from there. Settings for uv itself (``UV_*``, ``uv.toml``) win.

Source: https://pip.pypa.io/en/stable/topics/configuration/ and
https://docs.astral.sh/uv/reference/environment/.
"""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["pip_settings", "uv_variables"]

_MACHINE = Path("/etc/pip.conf")
_SECTIONS = ("global", "install")
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options pip would use for ``pip install``, by their long names.

    Files that cannot be read or parsed are skipped.
    """
    settings: dict[str, str] = {}
    for path in _files(environment):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
        for section in _SECTIONS:
            if parser.has_section(section):
                settings |= {_key(name): value for name, value in parser.items(section)}
    for name, value in environment.items():
        if name.startswith("PIP_") and value and name != "PIP_CONFIG_FILE":
            settings[_key(name.removeprefix("PIP_"))] = value
    return settings


def uv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make uv use the index, proxy and certificates that pip would use."""
    pip = pip_settings(environment)
    found: dict[str, str] = {}
    if url := pip.get("index-url"):
        found["UV_DEFAULT_INDEX"] = url.strip()
    if urls := pip.get("extra-index-url"):
        found["UV_INDEX"] = " ".join(urls.split())
        # pip takes the best version of all indexes; uv stops at the first one with the package.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if links := pip.get("find-links"):
        found["UV_FIND_LINKS"] = ",".join(_place(link) for link in links.split())
    if _is_true(pip.get("no-index")):
        found["UV_NO_INDEX"] = "1"
    if hosts := pip.get("trusted-host"):
        found["UV_INSECURE_HOST"] = " ".join(hosts.split())
    if certificates := pip.get("cert"):
        found["SSL_CERT_FILE"] = _place(certificates.strip())
    if certificate := pip.get("client-cert"):
        found["SSL_CLIENT_CERT"] = _place(certificate.strip())
    if proxy := pip.get("proxy"):
        address = proxy.strip() if "://" in proxy else f"http://{proxy.strip()}"
        found |= {"HTTP_PROXY": address, "HTTPS_PROXY": address}
    if constraints := pip.get("constraint"):
        found["UV_CONSTRAINT"] = " ".join(_place(one) for one in constraints.split())
    if _is_true(pip.get("pre")):
        found["UV_PRERELEASE"] = "allow"
    return {name: value for name, value in found.items() if not _is_set(environment, name)}


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return name in environment or name.lower() in environment


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() in _TRUE


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


def _place(text: str) -> str:
    """Make a path absolute; leave URLs unchanged."""
    return text if "://" in text else str(Path(text).expanduser().absolute())


def _files(environment: Mapping[str, str]) -> list[Path]:
    """Return pip's configuration files, from the weakest to the strongest."""
    own = environment.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return []
    home = Path(environment.get("HOME") or Path.home())
    shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files = [Path(directory) / "pip/pip.conf" for directory in reversed(shared) if directory]
    files.append(_MACHINE)
    if sys.platform == "darwin":
        files = [Path("/Library/Application Support/pip/pip.conf")]
        files.append(home / "Library/Application Support/pip/pip.conf")
    files.append(home / ".pip/pip.conf")
    files.append(Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    files.append(Path(sys.prefix) / "pip.conf")
    if own:
        files.append(Path(own))
    return files
