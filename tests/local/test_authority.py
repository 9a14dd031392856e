"""The certificates of a cluster: file permissions, and their verification by clients."""

import os
import ssl
import time
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from traincrew.local.authority import (
    SERVER_NAMES,
    Certificate,
    make_certificate,
    stored_certificate,
)


@pytest.fixture
def made(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path, [IPv4Address("127.64.0.1")])


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Perform a handshake in memory; raise the client's verification error."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not ends


def test_only_the_owner_can_read_the_key_and_nothing_else_is_left(
    made: Certificate, tmp_path: Path
) -> None:
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["apiserver.crt", "apiserver.key", "ca.crt"]
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
    # The CA's own key is not stored: nobody can sign another certificate.
    text = "".join(each.read_text() for each in tmp_path.iterdir())
    assert text.count("PRIVATE KEY") == 2  # begin and end of one
    assert made.authority == (tmp_path / "ca.crt").read_text()


@pytest.mark.parametrize("name", ["127.0.0.1", "127.64.0.1", *SERVER_NAMES])
def test_clients_that_trust_the_authority_accept_the_server(made: Certificate, name: str) -> None:
    trusting = ssl.create_default_context(cadata=made.authority)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    handshake(made.context(), trusting, name)


def test_other_servers_are_not_trusted(made: Certificate, tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cadata=made.authority)
    (tmp_path / "other").mkdir()
    impostor = make_certificate(tmp_path / "other", [IPv4Address("127.64.0.1")])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(impostor.context(), trusting, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made.context(), trusting, "10.0.0.1")


def test_certificates_have_the_extensions_strict_clients_require(made: Certificate) -> None:
    authority = x509.load_pem_x509_certificate(made.authority.encode())
    certificate = x509.load_pem_x509_certificate(made.path.read_bytes())
    certificate.verify_directly_issued_by(authority)
    extensions = certificate.extensions
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    # rustls refuses a server whose certificate is a CA's.
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    assert addresses == [ip_address("127.0.0.1"), ip_address("127.64.0.1")]


def test_a_stored_certificate_is_used_until_it_expires(made: Certificate, tmp_path: Path) -> None:
    assert stored_certificate(tmp_path) == made
    nine_years = time.time() - 9 * 366 * 86400
    os.utime(made.path, (nine_years, nine_years))
    assert stored_certificate(tmp_path) is None


@pytest.mark.parametrize("missing", ["apiserver.crt", "apiserver.key", "ca.crt"])
def test_an_incomplete_certificate_is_replaced(
    made: Certificate, tmp_path: Path, missing: str
) -> None:
    before = made.path.read_bytes()
    (tmp_path / missing).unlink()
    assert stored_certificate(tmp_path) is None
    assert make_certificate(tmp_path).path.read_bytes() != before
    made.context()
