"""
Judge a history by what the handlers wrote: pure functions from evidence to what is wrong with it.

Each returns sentences; none means that the rule held.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anarchon import RunRecord, Status
from anarchon_chaos.evidence import Mark, Told

__all__ = [
    "RULES",
    "Body",
    "against_history",
    "attempts_out_of_order",
    "bodies",
    "not_run_once",
    "older_after_newer",
    "overlapping",
    "repeated",
    "rerun_after_end",
    "started_early",
    "unaccounted",
    "wrong",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """
    One attempt as its handler wrote it, without its clean-up.

    ``until_ns`` is the last sign of the body: its end, its last step, or the death of its process when that came
    while it was at work. Instants are CLOCK_MONOTONIC in nanoseconds.
    """

    job: str
    slot: int
    attempt: int
    pid: int
    since_ns: int
    until_ns: int
    ended: bool

    def __str__(self) -> str:
        return f"{self.job} slot {self.slot} attempt {self.attempt} in process {self.pid}"


def bodies(marks: Iterable[Mark], deaths: Mapping[int, int] | None = None) -> list[Body]:
    """
    Put the lines of each attempt together, in the order of their starts.

    Args:
        marks: What the handlers wrote.

        deaths: When processes were killed, by their number.
    """
    grouped: dict[tuple[str, int, int, int], list[list[Mark]]] = defaultdict(list)
    for mark in marks:
        starts = grouped[mark.job, mark.slot, mark.attempt, mark.pid]
        if mark.what == "start" or not starts:
            starts.append([])
        starts[-1].append(mark)
    found = []
    for (job, slot, attempt, pid), starts in grouped.items():
        for lines in starts:
            body = [mark for mark in lines if mark.what != "cleanup"] or lines
            until_ns = max(mark.at_ns for mark in body)
            ended = body[-1].what == "end"
            if not ended and len(body) == len(lines) and deaths and pid in deaths:
                until_ns = max(until_ns, deaths[pid])
            found.append(
                Body(
                    job=job,
                    slot=slot,
                    attempt=attempt,
                    pid=pid,
                    since_ns=lines[0].at_ns,
                    until_ns=until_ns,
                    ended=ended,
                )
            )
    return sorted(found, key=lambda body: body.since_ns)


def repeated(found: Sequence[Body]) -> Iterator[str]:
    """
    One winner: an attempt of a run starts once.
    """
    seen: dict[tuple[str, int, int], Body] = {}
    for body in found:
        key = body.job, body.slot, body.attempt
        if key in seen:
            yield f"{body} was started in process {seen[key].pid} too"
        seen[key] = body


def overlapping(found: Sequence[Body]) -> Iterator[str]:
    """
    No overlap: two bodies of one job are never at work at the same time.
    """
    last: dict[str, Body] = {}
    for body in found:
        before = last.get(body.job)
        if before is not None and body.since_ns < before.until_ns:
            over_ms = (before.until_ns - body.since_ns) / 1e6
            yield f"{body} started {over_ms:.1f} ms before the last sign of {before}"
        if before is None or body.until_ns > before.until_ns:
            last[body.job] = body


def attempts_out_of_order(found: Sequence[Body]) -> Iterator[str]:
    """
    Fencing: the attempts of a run start in their order. One may be missing: it died before its handler began.
    """
    newest: dict[tuple[str, int], int] = {}
    for body in found:
        before = newest.get((body.job, body.slot), 0)
        if body.attempt < before:
            yield f"{body} started after attempt {before}"
        newest[body.job, body.slot] = max(before, body.attempt)


def rerun_after_end(found: Sequence[Body]) -> Iterator[str]:
    """
    A finished slot stays finished: nothing starts after a body of the run has come to its end.

    A process that is killed between the end of a handler and the store's answer breaks this, and may.
    """
    ended: dict[tuple[str, int], Body] = {}
    for body in found:
        before = ended.get((body.job, body.slot))
        if before is not None and before.until_ns < body.since_ns:
            yield f"{body} started although attempt {before.attempt} had ended"
        if body.ended:
            ended[body.job, body.slot] = body


def older_after_newer(found: Sequence[Body]) -> Iterator[str]:
    """
    A job's newest slot is a high-water mark: an older one never starts after it.
    """
    newest: dict[str, int] = {}
    for body in found:
        high = newest.get(body.job, body.slot)
        if body.slot < high:
            yield f"{body} started after slot {high}"
        newest[body.job] = max(high, body.slot)


RULES = (repeated, overlapping, attempts_out_of_order, rerun_after_end, older_after_newer)
"""
What holds whatever is done to the instances; `rerun_after_end` as long as nobody is killed at the wrong moment.
"""


def wrong(marks: Sequence[Mark], deaths: Mapping[int, int] | None = None) -> list[str]:
    """
    Apply every rule, and the one that no handler starts before its slot.
    """
    found = bodies(marks, deaths)
    return [*started_early(marks), *(trouble for rule in RULES for trouble in rule(found))]


def started_early(marks: Iterable[Mark]) -> Iterator[str]:
    """
    No handler starts before its slot, by the machine's true clock.
    """
    for mark in marks:
        if mark.what == "start" and mark.wall_ms < mark.slot:
            yield f"{mark.job} slot {mark.slot} started {mark.slot - mark.wall_ms} ms early on {mark.instance}"


def not_run_once(found: Sequence[Body], expected: Iterable[tuple[str, int]]) -> Iterator[str]:
    """
    Every slot exactly once: one start, in attempt 1, that came to its end.
    """
    by_run: dict[tuple[str, int], list[Body]] = defaultdict(list)
    for body in found:
        by_run[body.job, body.slot].append(body)
    for job, slot in expected:
        runs = [(body.attempt, body.ended) for body in by_run.get((job, slot), [])]
        if runs != [(1, True)]:
            yield f"{job} slot {slot} has (attempt, ended) = {runs}"


def unaccounted(
    found: Sequence[Body],
    misses: Sequence[Told],
    records: Sequence[RunRecord],
    expected: Iterable[tuple[str, int]],
) -> Iterator[str]:
    """
    None lost: every slot came to its end in some attempt, was told as missed once, or stands in the history.

    There it is skipped, or interrupted and superseded by a newer slot before anybody went on with it. One of the
    three holds, and not two.
    """
    ended = {(body.job, body.slot) for body in found if body.ended}
    given_up = {
        (record.job, record.slot)
        for record in records
        if record.status in (Status.SKIPPED, Status.INTERRUPTED)
    } - ended
    for job, slot in expected:
        told = sum(
            miss.detail["job"] == job
            and miss.detail["first_slot"] <= slot <= miss.detail["last_slot"]
            for miss in misses
        )
        if told + ((job, slot) in ended) + ((job, slot) in given_up) != 1:
            yield (
                f"{job} slot {slot}: ended {(job, slot) in ended}, told as missed {told} times,"
                f" in the history as not completed {(job, slot) in given_up}"
            )


def against_history(found: Sequence[Body], records: Sequence[RunRecord]) -> Iterator[str]:
    """
    The history has one record for each attempt that started, and a success only where a body came to its end.
    """
    by_attempt = {(record.job, record.slot, record.attempt): record for record in records}
    if len(by_attempt) != len(records):
        yield "the history has two records of one attempt"
    ended = {(body.job, body.slot, body.attempt) for body in found if body.ended}
    for body in found:
        record = by_attempt.get((body.job, body.slot, body.attempt))
        if record is None:
            yield f"{body} has no record"
        elif body.ended and record.status not in (Status.SUCCESS, Status.INTERRUPTED):
            yield f"{body} ended, and its record says {record.status}"
    for record in records:
        if (
            record.status is Status.SUCCESS
            and (record.job, record.slot, record.attempt) not in ended
        ):
            yield f"{record.job} slot {record.slot} attempt {record.attempt} is a success that no handler wrote"
