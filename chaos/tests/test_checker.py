"""
The checker is checked: a sound history passes, and each rule has histories that break it and it alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from forging import MS, SLOT, Forge, ForgeFault, ForgeMark, ForgeRecord, ForgeTold, broken

from anarchon import Status
from anarchon_chaos.checker import RULES, judge
from anarchon_chaos.history import (
    BACK,
    Count,
    Exit,
    Expectation,
    bodies,
    overlaps,
    takeovers,
)


def test_a_sound_history_passes(history: Forge) -> None:
    """
    A crash that was taken over in time breaks nothing.
    """
    assert [] == judge(history())


def test_two_starts_of_one_attempt(history: Forge, mark: ForgeMark, fault: ForgeFault) -> None:
    """
    One winner: the second start of an attempt is found, also when the first is long over.
    """
    marks = (mark("start", 100), mark("end", 200), mark("start", 300, instance="b"))
    ends = (mark("end", 400, instance="b"),)
    untold = fault("cut", 200, 201)  # The first could not say that it had ended.
    forged = history(
        marks=(*marks, *ends),
        faults=(untold,),
        deaths={},
        records=history().records[1:],
        expect=Expectation(attempts_max=2),
    )

    assert "one_winner" in broken(judge(forged))


def test_overlap_of_two_attempts(history: Forge, mark: ForgeMark) -> None:
    """
    No overlap: a step of the old body after the start of the new one is found, and measured.
    """
    base = history()
    forged = history(marks=(*base.marks, mark("step", 3_540)), deaths={})

    assert {"no_overlap"} == broken(judge(forged))
    ((_, _, both_ms),) = overlaps(bodies(forged))
    assert 40.0 == both_ms


def test_overlap_of_two_slots_is_one_with_leases_only(
    history: Forge, mark: ForgeMark, record: ForgeRecord
) -> None:
    """
    Two slots of one job at once break a promise of leases; a store that only claims never made it.
    """
    marks = (
        mark("start", 100),
        mark("start", 1_100, slot=SLOT + 1_000, instance="b"),
        mark("end", 1_200),
        mark("end", 1_300, slot=SLOT + 1_000, instance="b"),
    )
    parts = {
        "marks": marks,
        "faults": (),
        "deaths": {},
        "expect": Expectation(),
        "records": (record(Status.SUCCESS), record(Status.SUCCESS, slot=SLOT + 1_000)),
    }

    assert {"no_overlap"} == broken(judge(history(**parts)))
    assert [] == judge(history(leases=False, **parts))


def test_a_body_that_takes_no_step_is_not_at_work(history: Forge, mark: ForgeMark) -> None:
    """
    A handler that is frozen, or held, and then cancelled has not overlapped; one step more of it has.
    """
    base = history()
    cleanup = mark("cleanup", 6_010)
    held = history(marks=(*base.marks, cleanup), deaths={})
    stepped = history(marks=(*base.marks, mark("step", 6_005), cleanup), deaths={})

    assert [] == judge(held)
    assert "no_overlap" in broken(judge(stepped))


def test_an_older_attempt_after_a_newer_one(history: Forge, mark: ForgeMark) -> None:
    """
    Attempts start in their order.
    """
    base = history()
    late = (mark("start", 5_000, instance="c"), mark("cleanup", 5_010, instance="c"))
    forged = history(marks=(*base.marks, *late), faults=(*base.faults,))

    assert "attempts_in_order" in broken(judge(forged))


def test_a_run_again_after_its_end(history: Forge, mark: ForgeMark, fault: ForgeFault) -> None:
    """
    A finished slot stays finished. A fault that kept the runner from saying so excuses it, and nothing else does.
    """
    base = history()
    ended = (mark("start", 100), mark("end", 950), *base.marks[2:])
    at_the_end = history(marks=ended)
    long_after = history(marks=ended, faults=(fault("kill", 2_000, 2_001),))

    assert [] == judge(at_the_end)
    assert {"finished_stays_finished"} == broken(judge(long_after))


def test_an_older_slot_after_a_newer_one(
    history: Forge, mark: ForgeMark, record: ForgeRecord
) -> None:
    """
    The newest slot is a high-water mark.
    """
    marks = (
        mark("start", 1_100, slot=SLOT + 1_000),
        mark("end", 1_200, slot=SLOT + 1_000),
        mark("start", 1_300),
        mark("end", 1_400),
    )
    forged = history(
        marks=marks,
        faults=(),
        deaths={},
        expect=Expectation(),
        records=(record(Status.SUCCESS), record(Status.SUCCESS, slot=SLOT + 1_000)),
    )

    assert {"newest_slot_rules"} == broken(judge(forged))


def test_a_start_before_its_slot(history: Forge, mark: ForgeMark) -> None:
    """
    No handler starts early, by the true clock.
    """
    base = history()
    early = mark("start", 100, wall_ms=SLOT - 1)

    assert {"never_early"} == broken(judge(history(marks=(early, *base.marks[1:]))))


def test_a_slot_that_nobody_ran(history: Forge, record: ForgeRecord, told: ForgeTold) -> None:
    """
    Every slot is accounted for: it ended, or, where that is enough, it was told as missed or has a record.
    """
    slots = (("job", SLOT), ("job", SLOT + 1_000))
    lenient = Expectation(complete=False)
    base = history()
    skipped = record(Status.SKIPPED, slot=SLOT + 1_000)
    missed = told("miss", job="job", first_slot=SLOT + 500, last_slot=SLOT + 1_500)

    assert {"all_accounted"} == broken(judge(history(slots=slots)))
    assert {"all_accounted"} == broken(judge(history(slots=slots, expect=lenient)))
    assert {"all_accounted"} == broken(judge(history(slots=slots, told=(missed,))))
    assert [] == judge(history(slots=slots, expect=lenient, told=(missed,)))
    assert [] == judge(history(slots=slots, expect=lenient, records=(*base.records, skipped)))


def test_a_takeover_that_came_late(history: Forge, fault: ForgeFault) -> None:
    """
    A takeover comes within the lease and two heartbeats of what stalled the runner, and it does come.
    """
    late = history(lease_ms=1_000, heartbeat_ms=300)
    none = history(expect=Expectation(attempts_max=2, takeovers_min=2))

    assert [2_500.0] == [took_ms for _, _, took_ms in takeovers(late, bodies(late))]
    assert {"takeover_in_time"} == broken(judge(late))
    assert {"takeover_in_time"} == broken(judge(none))


def test_a_takeover_beside_a_fault_of_the_store_is_not_timed(
    history: Forge, fault: ForgeFault
) -> None:
    """
    While the store is gone nobody can take over, so the bound says nothing.
    """
    gone = fault("server killed", 900, 3_000, target="store")
    forged = history(lease_ms=1_000, heartbeat_ms=300, faults=(fault("kill", 1_000, 1_001), gone))

    assert [] == judge(forged)


def test_an_attempt_too_many(history: Forge) -> None:
    """
    A false takeover is found where nobody had lost a lease, and any at all on a store without them.
    """
    assert {"attempts_bounded"} == broken(judge(history(expect=Expectation(attempts_max=1))))
    assert {"attempts_bounded"} == broken(judge(history(leases=False)))


def test_a_handler_that_outlived_its_lease(
    history: Forge, mark: ForgeMark, fault: ForgeFault
) -> None:
    """
    Cut off, a handler is cancelled before its lease ends.
    """
    marks = (
        mark("start", 100),
        mark("step", 4_040),
        mark("cleanup", 4_050),
        mark("start", 4_100, instance="b", attempt=2),
        mark("end", 4_200, instance="b", attempt=2),
    )
    late = history(marks=marks, faults=(fault("cut silent", 1_000, 6_000),), deaths={})
    short = history(marks=marks, faults=(fault("cut silent", 1_000, 3_000),), deaths={})

    slow = history(
        marks=marks, faults=(fault("cut silent", 900, 6_000, sure_ns=1_060 * MS),), deaths={}
    )

    assert {"fenced_in_time"} == broken(judge(late))
    assert [] == judge(short)
    assert [] == judge(slow)


def test_a_history_that_is_not_true(history: Forge, record: ForgeRecord) -> None:
    """
    Each attempt has one record, a success was really one, and nothing runs for ever beside a later attempt.
    """
    first, second = history().records
    twice = history(records=(first, second, second))
    lost = history(records=(second,))
    invented = history(records=(first, second, record(Status.SUCCESS, slot=SLOT + 1)))
    left = history(records=(record(Status.RUNNING), second))

    assert {"history_true"} == broken(judge(twice))
    assert {"history_true"} == broken(judge(lost))
    assert {"history_true"} == broken(judge(invented))
    assert {"history_true", "fencing"} == broken(judge(left))


def test_a_finish_that_got_past_the_fence(history: Forge, record: ForgeRecord) -> None:
    """
    Once attempt 2 was granted, attempt 1 is interrupted and stays so.
    """
    _, second = history().records
    forged = history(records=(record(Status.FAILED), second))

    assert {"fencing"} == broken(judge(forged))


def test_a_start_without_a_store(history: Forge, fault: ForgeFault) -> None:
    """
    While the store refuses nobody starts a handler.
    """
    refused = fault("refuses", 2_000, 4_000, target="store")
    forged = history(
        faults=(*history().faults, refused),
        expect=Expectation(attempts_max=2, quiet_after_ms=500),
    )

    assert {"no_claim_in_vain"} == broken(judge(forged))


def test_a_store_that_is_overrun(history: Forge) -> None:
    """
    No more calls than expected reach a store in its first second; how many there are at other times is not judged.
    """
    limited = Expectation(attempts_max=2, calls_back_max=10)
    most, more = (Count(when=BACK, calls={"claim": n, "renew": 5}) for n in (5, 6))
    elsewhere = Count(when="for the slot", calls={"claim": 500})

    assert [] == judge(history(expect=limited, counts=(most, elsewhere)))
    assert {"no_stampede"} == broken(judge(history(expect=limited, counts=(more,))))
    assert [] == judge(history(counts=(more,)))


@pytest.mark.parametrize(
    ("calls", "ms", "expected"),
    [(10, 900, []), (11, 900, ["no_stampede"]), (25, 2_500, []), (26, 2_500, ["no_stampede"])],
)
def test_a_second_that_was_counted_late(
    history: Forge, *, calls: int, ms: int, expected: list[str]
) -> None:
    """
    Each second may have as many calls; less than a second is taken as one.
    """
    limited = Expectation(attempts_max=2, calls_back_max=10)
    late = Count(when=BACK, calls={"claim": calls}, ms=ms)

    assert expected == [finding.rule for finding in judge(history(expect=limited, counts=(late,)))]


def test_a_store_that_is_run_down(history: Forge, fault: ForgeFault) -> None:
    """
    No instance tries more connections than expected while the store's server is gone.
    """
    limited = Expectation(attempts_max=2, knocks_max=10)
    most, more = (
        fault("server killed", 5_000, 6_000, target="store", knocks={"a": 3, "b": n})
        for n in (10, 11)
    )
    base = history()

    assert [] == judge(history(expect=limited, faults=(*base.faults, most)))
    assert {"no_stampede"} == broken(judge(history(expect=limited, faults=(*base.faults, more))))
    assert [] == judge(history(faults=(*base.faults, more)))


def test_a_fault_that_did_not_bite(history: Forge, fault: ForgeFault) -> None:
    """
    A run whose fault did not fire is a failed run.
    """
    idle = fault("latency", 0, 100, bites=0, stalls=False)

    assert {"faults_bit"} == broken(judge(history(faults=(*history().faults, idle))))
    assert {"faults_bit"} == broken(judge(history(swallowed={"a": 0, "b": 0})))
    assert [] == judge(history(swallowed={"a": 0, "b": 7}))


def test_what_was_not_told(history: Forge, told: ForgeTold) -> None:
    """
    What an operator has to hear was told with its job, and what nobody should hear was not.
    """
    wanted = Expectation(attempts_max=2, told=("block:deaf",))
    quiet = Expectation(attempts_max=2, untold=("lost",))
    block = told("block", job="deaf", duration_ms=1_500)

    assert {"told_of"} == broken(judge(history(expect=wanted)))
    assert {"told_of"} == broken(
        judge(history(expect=wanted, told=(told("block", job="other"), told("lost", job="deaf"))))
    )
    assert [] == judge(history(expect=wanted, told=(block,)))
    assert {"told_of"} == broken(judge(history(expect=quiet, told=(told("lost", job="job"),))))


@pytest.mark.parametrize(("status", "took_ms"), [(1, 10), (None, 30_000), (0, 9_000)])
def test_an_end_that_is_none(history: Forge, status: int | None, took_ms: int) -> None:
    """
    Who is asked to stop ends with 0 and in time.
    """
    forged = history(exits=(Exit(instance="b", status=status, took_ms=took_ms),))

    assert {"ends_well"} == broken(judge(forged))


def test_every_rule_is_broken_by_a_test_of_this_file() -> None:
    """
    A rule that no forged history breaks is not yet a check.
    """
    text = Path(__file__).read_text(encoding="utf-8")

    assert [] == [rule.__name__ for rule in RULES if f'"{rule.__name__}"' not in text]
