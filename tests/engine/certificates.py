"""A certificate authority for one test session, made with the openssl command.

The command is installed on every machine that can build Python or run git over https: Debian, macOS
(LibreSSL) and the CI image. Where it is missing, tests fail with a message rather than skip.
"""

import shutil
import subprocess
from pathlib import Path


class Authority:
    """A CA in a directory; it issues ``name.crt`` and ``name.key``."""

    def __init__(self, directory: Path) -> None:
        assert shutil.which("openssl"), "these tests need the openssl command; install openssl"
        self.directory = directory
        self._run("genpkey", *_CURVE, "-out", "ca.key")
        self._config(
            "ca",
            "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign",
            "traincrew test CA",
        )
        self._run(
            *("req", "-x509", "-new", "-key", "ca.key", "-days", "2", "-sha256"),
            *("-config", "ca.cnf", "-extensions", "ext", "-out", "ca.crt"),
        )

    def issue(self, name: str, subject: str, alternatives: str = "", usage: str = "") -> None:
        """Write ``name.crt`` and ``name.key``."""
        extensions = f"extendedKeyUsage={usage or 'clientAuth'}"
        if alternatives:
            extensions += f"\nsubjectAltName={alternatives}"
        self._config(name, extensions, subject)
        self._run("genpkey", *_CURVE, "-out", f"{name}.key")
        self._run(
            *("req", "-new", "-key", f"{name}.key", "-config", f"{name}.cnf"),
            *("-out", f"{name}.csr"),
        )
        self._run(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "2", "-sha256", "-extfile", f"{name}.cnf"),
            *("-extensions", "ext", "-out", f"{name}.crt"),
        )

    def _config(self, name: str, extensions: str, subject: str) -> None:
        text = f"[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN={subject}\n[ext]\n{extensions}\n"
        (self.directory / f"{name}.cnf").write_text(text)

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.directory, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


_CURVE = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
