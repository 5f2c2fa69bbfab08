"""
What the log says becomes records: the first claim, the first end, in order, and no more than are kept.
"""

from __future__ import annotations

from anarchon.records import Reason, Retention, RunRecord, Status, datetime_of
from anarchon_rabbitmq.entries import ClaimEntry, Entry, FinishEntry, Message
from anarchon_rabbitmq.history import Chapter, records_of

NOW_MS = 1_800_000_000_000


def claim(job: str, slot: int, token: str) -> ClaimEntry:
    """
    Write a claim.
    """
    return ClaimEntry(job=job, slot=slot, token=token, instance_id=f"of {token}")


def finish(job: str, slot: int, token: str, status: Status = Status.SUCCESS) -> FinishEntry:
    """
    Write the end of a run.
    """
    return FinishEntry(
        job=job,
        slot=slot,
        token=token,
        instance_id=f"of {token}",
        claimed_ms=NOW_MS,
        status=status,
        reason=Reason.ERROR if status is Status.FAILED else None,
        error="boom" if status is Status.FAILED else None,
        started_ms=NOW_MS + 1,
    )


def told(
    *messages: list[Entry] | None,
    whole: bool = True,
    job: str | None = None,
    retention: Retention | None = None,
    late_ms: int = 0,
) -> list[RunRecord]:
    """
    Make records of messages that were written a second after each other.
    """
    placed = [
        (
            number,
            None
            if entries is None
            else Message(
                offset=number,
                mark="",
                written_ms=NOW_MS + 1_000 * number,
                entries=tuple(entries),
            ),
        )
        for number, entries in enumerate(messages)
    ]
    return records_of(
        Chapter(messages=placed, whole=whole),
        job=job,
        retention=retention or Retention(),
        now_ms=NOW_MS + late_ms,
    )


def test_the_first_claim_and_the_first_end_count() -> None:
    """
    A later claim or end of the same run changes nothing.
    """
    (record,) = told(
        [claim("a", 1, "x"), claim("a", 1, "y")],
        None,
        [finish("a", 1, "x", Status.FAILED)],
        [finish("a", 1, "x")],
    )

    assert (
        RunRecord(
            job="a",
            slot=1,
            attempt=1,
            instance_id="of x",
            status=Status.FAILED,
            reason=Reason.ERROR,
            claimed_at=datetime_of(NOW_MS),
            started_at=datetime_of(NOW_MS + 1),
            finished_at=datetime_of(NOW_MS + 2_000),
            error="boom",
        )
        == record
    )


def test_an_end_without_its_claim_is_a_record() -> None:
    """
    The claim may have been cut off; the end has all that is needed, whoever lost the slot then.
    """
    assert [(1, "of x", Status.SUCCESS)] == [
        (record.slot, record.instance_id, record.status)
        for record in told([claim("a", 1, "loser")], [finish("a", 1, "x")], whole=False)
    ]


def test_newest_first_and_jobs_in_order() -> None:
    """
    By slot descending, then by job.
    """
    entries: list[Entry] = [claim("b", 2, "x"), claim("a", 2, "x"), claim("a", 3, "x")]

    assert [("a", 3), ("a", 2), ("b", 2)] == [(each.job, each.slot) for each in told(entries)]
    assert [("b", 2)] == [(each.job, each.slot) for each in told(entries, job="b")]


def test_records_beyond_the_retention_are_left_out() -> None:
    """
    By count for each job, and by age from the end; a run that has not ended stays.
    """
    entries: list[Entry] = [claim("a", slot, "x") for slot in range(6)]
    ends: list[Entry] = [finish("a", slot, "x") for slot in range(1, 6)]
    few = told(entries, ends, retention=Retention(records_per_job=2))
    late = Retention(age_ms=10_000)

    assert [5, 4, 0] == [record.slot for record in few]
    assert [5, 4, 3, 2, 1, 0] == [
        each.slot for each in told(entries, ends, retention=late, late_ms=11_000)
    ]
    assert [0] == [each.slot for each in told(entries, ends, retention=late, late_ms=11_001)]


def test_who_asked_first_before_the_part_is_not_guessed() -> None:
    """
    In a part that begins anywhere, a run that has not ended is told only where its first claim must be in it.
    """
    messages: list[list[Entry]] = [[claim("a", slot, "x")] for slot in range(20)]

    assert [19, 18, 17, 16] == [record.slot for record in told(*messages, whole=False)]
    assert 20 == len(told(*messages))
    assert [] == told()
