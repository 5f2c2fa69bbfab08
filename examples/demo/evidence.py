"""
What the demo has shown, checked: each sentence against what the handlers wrote and what the history says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from anarchon import Reason, RunRecord, Status

__all__ = ["Case", "Finding", "Mark", "Story", "examine", "read_marks"]

SECOND_MS = 1_000
HANDOVER_MS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    One line that a handler has written.
    """

    what: str
    job: str
    slot: int
    attempt: int
    instance: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """
    What was done to the instances while they ran one slot of the report, and how they ended.

    Instants are in milliseconds since 1970.
    """

    slot: int
    killed: str
    killed_ms: int
    stopped: str
    last: str
    lease_ms: int
    heartbeat_ms: int
    exits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    All that is known afterwards: the handlers' lines, the history, and what was done.
    """

    marks: Sequence[Mark]
    records: Sequence[RunRecord]
    story: Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    A sentence about what was shown. ``wrong`` says what contradicts it; None if nothing does.
    """

    sentence: str
    wrong: str | None


def read_marks(text: str) -> list[Mark]:
    """
    Read the file that the handlers wrote.
    """
    return [Mark(**json.loads(line)) for line in text.splitlines()]


def examine(case: Case) -> list[Finding]:
    """
    Check every sentence. Nothing here trusts what the instances told while they ran.
    """
    findings = []
    for check in (_ticks, _takeover, _handover, _history, _exits):
        sentence, *wrong = check(case)
        findings.append(Finding(sentence=sentence, wrong="; ".join(wrong) or None))
    return findings


def _ticks(case: Case) -> Iterator[str]:
    begun = Counter(mark.slot for mark in case.marks if mark.job == "tick")
    ticks = [record for record in case.records if record.job == "tick"]
    winners = Counter(mark.instance for mark in case.marks if mark.job == "tick")
    shares = ", ".join(f"{name} {winners[name]}" for name in sorted(winners))
    yield (
        f"Each of the {len(begun)} slots of the one-second job was run exactly once, none twice and none left out,"
        f" while one process was killed and two were stopped. Runs by instance: {shares}."
    )
    if len(begun) < 10:
        yield f"only {len(begun)} slots were run"
        return
    for slot in range(min(begun), max(begun) + 1, SECOND_MS):
        if begun[slot] != 1:
            yield f"slot {slot} was run {begun[slot]} times"
        kept = [record for record in ticks if record.slot == slot]
        if [(record.attempt, record.status) for record in kept] != [(1, Status.SUCCESS)]:
            yield f"the history of slot {slot} has {[(record.attempt, str(record.status)) for record in kept]}"
    strange = {record.slot for record in ticks} - set(begun)
    if strange:
        yield f"the history has slots that no handler saw: {sorted(strange)}"


def _takeover(case: Case) -> Iterator[str]:
    first, second = _attempt(case, 1), _attempt(case, 2)
    allowed_ms = case.story.lease_ms + 2 * case.story.heartbeat_ms
    if first is None or second is None:
        yield "The killed run was taken over."
        yield "the history has no second attempt"
        return
    took_ms = _ms(second.claimed_at) - case.story.killed_ms
    yield (
        f"{second.instance_id} took the report over from {case.story.killed} {took_ms / 1_000:.1f} s after the kill;"
        f" promised are {allowed_ms / 1_000:.0f} s: the lease and two heartbeats."
    )
    if not 0 < took_ms <= allowed_ms:
        yield f"the takeover came {took_ms} ms after the kill"
    if (first.instance_id, first.status, first.reason) != (
        case.story.killed,
        Status.INTERRUPTED,
        Reason.LEASE_EXPIRED,
    ):
        yield f"attempt 1 stands as {first}"
    if second.instance_id == case.story.killed:
        yield "the killed process took over from itself"


def _handover(case: Case) -> Iterator[str]:
    second, third = _attempt(case, 2), _attempt(case, 3)
    if second is None or third is None or second.finished_at is None:
        yield "The stopped run was handed over."
        yield "the history has no third attempt"
        return
    took_ms = _ms(third.claimed_at) - _ms(second.finished_at)
    yield (
        f"{third.instance_id} went on {took_ms} ms after {case.story.stopped} had let go on SIGTERM:"
        " a hand-over waits for no lease."
    )
    if took_ms > HANDOVER_MS_MAX:
        yield f"the hand-over took {took_ms} ms"
    if (second.instance_id, second.status, second.reason) != (
        case.story.stopped,
        Status.INTERRUPTED,
        Reason.HANDED_OVER,
    ):
        yield f"attempt 2 stands as {second}"
    if (third.instance_id, third.status) != (case.story.last, Status.SUCCESS):
        yield f"attempt 3 stands as {third}"


def _history(case: Case) -> Iterator[str]:
    run = ("report", case.story.slot)
    marks = [mark for mark in case.marks if (mark.job, mark.slot) == run]
    begun = [mark for mark in marks if mark.what == "begin"]
    ended = [mark.attempt for mark in marks if mark.what == "end"]
    yield (
        "The history has all three attempts of the report, the killed one too;"
        " only the last one did its work to the end."
    )
    if [mark.attempt for mark in begun] != [1, 2, 3] or len({mark.instance for mark in begun}) != 3:
        yield f"the report began as {[(mark.attempt, mark.instance) for mark in begun]}"
    if ended != [3]:
        yield f"attempts {ended} ended their work"
    kept = sorted(
        (record.attempt, record.instance_id)
        for record in case.records
        if (record.job, record.slot) == run
    )
    if kept != [(mark.attempt, mark.instance) for mark in begun]:
        yield f"the history has {kept}"


def _exits(case: Case) -> Iterator[str]:
    yield f"{case.story.stopped} and {case.story.last} ended with status 0 after SIGTERM."
    for name in (case.story.stopped, case.story.last):
        if case.story.exits[name] != 0:
            yield f"{name} ended with {case.story.exits[name]}"


def _attempt(case: Case, attempt: int) -> RunRecord | None:
    wanted = ("report", case.story.slot, attempt)
    found = (
        record for record in case.records if (record.job, record.slot, record.attempt) == wanted
    )
    return next(found, None)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1_000)
