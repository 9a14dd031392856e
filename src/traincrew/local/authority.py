"""The certificate of a cluster's API server.

Clients inside pods find the server by their service account, and then insist on TLS. The
certificate is signed by itself, so that it is the authority of the cluster, too; it is made once
for each cluster by the machine's `openssl`. Without that program the cluster has no TLS.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from traincrew.engine.logs import get_logger

__all__ = ["Certificate", "server_certificate"]

_PROGRAM = "openssl"
_SECONDS = 20.0
_DAYS = 3650
_CONFIG = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = traincrew
[extensions]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes, DNS:kubernetes.default, \
DNS:kubernetes.default.svc, DNS:kubernetes.default.svc.cluster.local
"""


class Certificate(NamedTuple):
    """A certificate and its key, as files.

    Attributes:
        path: The certificate, which is its own authority (PEM).
        key: Its key (PEM, mode 0600).
    """

    path: Path
    key: Path

    @property
    def text(self) -> str:
        """The certificate, for clients to trust."""
        return self.path.read_text()

    def context(self) -> ssl.SSLContext:
        """What a server needs to listen with.

        Raises:
            OSError: The files cannot be read, or are not what they should be.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def server_certificate(directory: Path) -> Certificate | None:
    """The certificate of the cluster in a directory; made if it is not there yet.

    Args:
        directory: Exists, and belongs to the cluster alone.

    Returns:
        None where it cannot be made: there is no `openssl`, or it does not do what it should.

    Raises:
        OSError: The directory cannot be written.
    """
    found = Certificate(directory / "apiserver.crt", directory / "apiserver.key")
    if found.path.exists() and found.key.exists():
        return found
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    with tempfile.TemporaryDirectory(dir=directory) as name:
        made = Certificate(Path(name) / "crt", Path(name) / "key")
        config = Path(name) / "config"
        config.write_text(_CONFIG)
        request = [program, "req", "-x509", "-config", str(config), "-days", str(_DAYS), "-nodes"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        files = ["-out", str(made.path), "-keyout", str(made.key)]
        try:
            subprocess.run(
                [*request, *curve, *files],
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            why = (getattr(error, "stderr", "") or str(error)).strip()
            get_logger(component="cluster").warning("openssl makes no certificate", why=why)
            return None
        made.key.chmod(0o600)
        made.key.replace(found.key)
        # Last, because its presence says that both are there.
        made.path.replace(found.path)
    return found
