"""
What stands in the log comes back as it was written, and what is not ours is told apart.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anarchon.records import Reason, Status
from anarchon_rabbitmq.entries import (
    MESSAGE_TYPE,
    ClaimEntry,
    Entry,
    FinishEntry,
    NewerLayoutError,
    cut,
    decode,
    encode,
)

TEXTS = st.text(st.characters(exclude_categories=()))
SLOTS = st.integers(-(2**63), 2**63)
CLAIMS = st.builds(ClaimEntry, job=TEXTS, slot=SLOTS, token=TEXTS, instance_id=TEXTS)
FINISHES = st.builds(
    FinishEntry,
    job=TEXTS,
    slot=SLOTS,
    token=TEXTS,
    instance_id=TEXTS,
    claimed_ms=SLOTS,
    status=st.sampled_from(Status),
    reason=st.none() | st.sampled_from(Reason),
    error=st.none() | TEXTS,
    started_ms=st.none() | SLOTS,
)
ENTRIES = st.lists(CLAIMS | FINISHES, max_size=5)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(entries=ENTRIES, written_ms=SLOTS)
def test_a_message_comes_back_as_it_was(entries: list[Entry], written_ms: int) -> None:
    """
    Any text and any slot survive, also texts that UTF-8 cannot hold.
    """
    message = decode(7, MESSAGE_TYPE, encode("mark", written_ms, entries))

    assert message is not None
    assert (7, "mark", written_ms, tuple(entries)) == (
        message.offset,
        message.mark,
        message.written_ms,
        message.entries,
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (None, b"[]"),
        ("text", b"[]"),
        (MESSAGE_TYPE, b"\xff"),
        (MESSAGE_TYPE, b"{}"),
        (MESSAGE_TYPE, b'["mark",1]'),
        (MESSAGE_TYPE, b'["mark",1,[["job",1]]]'),
        (MESSAGE_TYPE, b'["mark",1,[["job",1,"t","i",1,"asleep",null,null,null]]]'),
    ],
)
def test_what_is_not_ours_is_passed_over(kind: str | None, body: bytes) -> None:
    """
    A stranger's message, or one that is damaged, says nothing; every instance finds it so.
    """
    assert decode(1, kind, body) is None


def test_a_later_layout_is_told(prefix: str) -> None:
    """
    Whoever cannot read what a later version has written must not go on.
    """
    with pytest.raises(
        NewerLayoutError, match="'anarchon/2', where this version reads 'anarchon/1'"
    ):
        decode(1, "anarchon/2", prefix.encode())


def test_long_batches_are_cut() -> None:
    """
    A message has at most 256 entries and some 250,000 bytes; one entry alone is never cut.
    """
    short = [ClaimEntry(job="j", slot=n, token="t", instance_id="i") for n in range(600)]
    long = [ClaimEntry(job="j", slot=n, token="t", instance_id="i" * 300_000) for n in range(3)]

    assert [256, 256, 88] == [len(piece) for piece in cut(short)]
    assert [1, 1, 1] == [len(piece) for piece in cut(long)]
    assert short == [entry for piece in cut(short) for entry in piece]
    assert [] == list(cut([]))
