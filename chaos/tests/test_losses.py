"""
What a store has forgotten excuses one start more for each loss, and has forged histories on both sides of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from forging import MS, SLOT, Forge, ForgeFault, ForgeMark, ForgeRecord, ForgeTold, broken

from anarchon import Status
from anarchon_chaos.checker import judge
from anarchon_chaos.evidence import Mark
from anarchon_chaos.excuses import started_again
from anarchon_chaos.history import Expectation, bodies


@pytest.fixture
def loss(history: Forge, fault: ForgeFault) -> Callable[..., set[str]]:
    """
    Judge lines of one job on a store that has forgotten everything at 2 s, and again at 4 s; name what they break.

    Its records are those of one attempt that ended well, unless others are given.
    """

    def judged(*marks: Mark, leases: bool = False, repeats: bool = True, **parts: Any) -> set[str]:
        losses = [
            fault("server killed", at_ms - 500, at_ms + 100, target="store", lost_ns=at_ms * MS)
            for at_ms in (2_000, 4_000)
        ]
        expect = Expectation(complete=False, repeats=repeats, overlap=True)
        forged = history(
            leases=leases,
            marks=marks,
            faults=losses,
            deaths={},
            **{"expect": expect, "records": history().records[1:], **parts},
        )
        return broken(judge(forged)) - {"history_true"}

    return judged


def body(mark: ForgeMark, at_ms: int, *, by: str = "a", attempt: int = 1) -> tuple[Mark, Mark]:
    """
    Forge a handler that was at work for 100 ms.
    """
    return tuple(  # type: ignore[return-value]  # There are two of them.
        mark(what, at_ms + more_ms, instance=by, attempt=attempt)
        for what, more_ms in (("start", 0), ("end", 100))
    )


def test_a_store_with_leases_that_forgets_tells_no_miss(
    history: Forge, record: ForgeRecord, fault: ForgeFault
) -> None:
    """
    A slot that was due while it was gone is excused where it has forgotten, was allowed to, and at no other time.
    """
    parts = {
        "marks": history().marks[2:],
        "records": (record(Status.SUCCESS, attempt=2),),
        "deaths": {},
        "begun_wall_ms": SLOT,
    }
    forgets, keeps = (
        fault("server killed", 4_000, 6_000, target="store", lost_ns=lost_ns)
        for lost_ns in (5_900 * MS, None)
    )
    due, later = ((("job", SLOT), ("job", SLOT + due_ms)) for due_ms in (5_000, 7_001))
    allowed, judged = (Expectation(complete=False, repeats=repeats) for repeats in (True, False))

    assert [] == judge(history(faults=(forgets,), slots=due, expect=allowed, **parts))
    for faults, slots, expect in (
        ((forgets,), later, allowed),
        ((keeps,), due, allowed),
        ((forgets,), due, judged),
    ):
        forged = history(faults=faults, slots=slots, expect=expect, **parts)

        assert {"all_accounted"} == broken(judge(forged))


@pytest.mark.parametrize(
    ("lost_ms", "by", "attempt", "excused"),
    [
        (2_050, "a", 1, True),
        (1_900, "a", 1, False),
        (2_050, "b", 1, False),
        (2_050, "a", 2, False),
        (None, "a", 1, False),
    ],
    ids=["told", "told before the loss", "told by another", "of another attempt", "not told"],
)
def test_a_run_that_was_forgotten_under_way(
    history: Forge,
    mark: ForgeMark,
    fault: ForgeFault,
    told: ForgeTold,
    *,
    lost_ms: int | None,
    by: str,
    attempt: int,
    excused: bool,
) -> None:
    """
    Its runner has told that it was lost, after the store had forgotten it; nothing else accounts for it.
    """
    forgets = fault("server killed", 1_500, 2_100, target="store", lost_ns=2_000 * MS)
    events = [
        told("lost", at_ms, by=by, job="job", slot=SLOT, attempt=attempt)
        for at_ms in (lost_ms,)
        if at_ms is not None
    ]
    parts = {
        "marks": (mark("start", 1_000), mark("cleanup", 2_060)),
        "records": (),
        "faults": (forgets,),
        "deaths": {},
        "told": events,
    }
    allowed = Expectation(complete=False, repeats=True)
    judged = Expectation(complete=False)

    assert ([] if excused else ["all_accounted"]) == [
        finding.rule for finding in judge(history(expect=allowed, **parts))
    ]
    for expect in (judged, Expectation(repeats=True)):
        assert "all_accounted" in broken(judge(history(expect=expect, **parts)))


@pytest.mark.parametrize(
    ("starts_ms", "excused"),
    [
        ((1_000, 2_000), True),
        ((1_000, 2_800), True),
        ((1_999, 4_000), True),
        ((1_000, 2_800, 4_200), True),
        ((2_800, 4_200), True),
        ((100, 1_000), False),
        ((1_000, 1_999), False),
        ((2_000, 2_800), False),
        ((2_800, 3_999), False),
        ((4_000, 5_000), False),
        ((1_000, 2_700, 3_000), False),
        ((100, 1_000, 2_700), False),
        ((1_000, 2_700, 4_100, 5_000), False),
    ],
)
def test_a_run_starts_once_in_each_life_of_a_store_that_forgets(
    loss: Callable[..., set[str]],
    mark: ForgeMark,
    *,
    starts_ms: tuple[int, ...],
    excused: bool,
) -> None:
    """
    A loss excuses one more start of what had started before it; a second one on the same side of it is found.

    Where nothing may be forgotten, the same histories are found all together.
    """
    lines = [line for at_ms in starts_ms for line in body(mark, at_ms)]

    assert excused == (loss(*lines) == set())
    for leases in (True, False):
        assert excused == ("one_winner" not in loss(*lines, leases=leases))
        assert "one_winner" in loss(*lines, leases=leases, repeats=False)
    assert excused == ("attempts_bounded" not in loss(*lines))
    assert "attempts_bounded" in loss(*lines, repeats=False)


@pytest.mark.parametrize(
    ("ended_ms", "again_ms", "excused"),
    [
        (100, 2_700, True),
        (1_850, 2_001, True),
        (2_700, 4_700, True),
        (100, 1_300, False),
        (2_700, 3_300, False),
        (5_000, 6_000, False),
    ],
)
def test_an_end_that_was_forgotten(
    loss: Callable[..., set[str]],
    mark: ForgeMark,
    *,
    ended_ms: int,
    again_ms: int,
    excused: bool,
) -> None:
    """
    What has ended runs again as a further attempt where the store has lost that since, and nowhere else.
    """
    lines = (*body(mark, ended_ms), *body(mark, again_ms, by="b", attempt=2))

    assert excused == ("finished_stays_finished" not in loss(*lines, leases=True))


def test_a_fault_that_loses_nothing_excuses_nothing(
    history: Forge, mark: ForgeMark, fault: ForgeFault
) -> None:
    """
    Where whoever leads next has all that was acknowledged, a run does not start again, and has its record.
    """
    marks = (*body(mark, 1_000), *body(mark, 3_000, by="b"))
    parts = {"marks": marks, "deaths": {}, "leases": False}
    allowed = Expectation(complete=False, repeats=True)
    kept = fault("fail-over", 2_000, 2_500, target="store")
    lost = fault("fail-over", 2_000, 2_500, target="store", lost_ns=2_100 * MS)
    ended = history().records[1:]

    assert {"one_winner", "attempts_bounded", "finished_stays_finished", "history_true"} == broken(
        judge(history(faults=(kept,), expect=allowed, records=(), **parts))
    )
    assert "one_winner" not in broken(
        judge(history(faults=(lost,), expect=allowed, records=ended, **parts))
    )


def test_attempts_begin_anew_where_the_earlier_ones_were_forgotten(
    loss: Callable[..., set[str]], mark: ForgeMark
) -> None:
    """
    The first attempt may follow the second where the store has lost both, and only there.
    """
    second = (
        mark("start", 600, instance="b", attempt=2),
        mark("step", 650, instance="b", attempt=2),
    )

    assert set() == loss(*second, *body(mark, 2_700), leases=True)
    assert {"attempts_in_order"} == loss(*second, *body(mark, 1_300), leases=True)


def test_a_record_that_was_forgotten(
    history: Forge, mark: ForgeMark, fault: ForgeFault, record: ForgeRecord
) -> None:
    """
    What started before the loss may have no record; what started after it has one.
    """
    forgets = fault("server killed", 1_500, 2_100, target="store", lost_ns=2_000 * MS)
    parts = {"leases": False, "faults": (forgets,), "deaths": {}, "slots": ()}
    allowed = Expectation(complete=False, repeats=True)
    before, after = body(mark, 1_999), body(mark, 2_000)

    assert [] == judge(history(marks=before, records=(), expect=allowed, **parts))
    assert {"history_true"} == broken(
        judge(history(marks=after, records=(), expect=allowed, **parts))
    )
    assert [] == judge(
        history(marks=after, records=(record(Status.SUCCESS),), expect=allowed, **parts)
    )
    assert {"history_true"} == broken(
        judge(history(marks=before, records=(), expect=Expectation(complete=False), **parts))
    )


@pytest.mark.parametrize(
    ("starts", "again_ms"),
    [
        (((1_000, 1),), ()),
        (((1_000, 1), (2_700, 1)), (2_700,)),
        (((1_000, 1), (2_700, 2)), (2_700,)),
        (((1_000, 1), (2_700, 1), (3_000, 2)), (2_700,)),
        (((1_000, 1), (2_700, 1), (4_700, 1)), (2_700, 4_700)),
        (((2_700, 1), (3_000, 2)), ()),
    ],
    ids=["once", "the same again", "after its end", "once each loss", "twice", "no loss between"],
)
def test_what_runs_again_is_counted(
    history: Forge,
    mark: ForgeMark,
    fault: ForgeFault,
    *,
    starts: tuple[tuple[int, int], ...],
    again_ms: tuple[int, ...],
) -> None:
    """
    Each run counts once for each loss that excuses it, and not at all where nothing may be lost.
    """
    losses = [
        fault("server killed", at_ms - 500, at_ms, target="store", lost_ns=at_ms * MS)
        for at_ms in (2_000, 4_000)
    ]
    marks = [line for at_ms, attempt in starts for line in body(mark, at_ms, attempt=attempt)]
    forged, kept = (
        history(marks=marks, faults=losses, deaths={}, expect=Expectation(repeats=repeats))
        for repeats in (True, False)
    )

    assert [at_ms * MS for at_ms in again_ms] == [
        each.since_ns for each in started_again(forged, bodies(forged))
    ]
    assert [] == started_again(kept, bodies(kept))


def test_an_attempt_that_had_not_ended_counts_as_well(
    history: Forge, mark: ForgeMark, fault: ForgeFault
) -> None:
    """
    The same attempt, or an older one, starts after the loss though it was under way before it.
    """
    forgets = fault("server killed", 1_500, 2_000, target="store", lost_ns=2_000 * MS)
    expect = Expectation(repeats=True)
    for attempt in (1, 2):
        marks = (mark("start", 1_000, attempt=attempt), *body(mark, 2_700, by="b"))
        forged = history(marks=marks, faults=(forgets,), expect=expect)

        assert [2_700 * MS] == [each.since_ns for each in started_again(forged, bodies(forged))]


def test_a_takeover_across_a_loss_is_not_counted(
    history: Forge, mark: ForgeMark, fault: ForgeFault
) -> None:
    """
    The next attempt of a run whose runner was lost is what every store promises: no loss is to blame for it.
    """
    forgets = fault("fail-over", 1_500, 2_100, target="store", lost_ns=2_000 * MS)
    base = history()
    forged = history(faults=(*base.faults, forgets), expect=Expectation(repeats=True))

    assert [] == started_again(forged, bodies(forged))
