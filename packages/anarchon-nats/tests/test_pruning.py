"""
Pruning: what may go, and that nothing else does.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anarchon.records import Retention
from anarchon_nats.history import Kept, kept_of
from anarchon_nats.pruning import prunable
from anarchon_nats.subjects import Subjects


def test_subjects_are_sorted_by_job() -> None:
    """
    A claim without an end is open; an end whose claim is gone has ended all the same.
    """
    subjects = Subjects("p")
    found = [
        *(subjects.claim("a.b", slot) for slot in (1, 2, 3)),
        *(subjects.end("a.b", slot) for slot in (0, 2)),
        subjects.claim("c", 7),
    ]

    assert {"a.b": Kept([3, 1], [2, 0]), "c": Kept([7], [])} == kept_of(subjects, found)


@given(
    claims=st.sets(st.integers(0, 60)),
    ends=st.sets(st.integers(0, 60)),
    records=st.integers(1, 20),
    safe_until=st.integers(-1, 60),
    aged_until=st.none() | st.integers(-1, 60),
)
def test_only_old_ended_runs_beyond_the_retention_go(
    claims: set[int], ends: set[int], records: int, safe_until: int, aged_until: int | None
) -> None:
    """
    An open run stays, a slot that may still be claimed stays, and so do the newest ones that are young enough.
    """
    kept = Kept(sorted(claims - ends, reverse=True), sorted(ends, reverse=True))
    beyond, aged = prunable(
        kept, Retention(records_per_job=records), safe_until=safe_until, aged_until=aged_until
    )
    newest = set(kept.ended[:records])

    assert set(beyond) == {slot for slot in ends - newest if slot <= safe_until}
    assert set(aged) == {
        slot
        for slot in newest
        if aged_until is not None and slot <= aged_until and slot <= safe_until
    }
    assert len(beyond) == len(set(beyond) - set(aged))
