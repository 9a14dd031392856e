"""Pod records as they are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.plan.shared.podrecords.text import PodRecord, read, short_id, texts

EARLY, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
UID = "8c2f4f1e-0000-4000-8000-{:012d}"

records = st.dictionaries(
    st.sampled_from(["master", "worker", "ws-1", *(f"{s}-{i}" for s in "ab" for i in range(12))]),
    st.builds(
        PodRecord,
        uid=st.integers(0, 30).map(lambda number: short_id(UID.format(number))),
        created=st.sampled_from([EARLY, LATE]),
        restarts=st.sampled_from([0, 1, 12345]),
        was_ready=st.booleans(),
        released=st.booleans(),
        failed=st.booleans(),
        stalled=st.booleans(),
    ),
)


@given(records)
def test_records_survive_being_stored(kept: dict[str, PodRecord]) -> None:
    stored = texts(kept)
    assert read(stored) == kept
    assert texts(dict(reversed(kept.items()))) == stored
    assert len(stored) <= 5  # roles


def test_pods_in_the_same_state_share_one_text() -> None:
    def record(index: int, **fields: Any) -> PodRecord:
        return PodRecord(uid=f"id{index:02}", **{"created": EARLY, **fields})

    kept = {f"worker-{index}": record(index, was_ready=True) for index in range(4)}
    kept["worker-4"] = record(4, created=LATE, restarts=2, released=True, failed=True)
    kept["worker-6"] = record(6, created=LATE)
    kept["worker-7"] = record(7, created=LATE, failed=True, failures=12)
    kept["master"] = record(9)
    assert texts(kept) == {
        "master": f"{EARLY} /0/id09",
        "worker": f"{EARLY} 0-3/0r/id00id01id02id03 {LATE} 6/0/id06 7/0fb12/id07 4/2xf/id04",
    }
    assert read(texts(kept)) == kept


def test_a_thousand_workers_are_one_short_entry() -> None:
    kept = {
        f"worker-{index}": PodRecord(
            uid=short_id(UID.format(index)),
            created=f"2026-01-01T10:00:{index // 50:02}Z",
            was_ready=index % 100 != 0,
        )
        for index in range(1000)
    }
    stored = texts(kept)
    assert list(stored) == ["worker"]
    assert len(json.dumps(stored)) < 6000


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a b", "a b c", None, 5, {"uid": "a"}, f"{EARLY} 0-3/0r", f"{EARLY} 0-3/0r/abc",
        f"{EARLY} 0/0r/abcdefgh", f"4fe1a0b2 {EARLY} 0 ready",
        f"{EARLY} 0-999999999/0/abcd", f"{EARLY} 0-99999999999999/0/abcd", f"{EARLY} 3-1/0/abcd",
        f"{EARLY} x/0/abcd", f"{EARLY} 0/z/abcd", f"{EARLY} 0/0/", f"{EARLY} 1,/0/abcd",
        "a b " + 5000 * "1", f"{EARLY} 0/{5000 * '1'}/abcd",
    ],
)  # fmt: skip
def test_malformed_records_are_left_out(text: object) -> None:
    assert read({"place": text}) == {}
