"""
What excuses a slot or a body from a rule: where no scheduler could have done better.

An excuse that is too wide hides what a rule is there to find, so that each has forged histories on both of its sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anarchon import Status
from anarchon_chaos.history import MS, Body, Fault, History

__all__ = [
    "could_not_tell",
    "due_without_store",
    "forgettable",
    "life_of",
    "on_record",
    "started_again",
    "teller_lost",
    "told_lost",
    "told_missed",
]

_MARGIN_MS = 1_000
_WORD_MS = 500


def could_not_tell(history: History, ended: Body, again_ns: int) -> bool:
    """
    Say whether a fault between the end of a handler and the store's answer may have kept the word from arriving.
    """

    def between(fault: Fault) -> bool:
        return (
            fault.target in (ended.instance, "store")
            and fault.since_ns <= min(again_ns, ended.until_ns + _WORD_MS * MS)
            and fault.until_ns >= ended.until_ns - _WORD_MS * MS
        )

    return any(map(between, history.faults))


def life_of(history: History, at_ns: int) -> int:
    """
    Say how often, until an instant, the store has lost what it had acknowledged, where it was allowed to.

    Whatever has started in another life of the store may be unknown to it; within one life every promise holds, so that
    one loss excuses one start more.
    """
    return sum(
        fault.lost_ns is not None and fault.lost_ns <= at_ns
        for fault in history.faults
        if _forgot(history, fault)
    )


def forgettable(history: History, body: Body) -> bool:
    """
    Say whether the store has lost what it knew of a body since that started, where it was allowed to.
    """
    return life_of(history, body.since_ns) < life_of(history, history.ended_ns)


def started_again(history: History, found: Sequence[Body]) -> list[Body]:
    """
    Give the first body of each run in each life of the store that only the loss before it excuses.

    That is one whose attempt, or a later one, had started in an earlier life, or whose run had ended there.
    """
    again: dict[tuple[str, int, int], Body] = {}
    before: dict[tuple[str, int], list[tuple[int, Body]]] = {}
    for body in found:
        life = life_of(history, body.since_ns)
        if any(
            earlier < life and (old.attempt >= body.attempt or old.outcome == "ended")
            for earlier, old in before.get(body.run, ())
        ):
            again.setdefault((*body.run, life), body)
        before.setdefault(body.run, []).append((life, body))
    return list(again.values())


def on_record(history: History) -> set[tuple[str, int]]:
    """
    Give the slots that stand in the store's history with how they ended, other than by success.

    With leases a run that is still told to be running has no such reason: somebody would have had to go on with it.
    """
    return {
        (record.job, record.slot)
        for record in history.records
        if record.status is not Status.SUCCESS
        and not (history.leases and record.status is Status.RUNNING)
    }


def told_missed(history: History, job: str, slot: int) -> bool:
    """
    Say whether somebody told that the slot was missed.
    """
    return any(
        told.type == "miss"
        and told.detail["job"] == job
        and told.detail["first_slot"] <= slot <= told.detail["last_slot"]
        for told in history.told
    )


def told_lost(history: History, found: Sequence[Body], job: str, slot: int) -> bool:
    """
    Say whether a run was given up, and that was told, because the store had lost what it knew of it.

    Those who wait to go on with it ask for its next attempt, and there is no such run any more.
    """
    return any(
        body.run == (job, slot)
        and any(
            told.type == "lost"
            and told.pid == body.pid
            and (told.detail["job"], told.detail["slot"], told.detail["attempt"])
            == (job, slot, body.attempt)
            and life_of(history, told.at_ns) > life_of(history, body.since_ns)
            for told in history.told
        )
        for body in found
    )


def due_without_store(history: History, slot: int) -> bool:
    """
    Say whether a slot was due while a store that can tell nothing of it was gone, or within a second of that.

    That is one without leases, which does not know what was missed, and one that has forgotten what came before.
    The store is gone until a fault of it has ended and an instance has reached it again: each asks anew after a pause
    of its own, so that nobody hears at once that it is back.
    """
    due_ns = history.begun_ns + (slot - history.begun_wall_ms) * MS
    return any(
        fault.since_ns - _MARGIN_MS * MS <= due_ns <= _reached_ns(history, fault) + _MARGIN_MS * MS
        for fault in history.faults
        if fault.target == "store" and (not history.leases or _forgot(history, fault))
    )


def _forgot(history: History, fault: Fault) -> bool:
    return history.expect.repeats and fault.lost_ns is not None


def _reached_ns(history: History, fault: Fault) -> int:
    """
    Say when the first instance that a fault of the store had shut out reached it again, not before the fault's end.

    Who was shut out later than a second after that tells nothing of this fault.
    """
    out_ns: dict[int, int] = {}
    back_ns: dict[int, int] = {}
    for told in sorted(history.told, key=lambda each: each.at_ns):
        if told.type == "outage":
            out_ns[told.pid] = told.at_ns
            if told.at_ns < fault.until_ns:
                back_ns.pop(told.pid, None)
        elif told.type == "recovered" and told.pid in out_ns:
            since_ns = out_ns.pop(told.pid)
            if told.at_ns >= fault.since_ns and since_ns <= fault.until_ns + _MARGIN_MS * MS:
                back_ns.setdefault(told.pid, max(fault.until_ns, told.at_ns))
    return min(back_ns.values(), default=fault.until_ns)


def teller_lost(history: History, found: Sequence[Body], job: str, slot: int) -> bool:
    """
    Say whether the one who had to tell that a slot was missed could not.

    That is who was answered at the next slot that is on record, in its first attempt: the answer names what was missed
    before it, and nobody else has it. Who never told of the answer, and never began, has not heard it; nor can somebody
    tell who dies within a second of it. No record after the slot, or none of a first attempt, excuses nothing.
    """
    after = (record for record in history.records if record.job == job and record.slot > slot)
    first = min(after, key=lambda record: (record.slot, record.attempt), default=None)
    if first is None or first.attempt != 1:
        return False
    return all(
        0 <= history.deaths.get(pid, -1) - at_ns < _MARGIN_MS * MS
        for pid, at_ns in _heard(history, found, job, first.slot)
    )


def _heard(
    history: History, found: Sequence[Body], job: str, slot: int
) -> Iterator[tuple[int, int]]:
    # An answer that was heard is told of as a claim, or as an overlap where the slot was skipped.
    for told in history.told:
        detail = told.detail
        if detail.get("job") != job or detail.get("slot") != slot:
            continue
        won = told.type == "claim" and detail["attempt"] == 1
        if won or (told.type == "skip" and detail["reason"] == "overlap"):
            yield told.pid, told.at_ns
    for body in found:
        if body.run == (job, slot) and body.attempt == 1:
            yield body.pid, body.since_ns
