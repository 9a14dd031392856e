"""DNS messages, checked by another implementation (dnspython)."""

from __future__ import annotations

from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.node.network.messages import (
    Code,
    MalformedError,
    Record,
    RecordType,
    encode_name,
    parse,
    refuse,
    respond,
)

LABEL = st.from_regex(r"[a-z0-9_]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join).filter(lambda name: len(name) < 250)


def question(
    name: str = "a.default.svc.cluster.local", kind: str = "A", **options: object
) -> bytes:
    return dns.message.make_query(name, kind, id=7, **options).to_wire()  # type: ignore[arg-type]


@given(NAME, st.sampled_from(["A", "AAAA", "SRV", "PTR", "TXT"]))
def test_queries_are_parsed(name: str, kind: str) -> None:
    query = parse(question(name.upper(), kind))
    assert query.name == name
    assert query.kind == dns.rdatatype.from_text(kind)
    assert query.recursion_desired
    assert (query.size, query.extended) == (512, False)


@pytest.mark.parametrize(("offered", "taken"), [(100, 512), (1232, 1232), (65000, 4096)])
def test_the_client_limits_the_size(offered: int, taken: int) -> None:
    query = parse(question(use_edns=0, payload=offered))
    assert (query.size, query.extended) == (taken, True)


@pytest.mark.parametrize("options", [{}, {"use_edns": 0, "payload": 1232}])
def test_answers_are_understood(options: dict[str, Any]) -> None:
    wire = question("s.default.svc.cluster.local", **options)
    records = [Record.address("127.64.0.1"), Record.address("127.64.0.2")]
    answer = dns.message.from_wire(respond(parse(wire), records, seconds=7, authority="zone"))

    assert answer.is_response is not None
    assert dns.message.from_wire(wire).is_response(answer)
    assert answer.rcode() == dns.rcode.NOERROR
    assert answer.flags & dns.flags.AA
    assert answer.edns == (0 if options else -1)
    (found,) = answer.answer
    assert (found.name.to_text(), found.ttl) == ("s.default.svc.cluster.local.", 7)
    assert sorted(each.address for each in found) == ["127.64.0.1", "127.64.0.2"]


def test_ports_and_names_are_understood() -> None:
    srv = respond(parse(question("_http._tcp.s.x", "SRV")), [Record.service(8080, "p.s.x")])
    (found,) = dns.message.from_wire(srv).answer[0]
    assert (found.port, found.target.to_text()) == (8080, "p.s.x.")

    ptr = respond(parse(question("1.0.64.127.in-addr.arpa", "PTR")), [Record.pointer("s.x")])
    assert dns.message.from_wire(ptr).answer[0][0].to_text() == "s.x."


def test_negative_answers_can_be_cached() -> None:
    wire = respond(parse(question()), code=Code.NAME_ERROR, authority="cluster.local")
    answer = dns.message.from_wire(wire)
    assert answer.rcode() == dns.rcode.NXDOMAIN
    assert answer.authority[0].rdtype == dns.rdatatype.SOA
    assert answer.authority[0][0].minimum == 5


def test_answers_that_do_not_fit_are_truncated() -> None:
    records = [Record.address(f"127.42.{n // 250}.{n % 250}") for n in range(1000)]
    query = parse(question())
    short = dns.message.from_wire(respond(query, records))
    assert short.flags & dns.flags.TC
    assert short.answer == []

    (whole,) = dns.message.from_wire(respond(query, records, stream=True)).answer
    assert len(whole) == 1000


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", None),
        (b"\0" * 11, None),
        (respond(parse(question())), None),
        (question()[:20], Code.FORMAT_ERROR),
        (question()[:4] + b"\0\2" + question()[6:], Code.FORMAT_ERROR),
        # A first name that is compressed points to itself.
        (question()[:12] + b"\xc0\x0c\0\1\0\1", Code.FORMAT_ERROR),
        (question()[:12] + b"\x01\xff\0\0\1\0\1", Code.FORMAT_ERROR),
        (question()[:12] + b"\x3fa" * 100, Code.FORMAT_ERROR),
        (question(rdclass=3), Code.NOT_IMPLEMENTED),
        (question()[:2] + b"\x28" + question()[3:], Code.NOT_IMPLEMENTED),
    ],
    ids=range(10),
)
def test_messages_that_are_no_queries(message: bytes, code: Code | None) -> None:
    with pytest.raises(MalformedError) as caught:
        parse(message)
    assert caught.value.code == code
    if code is not None:
        answer = dns.message.from_wire(refuse(message, code), ignore_trailing=True)
        assert int(answer.rcode()) == code
        assert answer.id == int.from_bytes(message[:2])


@given(st.binary(max_size=100))
def test_any_bytes_are_parsed_or_rejected(message: bytes) -> None:
    try:
        query = parse(message)
    except MalformedError:
        return
    assert respond(query, [Record(RecordType.A, b"\x7f\0\0\1")])[:2] == message[:2]


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, ".".join(["x" * 60] * 5)])
def test_invalid_names(name: str) -> None:
    with pytest.raises(ValueError, match="DNS name"):
        encode_name(name)
