"""
Renewals, finishes and releases: valid for the live token, and told again when repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anarchon.backend import CloseAnswer, FinishRequest, ReleaseRequest, RenewAnswer, RenewRequest
from anarchon.errors import RequestError
from anarchon.protocol import (
    Change,
    JobState,
    Live,
    Now,
    RecordClose,
    RecordView,
    check_finish_status,
    decide_finish,
    decide_release,
    decide_renewal,
)
from anarchon.records import ERROR_CHARS_MAX, Reason, Status

SLOT = 1_000_000
NOW = Now(SLOT + 20_000, 500_000, "boot-1")
LIVE = Live(
    slot=SLOT,
    attempt=2,
    token="t2",
    instance_id="host:1",
    lease_ms=30_000,
    lease_until_ms=NOW.lease_ms + 10_000,
    lease_clock="boot-1",
)
STATE = JobState(high=SLOT, live=LIVE)
EXPIRED = replace(STATE, live=replace(LIVE, lease_until_ms=NOW.lease_ms - 1))
RELEASED = replace(STATE, live=replace(LIVE, token=None))
TAKEN_OVER = replace(STATE, live=replace(LIVE, attempt=3, token="t3"))
SUPERSEDED = JobState(high=SLOT + 1, live=replace(LIVE, slot=SLOT + 1, attempt=1, token="t4"))
ENDED = replace(STATE, live=None)
NOT_OWN = [None, ENDED, RELEASED, TAKEN_OVER, SUPERSEDED]
KEY: dict[str, Any] = {"job": "job", "slot": SLOT, "attempt": 2, "token": "t2"}


def renewed(state: JobState | None, **options: Any) -> Change[RenewAnswer]:
    """
    Decide a renewal now.
    """
    return decide_renewal(state, RenewRequest(**(KEY | {"lease_ms": 30_000} | options)), NOW)


def finished(
    state: JobState | None, record: RecordView | None = None, **options: Any
) -> Change[CloseAnswer]:
    """
    Decide a finish now.
    """
    request = FinishRequest(**(KEY | {"status": Status.SUCCESS} | options))
    return decide_finish(state, record, request, NOW)


def released(
    state: JobState | None, record: RecordView | None = None, **options: Any
) -> Change[CloseAnswer]:
    """
    Decide a release now.
    """
    return decide_release(state, record, ReleaseRequest(**(KEY | options)), NOW)


def record(status: Status, reason: Reason | None = None, token: str = "t2") -> RecordView:
    """
    Show a record.
    """
    return RecordView(token=token, status=status, reason=reason)


@pytest.mark.parametrize("state", [STATE, EXPIRED])
def test_live_token_renews(state: JobState) -> None:
    """
    Also after the lease has run out, as long as nobody has taken over.
    """
    change = renewed(state)

    assert RenewAnswer(held=True, store_now_ms=NOW.wall_ms, high=SLOT) == change.answer
    assert change.state is not None
    assert change.state.live is not None
    assert NOW.lease_ms + 30_000 == change.state.live.lease_until_ms


@pytest.mark.parametrize("state", NOT_OWN)
def test_lost_token_renews_nothing(state: JobState | None) -> None:
    """
    Ended, handed over, taken over, superseded or unknown: refused, and nothing changes.
    """
    change = renewed(state)

    assert not change.answer.held
    assert (None, ()) == (change.state, change.records)


@pytest.mark.parametrize("other", [{"token": "t9"}, {"attempt": 1}, {"slot": SLOT - 1}])
def test_stranger_renews_nothing(other: dict[str, Any]) -> None:
    """
    Token, attempt and slot must all be those of the live run.
    """
    assert not renewed(STATE, **other).answer.held


@pytest.mark.parametrize("close", [renewed, released])
def test_runners_word_voids_what_other_clocks_had_counted(close: Callable[..., Any]) -> None:
    """
    After a renewal, or a release, the runner's own clock judges the lease, and no other has begun to.
    """
    foreign = replace(LIVE, lease_clock="boot-0", elsewhere=(("boot-1", 5), ("boot-2", 6)))
    change = close(replace(STATE, live=foreign))

    assert change.state is not None
    assert change.state.live is not None
    assert ("boot-1", ()) == (change.state.live.lease_clock, change.state.live.elsewhere)


@pytest.mark.parametrize("state", [STATE, EXPIRED])
@pytest.mark.parametrize("status", [Status.SUCCESS, Status.FAILED])
def test_finish_closes_the_run(state: JobState, status: Status) -> None:
    """
    The result of a run that only was late is still a result.
    """
    change = finished(
        state, status=status, reason=Reason.ERROR, error="no\x00", started_ago_ms=5_000
    )

    assert CloseAnswer(accepted=True, store_now_ms=NOW.wall_ms, high=SLOT) == change.answer
    assert ENDED == change.state
    assert (
        RecordClose(
            slot=SLOT,
            attempt=2,
            status=status,
            reason=Reason.ERROR,
            finished_ms=NOW.wall_ms,
            started_ms=NOW.wall_ms - 5_000,
            error="no\\x00",
        ),
    ) == change.records


def test_long_error_is_cut_visibly() -> None:
    """
    The text never makes a finish fail, and never grows without bound.
    """
    (close,) = finished(STATE, status=Status.FAILED, error="x" * 1_000_000).records

    assert isinstance(close, RecordClose)
    assert close.error is not None
    assert ERROR_CHARS_MAX == len(close.error)
    assert "1000000 characters in all" in close.error


@pytest.mark.parametrize("state", NOT_OWN)
def test_lost_token_finishes_nothing(state: JobState | None) -> None:
    """
    Whoever has lost the run is told so, whatever the record says.
    """
    views = [
        None,
        record(Status.INTERRUPTED, Reason.LEASE_EXPIRED),
        record(Status.INTERRUPTED, Reason.HANDED_OVER),
        record(Status.SUCCESS, token="t9"),
    ]
    changes = [finished(state, view) for view in views]

    assert [False] * 4 == [change.answer.accepted for change in changes]
    assert [(None, ())] * 4 == [(change.state, change.records) for change in changes]


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.FAILED])
def test_repeated_finish_is_accepted(status: Status) -> None:
    """
    A finish whose answer got lost hears the same again, and writes nothing.
    """
    change = finished(ENDED, record(status))

    assert change.answer.accepted
    assert (None, ()) == (change.state, change.records)


@pytest.mark.parametrize("status", [Status.INTERRUPTED, Status.RUNNING, Status.SKIPPED])
def test_finish_takes_success_or_failed(status: Status) -> None:
    """
    Trap: a "finish as interrupted" after the network has healed closes a run that nobody completed.
    """
    with pytest.raises(RequestError, match="one of success, failed, not"):
        finished(STATE, status=status)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SKIPPED])
def test_claim_only_finish_also_takes_interrupted(status: Status) -> None:
    """
    Where nothing can take a run over, stop records it as interrupted.
    """
    check_finish_status(FinishRequest(**KEY, status=Status.INTERRUPTED), leases=False)
    with pytest.raises(RequestError, match="one of success, failed, interrupted, not"):
        check_finish_status(FinishRequest(**KEY, status=status), leases=False)


@pytest.mark.parametrize("state", [STATE, EXPIRED])
def test_release_takes_token_and_lease_away(state: JobState) -> None:
    """
    Trap: a token left in place lets a stale renewal bring the run back to a runner that has gone.
    """
    change = released(state, started_ago_ms=1_000)

    assert change.answer.accepted
    assert change.state is not None
    assert change.state.live is not None
    assert (None, NOW.lease_ms) == (change.state.live.token, change.state.live.lease_until_ms)
    assert (
        RecordClose(
            slot=SLOT,
            attempt=2,
            status=Status.INTERRUPTED,
            reason=Reason.HANDED_OVER,
            finished_ms=NOW.wall_ms,
            started_ms=NOW.wall_ms - 1_000,
        ),
    ) == change.records
    assert not renewed(change.state).answer.held
    assert not finished(change.state).answer.accepted


def test_release_with_takeover_off_closes_the_run() -> None:
    """
    A job that must not be started twice is over.
    """
    assert ENDED == released(STATE, takeover=False).state


@pytest.mark.parametrize("state", [RELEASED, TAKEN_OVER, SUPERSEDED, ENDED])
def test_repeated_release_is_accepted(state: JobState) -> None:
    """
    Also after a takeover, as long as the record is kept; and nothing changes.
    """
    change = released(state, record(Status.INTERRUPTED, Reason.HANDED_OVER))

    assert change.answer.accepted
    assert (None, ()) == (change.state, change.records)


@pytest.mark.parametrize("state", NOT_OWN)
def test_lost_token_releases_nothing(state: JobState | None) -> None:
    """
    A record that ended otherwise, or was another's, makes no release.
    """
    views = [
        None,
        record(Status.INTERRUPTED, Reason.LEASE_EXPIRED),
        record(Status.SUCCESS),
        record(Status.INTERRUPTED, Reason.HANDED_OVER, token="t9"),
    ]
    changes = [released(state, view) for view in views]

    assert [False] * 4 == [change.answer.accepted for change in changes]
    assert [(None, ())] * 4 == [(change.state, change.records) for change in changes]
