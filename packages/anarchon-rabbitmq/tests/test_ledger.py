"""
What follows from the log: the first record has the slot, and what may have been forgotten is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anarchon.backend import AnswerReason, ClaimRequest, Verdict
from anarchon.records import Status
from anarchon_rabbitmq.entries import ClaimEntry, Entry, FinishEntry, Message
from anarchon_rabbitmq.ledger import CLAIMS_PER_JOB_MAX, Ledger
from anarchon_rabbitmq.options import CLOCK_TOLERANCE_MS

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000

Ask = Callable[..., ClaimRequest]


def a_ledger(*, memory_ms: int = HOUR_MS, window_ms: int = 2 * HOUR_MS) -> Ledger:
    """
    Make a ledger that knows nothing.
    """
    return Ledger(memory_ms=memory_ms, window_ms=window_ms)


def claim(token: str, slot: int = NOW_MS, job: str = "job") -> ClaimEntry:
    """
    Write a claim.
    """
    return ClaimEntry(job=job, slot=slot, token=token, instance_id=f"of {token}")


def finish(token: str, slot: int = NOW_MS) -> FinishEntry:
    """
    Write the end of a run.
    """
    return FinishEntry(
        job="job",
        slot=slot,
        token=token,
        instance_id=f"of {token}",
        claimed_ms=NOW_MS,
        status=Status.SUCCESS,
        reason=None,
        error=None,
        started_ms=None,
    )


def message(*entries: Entry, written_ms: int = NOW_MS) -> Message:
    """
    Put entries into one message.
    """
    return Message(offset=0, mark="mark", written_ms=written_ms, entries=entries)


def read(ledger: Ledger, *entries: Entry, read_ms: int = 0) -> list[Verdict]:
    """
    Take one message in, and give the verdicts on its claims.
    """
    return [answer.verdict for answer in ledger.apply(message(*entries), read_ms)]


def test_the_first_record_has_the_slot(ask: Ask) -> None:
    """
    Whoever comes later has lost, also within one message, and the same token has won again.
    """
    ledger = a_ledger()
    verdicts = read(ledger, claim("first"), claim("second"), claim("first"))

    assert [Verdict.WON, Verdict.TAKEN, Verdict.WON] == verdicts
    assert Verdict.WON == ledger.decide(ask("job", NOW_MS, token="first"), NOW_MS).verdict
    assert Verdict.TAKEN == ledger.decide(ask("job", NOW_MS), NOW_MS).verdict


def test_an_unknown_slot_is_asked_for(ask: Ask) -> None:
    """
    WON without a holder says that the log has to be asked.
    """
    ledger = a_ledger()

    assert Verdict.WON == ledger.decide(ask("job", NOW_MS), NOW_MS).verdict
    assert ledger.holder("job", NOW_MS) is None
    assert Verdict.NONE == ledger.decide(ask("job", NOW_MS, attempt=2), NOW_MS).verdict


@pytest.mark.parametrize(("age_ms", "verdict"), [(HOUR_MS, "won"), (HOUR_MS + 1, "late")])
def test_a_slot_beyond_the_memory_is_late(age_ms: int, verdict: str, ask: Ask) -> None:
    """
    The memory ends at one millisecond.
    """
    answer = a_ledger().decide(ask("job", NOW_MS - age_ms), NOW_MS)

    assert verdict == answer.verdict
    assert (AnswerReason.TOO_OLD if verdict == "late" else None) == answer.reason


def test_what_was_forgotten_with_time_is_late(ask: Ask) -> None:
    """
    A record that left the window shuts its slot and every older one of its job, and of no other.
    """
    ledger = a_ledger()
    read(ledger, claim("old"), read_ms=0)
    read(ledger, claim("new", NOW_MS + 5), read_ms=2 * HOUR_MS)
    before = ledger.decide(ask("job", NOW_MS), NOW_MS).verdict
    read(ledger, read_ms=2 * HOUR_MS + 1)
    after = [ledger.decide(ask("job", NOW_MS + each), NOW_MS).verdict for each in (-1, 0, 1, 5)]

    assert Verdict.TAKEN == before
    assert [Verdict.LATE, Verdict.LATE, Verdict.WON, Verdict.TAKEN] == after
    assert Verdict.WON == ledger.decide(ask("another", NOW_MS), NOW_MS).verdict
    assert 1 == len(ledger)


def test_a_record_that_comes_after_its_slot_was_forgotten_grants_nothing(ask: Ask) -> None:
    """
    A claim on its way while an earlier record of its slot comes and is forgotten has not won.
    """
    ledger = a_ledger()
    asked = ledger.decide(ask("job", NOW_MS), NOW_MS).verdict
    read(ledger, claim("earlier"), read_ms=0)
    read(ledger, read_ms=3 * HOUR_MS)
    answers = ledger.apply(message(claim("on its way")), 3 * HOUR_MS)

    assert Verdict.WON == asked
    assert [(Verdict.LATE, AnswerReason.TOO_OLD)] == [
        (answer.verdict, answer.reason) for answer in answers
    ]
    assert ledger.holder("job", NOW_MS) is None


def test_a_job_with_many_claims_keeps_the_newest(ask: Ask) -> None:
    """
    The claims in mind are bounded for each job, and the oldest slots go first.
    """
    ledger = a_ledger()
    slots = [NOW_MS + each for each in range(3 * CLAIMS_PER_JOB_MAX)]
    for slot in reversed(slots):
        read(ledger, claim("token", slot))
    verdicts = [ledger.decide(ask("job", slot), NOW_MS).verdict for slot in slots]
    kept = verdicts.count(Verdict.TAKEN)

    assert CLAIMS_PER_JOB_MAX <= kept <= 2 * CLAIMS_PER_JOB_MAX
    assert [Verdict.LATE] * (len(slots) - kept) + [Verdict.TAKEN] * kept == verdicts
    assert kept == len(ledger)


def test_what_was_won_here_is_kept_until_it_ends() -> None:
    """
    A run may last longer than the memory: its end still finds its claim.
    """
    ledger = a_ledger()
    read(ledger, claim("own"))
    ledger.own("job", NOW_MS)
    read(ledger, read_ms=3 * HOUR_MS)
    held = ledger.holder("job", NOW_MS)
    read(ledger, finish("own"), read_ms=3 * HOUR_MS)

    assert held is not None
    assert ("own", True) == (held.token, held.finished)
    assert ledger.holder("job", NOW_MS) is None


def test_a_finish_by_another_token_ends_nothing() -> None:
    """
    Only the holder's token ends a run.
    """
    ledger = a_ledger()
    read(ledger, claim("own"))
    ledger.own("job", NOW_MS)
    read(ledger, finish("other"))
    read(ledger, finish("own", NOW_MS + 1))
    held = ledger.holder("job", NOW_MS)

    assert held is not None
    assert not held.finished


def test_what_stands_in_a_part_that_was_not_read_is_refused(ask: Ask) -> None:
    """
    Slots up to when that part ended, and the tolerance of clocks beyond, are late, also for records that follow.
    """
    ledger = a_ledger()
    ledger.blind(NOW_MS)
    ledger.blind(NOW_MS - HOUR_MS)
    edge = NOW_MS + CLOCK_TOLERANCE_MS
    told = [ledger.decide(ask("job", edge + each), NOW_MS).verdict for each in (0, 1)]
    applied = read(ledger, claim("a", edge), claim("b", edge + 1))

    assert [Verdict.LATE, Verdict.WON] == told
    assert [Verdict.LATE, Verdict.WON] == applied


RECORDS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from("abcd"), st.sampled_from("xy")), max_size=60
)


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(records=RECORDS, starts=st.lists(st.integers(0, 60), min_size=2, max_size=4), data=st.data())
def test_no_two_readers_grant_one_slot(
    records: list[tuple[int, str, str]], starts: list[int], data: st.DataObject
) -> None:
    """
    Readers that begin anywhere, forget at any time and are cut off anywhere name at most one winner a slot.

    A record is written at its slot's time or later, by a clock that is right to the tolerance.
    """
    serial = count(1)
    log = []
    written_ms = NOW_MS
    for late, _, job in records:
        written_ms += 20_000
        skew_ms = data.draw(st.integers(-CLOCK_TOLERANCE_MS // 2, CLOCK_TOLERANCE_MS // 2))
        # A writer's clock reads the slot's time or later when it asks; it refuses what is older than its memory.
        slot = written_ms + skew_ms - late * 1_000 - (written_ms + skew_ms) % 20_000
        log.append(
            message(claim(f"token-{next(serial)}", slot, job), written_ms=written_ms + skew_ms)
        )
    winners: dict[tuple[str, int], set[str]] = {}
    for start in starts:
        ledger = Ledger(memory_ms=60_000, window_ms=data.draw(st.integers(60_000, 400_000)))
        begin = min(start, len(log))
        if begin:
            ledger.blind(log[begin - 1].written_ms)
        for place, each in enumerate(log[begin:]):
            (entry,) = each.entries
            assert isinstance(entry, ClaimEntry)
            (answer,) = ledger.apply(each, place * data.draw(st.integers(0, 60_000)))
            if answer.verdict is Verdict.WON:
                winners.setdefault((entry.job, entry.slot), set()).add(entry.token)

    assert {} == {slot: tokens for slot, tokens in winners.items() if len(tokens) > 1}
