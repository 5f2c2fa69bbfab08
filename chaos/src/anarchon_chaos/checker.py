"""
Judge a history: pure functions from what was left behind to what is wrong with it.

Each rule gives sentences; none means that it held. Nothing here believes what the product says of itself, except where
the product's word is what is judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anarchon import RunRecord, Status
from anarchon_chaos.evidence import Told
from anarchon_chaos.excuses import (
    could_not_tell,
    due_without_store,
    forgettable,
    life_of,
    on_record,
    teller_lost,
    told_lost,
    told_missed,
)
from anarchon_chaos.history import BACK, MS, Body, History, bodies, overlaps, takeovers

__all__ = [
    "RULES",
    "STOP_SLACK_MS",
    "Finding",
    "Rule",
    "all_accounted",
    "attempts_bounded",
    "attempts_in_order",
    "by_run",
    "ends_well",
    "faults_bit",
    "fenced_in_time",
    "fencing",
    "finished_stays_finished",
    "history_true",
    "judge",
    "never_early",
    "newest_slot_rules",
    "no_claim_in_vain",
    "no_overlap",
    "no_stampede",
    "one_winner",
    "takeover_in_time",
    "told_of",
]

Rule = Callable[[History, Sequence[Body]], Iterator[str]]

STOP_SLACK_MS = 2_500
"""
What a process may take to end after stop() has returned: the interpreter, on a machine that is busy.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that is wrong, and the rule that says so.
    """

    rule: str
    problem: str


def judge(history: History) -> list[Finding]:
    """
    Apply every rule.
    """
    found = bodies(history)
    return [
        Finding(rule=rule.__name__, problem=problem)
        for rule in RULES
        for problem in rule(history, found)
    ]


def one_winner(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    An attempt of a run starts once; once more after each time that its store has forgotten it.
    """
    seen: dict[tuple[str, int, int, int], Body] = {}
    for body in found:
        key = (*body.run, body.attempt, life_of(history, body.since_ns))
        if key in seen:
            yield f"{body} was started on {seen[key].instance} too"
        seen[key] = body


def no_overlap(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    Two bodies of one job are never at work at the same time, on a store that keeps leases.
    """
    if history.expect.overlap:
        return
    for before, body, both_ms in overlaps(found):
        if history.leases or before.run == body.run:
            yield f"{body} was at work for {both_ms:.1f} ms together with {before}"


def attempts_in_order(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    The attempts of a run start in their order. One may be missing: it died before its handler began.
    """
    newest: dict[tuple[str, int, int], int] = {}
    for body in found:
        key = (*body.run, life_of(history, body.since_ns))
        before = newest.get(key, 0)
        if body.attempt < before:
            yield f"{body} started after attempt {before}"
        newest[key] = max(before, body.attempt)


def finished_stays_finished(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    Nothing starts after a body of the run has come to its end, unless a fault kept its runner from saying so.

    A store that has forgotten the body since it started knows nothing of its end.
    """
    ended: dict[tuple[str, int], Body] = {}
    for body in found:
        before = ended.get(body.run)
        if (
            before is not None
            and not could_not_tell(history, before, body.since_ns)
            and life_of(history, before.since_ns) == life_of(history, body.since_ns)
        ):
            yield f"{body} started although attempt {before.attempt} had ended"
        if body.outcome == "ended":
            ended[body.run] = body


def newest_slot_rules(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    A job's newest slot is a high-water mark: an older one never starts after it.
    """
    newest: dict[str, int] = {}
    for body in found:
        high = newest.get(body.job, body.slot)
        if body.slot < high and history.leases:
            yield f"{body} started after slot {high}"
        newest[body.job] = max(high, body.slot)


def never_early(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    No handler starts before its slot, by the machine's true clock.
    """
    for mark in history.marks:
        if mark.what == "start" and mark.wall_ms < mark.slot:
            yield f"{mark.job} slot {mark.slot} started {mark.slot - mark.wall_ms} ms early on {mark.instance}"


def all_accounted(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    Every slot came to its end, or, where that is enough, was told as missed or stands in the history with a reason.

    A store without leases cannot tell what was missed, and promises nothing of slots that were due while it was gone;
    neither can one that has forgotten which slots there were. What one has forgotten in mid-run was told as lost.
    What was missed is told once, by whoever is answered at the next slot, so that nobody does if that one never heard
    its answer, or died with it.
    """
    known = {body.run for body in found if body.outcome == "ended"}
    lenient = not history.expect.complete
    if lenient:
        known |= on_record(history)
    for job, slot in history.slots:
        if (job, slot) in known:
            continue
        if due_without_store(history, slot):
            continue
        if lenient and (told_missed(history, job, slot) or teller_lost(history, found, job, slot)):
            continue
        if lenient and told_lost(history, found, job, slot):
            continue
        yield f"{job} slot {slot} did not come to its end in any attempt"


def takeover_in_time(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    The runner dies, freezes or is cut off: somebody else goes on within the lease and two heartbeats.
    """
    if not history.leases:
        return
    given = takeovers(history, found)
    for before, after, took_ms in given:
        if took_ms is not None and took_ms > history.bound_ms:
            yield (
                f"{after} started {took_ms:.0f} ms after {before.instance} was stalled;"
                f" {history.bound_ms} are promised"
            )
    if len(given) < history.expect.takeovers_min:
        yield f"{len(given)} runs were taken over; {history.expect.takeovers_min} had to be"


def attempts_bounded(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    Where nobody lost a lease, nobody took over; and a store without leases never has a second attempt.

    Attempts are counted by the bodies that there were: one that was granted to somebody who never heard of it has none.
    A store that has forgotten a run begins to count anew.
    """
    most = history.expect.attempts_max if history.leases else 1
    for run, attempts in by_run(found).items():
        lives = Counter(life_of(history, body.since_ns) for body in attempts)
        for count in lives.values():
            if most is not None and count > most:
                yield f"{run[0]} slot {run[1]} was executed {count} times; {most} were expected"


def fenced_in_time(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    A handler that is cut off from its store is cancelled before its lease ends.
    """
    if not history.leases:
        return
    for fault in history.faults:
        if not fault.kind.startswith("cut") or not fault.stalls:
            continue
        end_ns = fault.stalled_ns + history.lease_ms * MS
        if fault.until_ns < end_ns:
            continue
        for body in found:
            if (
                fault.target in (body.instance, "store")
                and body.since_ns < fault.since_ns
                and body.until_ns > end_ns
            ):
                late_ms = (body.until_ns - end_ns) / MS
                yield f"{body} was at work {late_ms:.0f} ms after its lease had ended"


def history_true(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    There is one record for each attempt that started, and a success only where a body came to its end.

    What started before the store has forgotten may have no record.
    """
    by_attempt: dict[tuple[str, int, int], RunRecord] = {}
    for record in history.records:
        key = (record.job, record.slot, record.attempt)
        if key in by_attempt:
            yield f"{record.job} slot {record.slot} attempt {record.attempt} has two records"
        by_attempt[key] = record
    ended = {(*body.run, body.attempt) for body in found if body.outcome == "ended"}
    for body in found:
        known = by_attempt.get((*body.run, body.attempt))
        if known is None:
            if not forgettable(history, body):
                yield f"{body} has no record"
        elif known.status is Status.RUNNING and (*body.run, body.attempt + 1) in by_attempt:
            yield f"{body} is told to be running, and there is a later attempt"
    for key, record in by_attempt.items():
        if record.status is Status.SUCCESS and key not in ended:
            yield f"{record.job} slot {record.slot} attempt {record.attempt} is a success that no handler wrote"


def fencing(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    Once the next attempt was granted, nothing that the old one sends changes the run: its record says interrupted.
    """
    granted = {(record.job, record.slot, record.attempt) for record in history.records}
    for record in history.records:
        later = (record.job, record.slot, record.attempt + 1)
        if later in granted and record.status is not Status.INTERRUPTED:
            yield (
                f"{record.job} slot {record.slot} attempt {record.attempt} says {record.status},"
                " and there is a later attempt"
            )


def no_claim_in_vain(history: History, found: Sequence[Body]) -> Iterator[str]:
    """
    While a store refuses or is gone, nobody starts a handler without a claim that it has recorded.
    """
    after_ms = history.expect.quiet_after_ms
    if after_ms is None:
        return
    for fault in history.faults:
        if fault.target != "store":
            continue
        for body in found:
            if fault.since_ns + after_ms * MS < body.since_ns < fault.until_ns:
                yield f"{body} started while the store was not to be had ({fault.kind})"


def no_stampede(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    A store that is gone is not run down by those who wait for it, and one that is back is not overrun by them.
    """
    expect = history.expect
    for fault in history.faults:
        for name, tried in fault.knocks.items():
            if expect.knocks_max is not None and tried > expect.knocks_max:
                yield (
                    f"{name} tried {tried} connections while the store was gone;"
                    f" {expect.knocks_max} were expected at the most"
                )
    for count in history.counts:
        if count.when != BACK or expect.calls_back_max is None:
            continue
        # A busy machine counts late, and what has come until then is counted too.
        most = expect.calls_back_max * max(1_000, count.ms) // 1_000
        if count.total > most:
            yield f"{count.total} calls reached the store {BACK}; {most} were expected at the most"


def faults_bit(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    A fault that was never seen to bite has shown nothing.
    """
    for fault in history.faults:
        if fault.bites < 1:
            yield f"{fault.kind} on {fault.target} did not bite"
    if history.swallowed and not any(history.swallowed.values()):
        yield f"nothing was dropped on the wires of {', '.join(sorted(history.swallowed))}"


def told_of(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    What an operator has to hear was told, with its job where there is one, and nothing was cried without cause.
    """
    for wanted in history.expect.told:
        if not any(_is_told(told, wanted) for told in history.told):
            yield f"nobody told of {wanted}"
    for unwanted in history.expect.untold:
        heard = [told for told in history.told if _is_told(told, unwanted)]
        if heard:
            yield f"{heard[0].instance} told of {unwanted}: {dict(heard[0].detail)}"


def ends_well(history: History, _found: Sequence[Body]) -> Iterator[str]:
    """
    Who is asked to stop ends in time, with status 0, and nothing hangs.
    """
    allowed_ms = history.stop_timeout_ms + 1_000 + STOP_SLACK_MS
    for leave in history.exits:
        if leave.status != 0:
            yield f"{leave.instance} ended with status {leave.status}"
        elif leave.took_ms > allowed_ms:
            yield f"{leave.instance} took {leave.took_ms} ms to end"


RULES: tuple[Rule, ...] = (
    one_winner,
    no_overlap,
    attempts_in_order,
    finished_stays_finished,
    newest_slot_rules,
    never_early,
    all_accounted,
    takeover_in_time,
    attempts_bounded,
    fenced_in_time,
    history_true,
    fencing,
    no_claim_in_vain,
    no_stampede,
    faults_bit,
    told_of,
    ends_well,
)


def _is_told(told: Told, wanted: str) -> bool:
    kind, _, words = wanted.partition(":")
    if told.type != kind:
        return False
    return not words or words.lower() in " ".join(map(str, told.detail.values())).lower()


def by_run(found: Sequence[Body]) -> dict[tuple[str, int], list[Body]]:
    """
    Group bodies by their run.
    """
    grouped: dict[tuple[str, int], list[Body]] = defaultdict(list)
    for body in found:
        grouped[body.run].append(body)
    return dict(grouped)
