"""Certificate requests of anybody are read, or refused with a reason."""

from __future__ import annotations

import base64
import contextlib

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_csr
from hypothesis import given, settings
from hypothesis import strategies as st

from local.certificates import request
from traincrew.local.certificaterequests import RequestError, certificate_fault, parse_request

VALID = request("jane", "dev", "ops", dns="a.example", ip="10.0.0.1", email="a@b.c")
DER = load_pem_x509_csr(base64.b64decode(VALID)).public_bytes(Encoding.DER)


def packed(der: bytes) -> str:
    body = base64.encodebytes(der).decode()
    text = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    return base64.b64encode(text.encode()).decode()


def test_what_a_request_asks_for() -> None:
    found = parse_request(VALID)
    assert (found.common_name, found.organizations) == ("jane", ["dev", "ops"])
    assert (found.dns_names, found.addresses) == (["a.example"], ["10.0.0.1"])
    assert (found.emails, found.uris) == (["a@b.c"], [])
    assert parse_request(packed(DER))[:6] == found[:6]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(DER) - 1), st.binary(min_size=0, max_size=6))
def test_changed_requests_are_refused(place: int, replacement: bytes) -> None:
    changed = DER[:place] + replacement + DER[place + len(replacement) :]
    if changed != DER:
        with pytest.raises(RequestError):
            parse_request(packed(changed))


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=400).map(packed), st.text(max_size=200)))
def test_anything_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(RequestError):
        parse_request(text)
    assert certificate_fault(text)


def test_a_request_is_bounded() -> None:
    large = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----" + b"A" * 70_000).decode()
    with pytest.raises(RequestError, match="more than 65536 bytes"):
        parse_request(large)
