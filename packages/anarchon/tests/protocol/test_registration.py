"""
Registration: what makes a job new, what moves since, and what moves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anarchon.backend import RegisterAnswer, RegisterRequest
from anarchon.errors import RequestError
from anarchon.protocol import Change, JobState, Live, Now, decide_register

SLOT = 1_000_000
NOW = Now(SLOT + 20_000, 500_000, "boot-1")
LIVE = Live(
    slot=SLOT,
    attempt=1,
    token="t1",
    instance_id="host:1",
    lease_ms=30_000,
    lease_until_ms=NOW.lease_ms + 10_000,
    lease_clock="boot-1",
)
STATE = JobState(high=SLOT, fingerprint="f1", zone_digests="d1", since_ms=7)


def registered(
    state: JobState | None, slot: int | None = SLOT, **options: Any
) -> Change[RegisterAnswer]:
    """
    Decide a registration now.
    """
    return decide_register(state, RegisterRequest(job="job", slot=slot, **options), NOW)


@pytest.mark.parametrize("slot", [SLOT, None])
def test_job_without_a_row_is_new(slot: int | None) -> None:
    """
    It has missed nothing: its last slot counts as past.
    """
    change = registered(None, slot, fingerprint="f1", zone_digests="d1")

    assert RegisterAnswer(new=True, store_now_ms=NOW.wall_ms, high=slot) == change.answer
    assert JobState(high=slot, fingerprint="f1", zone_digests="d1") == change.state


def test_empty_high_is_not_new() -> None:
    """
    A one-off job that was registered before its time is known.
    """
    change = registered(JobState(), SLOT)

    assert (False, None) == (change.answer.new, change.answer.high)
    assert change.state is None


@pytest.mark.parametrize("state", [None, STATE])
def test_slot_ahead_of_the_store_is_refused(state: JobState | None) -> None:
    """
    Trap: taken by a fast clock, it shuts a new job until then.
    """
    with pytest.raises(RequestError, match="1 ms ahead"):
        registered(state, NOW.wall_ms + 1)

    assert NOW.wall_ms == registered(None, NOW.wall_ms).answer.high


def test_known_job_is_told_and_not_moved() -> None:
    """
    A later slot of who starts now is no grant.
    """
    change = registered(
        replace(STATE, live=LIVE), SLOT + 1_000, fingerprint="f1", zone_digests="d1"
    )

    assert (False, SLOT, 7, "f1", "d1") == (
        change.answer.new,
        change.answer.high,
        change.answer.since_ms,
        change.answer.fingerprint,
        change.answer.zone_digests,
    )
    assert change.answer.run is not None
    assert (SLOT, 1, 10_000, "host:1") == (
        change.answer.run.slot,
        change.answer.run.attempt,
        change.answer.run.remaining_ms,
        change.answer.run.instance_id,
    )
    assert change.state is None


def test_changed_fingerprint_sets_since() -> None:
    """
    A changed schedule starts from its change.
    """
    change = registered(STATE, fingerprint="f2", zone_digests="d2")

    assert (NOW.wall_ms, "f1", "d1") == (
        change.answer.since_ms,
        change.answer.fingerprint,
        change.answer.zone_digests,
    )
    assert replace(STATE, fingerprint="f2", zone_digests="d2", since_ms=NOW.wall_ms) == change.state


def test_first_fingerprint_is_no_change() -> None:
    """
    A job that had none has not changed.
    """
    change = registered(replace(STATE, fingerprint=None), fingerprint="f1", zone_digests="d1")

    assert 7 == change.answer.since_ms
    assert STATE == change.state


def test_no_fingerprint_changes_nothing() -> None:
    """
    A schedule of the user's own never counts as changed.
    """
    change = registered(STATE, fingerprint=None, zone_digests="d9")

    assert (7, None) == (change.answer.since_ms, change.state)


def test_zone_digests_are_no_change() -> None:
    """
    New rules for a zone are written down, and move nothing.
    """
    change = registered(STATE, fingerprint="f1", zone_digests="d2")

    assert (7, "d1") == (change.answer.since_ms, change.answer.zone_digests)
    assert replace(STATE, zone_digests="d2") == change.state


def test_lease_of_another_boot_is_noted() -> None:
    """
    Who starts after a reboot sees the run with one whole lease.
    """
    foreign = replace(STATE, live=replace(LIVE, lease_clock="boot-0", lease_until_ms=1))
    change = registered(foreign)

    assert change.answer.run is not None
    assert 30_000 == change.answer.run.remaining_ms
    assert change.state is not None
    assert change.state.live is not None
    assert (("boot-1", NOW.lease_ms + 30_000),) == change.state.live.elsewhere
