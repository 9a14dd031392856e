"""Who may use the page."""

import pytest

from traincrew.cli.page.access import MOST_SESSIONS, Access

PORT = 4321
OWN = {"Host": f"127.0.0.1:{PORT}"}


def test_a_token_is_valid_once() -> None:
    access = Access(PORT)
    token = access.new_token()

    session = access.exchange(token)
    assert session is not None
    assert access.is_session(f"Bearer {session}")
    assert access.exchange(token) is None


@pytest.mark.parametrize("given", ["", "wrong", "ü", "x" * 10_000])
def test_another_token_is_not_valid(given: str) -> None:
    access = Access(PORT)
    token = access.new_token()

    assert access.exchange(given) is None
    assert access.exchange(token) is not None


def test_no_token_is_not_valid() -> None:
    assert Access(PORT).exchange("") is None


def test_a_new_token_takes_the_place_of_the_one_before() -> None:
    access = Access(PORT)

    first = access.new_token()
    second = access.new_token()
    assert access.exchange(first) is None
    assert access.exchange(second) is not None


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Bearer x", "Basic x", "Bearer ü"])
def test_what_is_no_session(header: str) -> None:
    access = Access(PORT)
    access.exchange(access.new_token())

    assert not access.is_session(header)


def test_sessions_are_bounded() -> None:
    access = Access(PORT)
    sessions = [access.exchange(access.new_token()) for _ in range(MOST_SESSIONS + 1)]

    assert not access.is_session(f"Bearer {sessions[0]}")
    assert all(access.is_session(f"Bearer {each}") for each in sessions[1:])


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"Host": f"localhost:{PORT}"},
        {"Host": f"[::1]:{PORT}"},
        {**OWN, "Origin": f"http://127.0.0.1:{PORT}"},
        {**OWN, "Sec-Fetch-Site": "none"},
        {**OWN, "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_requests_of_the_page(headers: dict[str, str]) -> None:
    assert Access(PORT).refusal(headers) == ""


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "attacker.example"},
        {"Host": f"attacker.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1:{PORT + 1}"},
        {"Host": f"127.0.0.1.attacker.example:{PORT}"},
        {**OWN, "Origin": "null"},
        {**OWN, "Origin": "http://attacker.example"},
        {**OWN, "Origin": f"https://127.0.0.1:{PORT}"},
        {**OWN, "Origin": f"http://127.0.0.1:{PORT + 1}"},
        {**OWN, "Origin": f"http://localhost:{PORT}"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_from_elsewhere(headers: dict[str, str]) -> None:
    assert Access(PORT).refusal(headers)
