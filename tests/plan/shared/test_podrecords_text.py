"""Pod records as they are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.elasticjob.world import ElasticWorld, elastic
from traincrew.api.meta import ObjectMeta
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.model import ContainerStatus, PodStatusView, PodView
from traincrew.plan.shared.podrecords_text import PodRecord, read, short_id, texts

EARLY, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
UID = "8c2f4f1e-0000-4000-8000-{:012d}"

records = st.dictionaries(
    st.sampled_from(["master", "worker", "ws-1", *(f"{s}-{i}" for s in "ab" for i in range(12))]),
    st.builds(
        PodRecord,
        uid=st.one_of(
            st.integers(0, 30).map(lambda number: short_id(UID.format(number))),
            st.sampled_from(["8c2f4f1e", "00000000"]),
        ),
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
        f"{EARLY} 0-999999999/0/abcd", f"{EARLY} 0-99999999999999/0/abcd", f"{EARLY} 3-1/0/abcd",
        f"{EARLY} x/0/abcd", f"{EARLY} 0/z/abcd", f"{EARLY} 0/0/", f"{EARLY} 1,/0/abcd",
        "a b " + 5000 * "1", f"{EARLY} 0/{5000 * '1'}/abcd",
    ],
)  # fmt: skip
def test_malformed_records_are_left_out(text: object) -> None:
    assert read({"place": text}) == {}


# -- of earlier versions --------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["ready"], ["ready", "released"], ["failed"]])
def test_records_of_an_earlier_version_are_read(flags: list[str]) -> None:
    text = " ".join(["8c2f4f1e", EARLY, "7", *flags])
    assert read({"worker-0": text}) == {
        "worker-0": PodRecord(
            uid="8c2f4f1e",
            created=EARLY,
            restarts=7,
            was_ready="ready" in flags,
            released="released" in flags,
            failed="failed" in flags,
        )
    }


def _pod(number: int, created: str = EARLY, restarts: int = 0) -> PodView:
    uid = f"{number:08x}-0000-4000-8000-000000000000"
    return PodView(
        metadata=ObjectMeta(name=f"pod-{number}", uid=uid, creation_timestamp=created),
        status=PodStatusView(container_statuses=[ContainerStatus(restart_count=restarts)]),
    )


@pytest.mark.parametrize(
    ("flags", "pods", "counted"),
    [
        ("", [_pod(1, restarts=2)], 0),
        ("", [_pod(1, restarts=3)], 1),
        ("", [_pod(2)], 1),
        ("", [_pod(2, LATE)], 1),
        ("", [_pod(1), _pod(2, LATE)], 1),
        (" released", [_pod(2, LATE)], 0),
        (" released", [_pod(1, restarts=3)], 0),
        ("", [], 0),
    ],
)
def test_an_upgrade_counts_every_restart_once(
    flags: str, pods: list[PodView], counted: int
) -> None:
    before = read({"worker-0": f"00000001 {EARLY} 2{flags}"})
    after, new = podrecords.count_restarts(before, {"worker-0": pods})
    assert new == {"worker-0": counted}
    stored = texts(after)
    assert list(stored) == ["worker"]
    assert podrecords.count_restarts(read(stored), {"worker-0": pods}) == (after, {"worker-0": 0})
    for pod in pods:
        assert podrecords.is_released(after, "worker-0", pod) == (
            bool(flags) and pod.metadata.uid.startswith("00000001")
        )


def test_an_upgrade_takes_one_status_write_and_changes_nothing_else() -> None:
    job = ElasticWorld(elastic(3)).begin()
    job.vanish("flowers-worker-1")
    job.settle()
    job.run()
    job.settle()
    status, writes = dict(job.status), job.writes
    job.store_old_records()
    assert set(job.status["podRecords"]) == {f"worker-{index}" for index in range(3)}
    job.settle()
    assert job.status == status
    assert status["restarts"] == 1
    assert job.writes == writes + 1
