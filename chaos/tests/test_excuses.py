"""
Each excuse of the checker has forged histories on both of its sides: what it covers, and what it must not.
"""

from __future__ import annotations

import pytest
from forging import MS, SLOT, Forge, ForgeFault, ForgeMark, ForgeRecord, ForgeTold, broken

from anarchon import Status
from anarchon_chaos.checker import judge
from anarchon_chaos.history import Expectation, Fault


def test_a_run_that_is_left_running_is_not_accounted_for(
    history: Forge, record: ForgeRecord
) -> None:
    """
    With leases somebody has to go on with a run, or to close it; without them nobody can.
    """
    left = (*history().records, record(Status.RUNNING, slot=SLOT + 1_000))
    parts = {"slots": (("job", SLOT + 1_000),), "records": left}
    lenient = Expectation(complete=False)

    assert {"all_accounted"} == broken(judge(history(expect=lenient, **parts)))
    assert "all_accounted" not in broken(judge(history(expect=lenient, leases=False, **parts)))


def test_a_miss_whose_teller_was_lost_is_excused(
    history: Forge, mark: ForgeMark, record: ForgeRecord, told: ForgeTold
) -> None:
    """
    The next slot was granted to somebody who never heard of it, or who died at once; to anybody else it is no excuse.
    """
    base = history()
    granted = (*base.records, record(Status.INTERRUPTED, slot=SLOT + 2_000, instance="c"))
    parts = {
        "slots": (("job", SLOT), ("job", SLOT + 1_000)),
        "records": granted,
        "expect": Expectation(complete=False),
    }
    began = (*base.marks, mark("start", 4_000, slot=SLOT + 2_000, instance="c"))
    heard = (told("claim", 4_000, by="c", job="job", slot=SLOT + 2_000, attempt=1),)
    at_once, later, before = (
        {**base.deaths, ord("c"): at_ms * MS} for at_ms in (4_500, 5_001, 3_999)
    )

    assert [] == judge(history(**parts))
    for evidence in ({"marks": began}, {"told": heard}):
        assert {"all_accounted"} == broken(judge(history(**evidence, **parts)))
        assert [] == judge(history(deaths=at_once, **evidence, **parts))
        assert {"all_accounted"} == broken(judge(history(deaths=later, **evidence, **parts)))
        assert {"all_accounted"} == broken(judge(history(deaths=before, **evidence, **parts)))


def test_what_others_heard_does_not_say_that_the_teller_did(
    history: Forge, record: ForgeRecord, told: ForgeTold
) -> None:
    """
    A takeover, another slot, another job and a slot that was done elsewhere carry nothing of what was missed.
    """
    base = history()
    granted = (*base.records, record(Status.INTERRUPTED, slot=SLOT + 2_000, instance="c"))
    others = (
        told("claim", job="job", slot=SLOT + 2_000, attempt=2),
        told("claim", job="job", slot=SLOT, attempt=1),
        told("claim", job="other", slot=SLOT + 2_000, attempt=1),
        told("skip", job="job", slot=SLOT + 2_000, reason="done"),
        told("outage"),
    )
    forged = history(
        slots=(("job", SLOT), ("job", SLOT + 1_000)),
        records=granted,
        told=others,
        expect=Expectation(complete=False),
    )

    assert [] == judge(forged)


def test_a_miss_before_a_slot_that_was_skipped(
    history: Forge, record: ForgeRecord, told: ForgeTold
) -> None:
    """
    Who has had an overlap recorded was told what was missed before it, if it heard the answer; a slot that stands in
    the history with a later attempt alone says nothing of who that was.
    """
    base = history()
    slots = (("job", SLOT), ("job", SLOT + 1_000))
    lenient = Expectation(complete=False)
    skipped = (*base.records, record(Status.SKIPPED, slot=SLOT + 2_000))
    second = (*base.records, record(Status.INTERRUPTED, slot=SLOT + 2_000, attempt=2))
    heard = (told("skip", job="job", slot=SLOT + 2_000, reason="overlap"),)
    forged = history(slots=slots, expect=lenient, records=skipped, told=heard)

    assert [] == judge(history(slots=slots, expect=lenient, records=skipped))
    assert {"all_accounted"} == broken(judge(forged))
    assert {"all_accounted"} == broken(judge(history(slots=slots, expect=lenient, records=second)))


def test_a_miss_is_told_at_the_very_next_slot(
    history: Forge, record: ForgeRecord, told: ForgeTold
) -> None:
    """
    That the one after it was not heard of is no excuse, and neither is a record of another job.
    """
    base = history()
    next_one, later, other = (
        record(Status.INTERRUPTED, slot=SLOT + 2_000),
        record(Status.INTERRUPTED, slot=SLOT + 3_000),
        record(Status.INTERRUPTED, slot=SLOT + 1_500, job="other"),
    )
    parts = {
        "slots": (("job", SLOT), ("job", SLOT + 1_000)),
        "told": (told("claim", job="job", slot=SLOT + 2_000, attempt=1),),
        "expect": Expectation(complete=False),
    }

    for records in ((next_one, later), (later, next_one), (next_one, other), (other,)):
        forged = history(records=(*base.records, *records), **parts)

        assert {"all_accounted"} == broken(judge(forged))


@pytest.mark.parametrize(
    ("seen", "excused_ms"),
    [
        ("", 7_000),
        ("4100 a outage, 6400 a recovered", 7_400),
        ("4100 a outage, 6400 a recovered, 6300 b recovered", 7_400),
        ("4100 a outage, 4200 b outage, 6400 b recovered, 6500 a recovered", 7_400),
        ("4100 a outage, 5900 a recovered", 7_000),
        ("4100 a outage, 5900 a recovered, 4200 b outage, 8000 b recovered", 7_000),
        ("4100 a outage, 5000 a recovered, 5100 a outage, 6200 a recovered", 7_200),
        ("6900 a outage, 9000 a recovered", 10_000),
        ("7100 a outage, 9000 a recovered", 7_000),
        ("4100 a outage, 5900 a recovered, 6500 a outage, 9000 a recovered", 7_000),
        ("1000 a outage, 3000 a recovered", 7_000),
        ("1000 a outage, 3000 a recovered, 4100 b outage, 6400 b recovered", 7_400),
        ("1000 a outage, 3000 a recovered, 9000 a recovered", 7_000),
    ],
    ids=[
        "nobody told",
        "back after the end",
        "back without having been out",
        "the first of two",
        "back before the end",
        "one back before the end",
        "out again before the end",
        "out when it was asked",
        "out for another reason",
        "out again after the end",
        "out before",
        "one out before",
        "back twice",
    ],
)
def test_a_claim_only_store_promises_nothing_of_slots_due_while_it_was_gone(
    history: Forge, record: ForgeRecord, told: ForgeTold, *, seen: str, excused_ms: int
) -> None:
    """
    Those are excused until a second after an instance has reached it again, and none later; with leases, none is.
    """
    gone = Fault(
        kind="server killed", target="store", since_ns=4_000 * MS, until_ns=6_000 * MS, bites=1
    )
    events = map(str.split, filter(None, seen.split(", ")))
    parts = {
        "marks": history().marks[2:],
        "records": (record(Status.SUCCESS, attempt=2),),
        "deaths": {},
        "faults": (gone,),
        "begun_wall_ms": SLOT,
        "told": [told(kind, int(at_ms), by=by) for at_ms, by, kind in events],
        "expect": Expectation(complete=False),
    }
    before, first, last, after = (
        (("job", SLOT), ("job", SLOT + due_ms))
        for due_ms in (2_999, 3_000, excused_ms, excused_ms + 1)
    )

    assert [] == judge(history(leases=False, slots=first, **parts))
    assert [] == judge(history(leases=False, slots=last, **parts))
    assert {"all_accounted"} == broken(judge(history(leases=True, slots=last, **parts)))
    assert {"all_accounted"} == broken(judge(history(leases=False, slots=after, **parts)))
    assert {"all_accounted"} == broken(judge(history(leases=False, slots=before, **parts)))


def test_a_fault_of_one_instance_is_no_absence_of_the_store(
    history: Forge, record: ForgeRecord, fault: ForgeFault
) -> None:
    """
    The others were there to run a slot that was due meanwhile.
    """
    forged = history(
        leases=False,
        marks=history().marks[2:],
        records=(record(Status.SUCCESS, attempt=2),),
        faults=(fault("freeze", 4_000, 6_000),),
        deaths={},
        slots=(("job", SLOT), ("job", SLOT + 5_000)),
        begun_wall_ms=SLOT,
        expect=Expectation(complete=False),
    )

    assert {"all_accounted"} == broken(judge(forged))
