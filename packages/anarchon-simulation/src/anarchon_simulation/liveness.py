"""
What must hold at the end, when nothing has gone wrong for a while.

Every slot is accounted for: it ran, or it was skipped or missed for a reason that
somebody told. Every scheduler still claims. stop() has returned in its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anarchon.events import ClaimEvent, MissEvent, SkipEvent
from anarchon.records import Reason, RunRecord, Status, datetime_of
from anarchon.slots import Every
from anarchon_simulation.audit import JobBooks, Reign
from anarchon_simulation.cluster import Cluster
from anarchon_simulation.plan import JobPlan
from anarchon_simulation.process import Process, State

__all__ = ["Heard", "reached_ms", "unaccounted", "unstopped"]

_SLOW_MS = 1_000
_STOP_GRACE_MS = 1_000
_STEP_US = 50_000


class Heard:
    """
    What the schedulers told, as far as accounting needs it.
    """

    def __init__(self) -> None:
        self.claims: dict[tuple[str, int], list[Process]] = {}
        self.too_late: set[tuple[str, int]] = set()
        self.misses: list[tuple[Process, MissEvent]] = []

    def event(self, process: Process, event: object) -> None:
        """
        Hear one event.
        """
        if isinstance(event, ClaimEvent) and event.attempt == 1:
            self.claims.setdefault((event.job, event.slot), []).append(process)
        elif isinstance(event, SkipEvent) and event.reason == "late":
            self.too_late.add((event.job, event.slot))
        elif isinstance(event, MissEvent):
            self.misses.append((process, event))

    def missed(self, job: str, slot: int) -> bool:
        """
        Say whether anybody told that a slot was missed.
        """
        return any(
            event.job == job and event.first_slot <= slot <= event.last_slot
            for _, event in self.misses
        )


def reached_ms(cluster: Cluster, job: JobPlan, every_ms: int) -> int:
    """
    Say how far the slots of a schedule have come due: by the store's clock, or by the instances' if those are behind.

    Slots come from the wall clocks of the instances that have the job so, and a fast one waits for the store's.
    """
    walls = [
        process.instance.clock.wall_ms()
        for process in cluster.processes
        if process.alive and _version_ms(job, process.version) == every_ms
    ]
    return min(cluster.store.time(), max(walls, default=0))


def unaccounted(
    cluster: Cluster, heard: Heard, *, calm_since_ms: int, grace_ms: int
) -> Iterator[str]:
    """
    Find what was lost, and who does nothing any more.

    Args:
        cluster: What ran.

        heard: What its schedulers told.

        calm_since_ms: From when on nothing went wrong, on the store's clock:
            no slot later than that may be missed.

        grace_ms: How long a slot may take until it is decided.
    """
    for job in cluster.plan.jobs:
        books = cluster.audit.books(job.name)
        records = _records(cluster, job.name)
        if cluster.plan.store.leases:
            yield from _slots(
                cluster,
                heard,
                job,
                books,
                records,
                calm_since_ms=calm_since_ms,
                grace_ms=grace_ms,
            )
            yield from _unfinished(
                job,
                books,
                records,
                until_ms=cluster.store.time() - grace_ms,
                overdue_ms=cluster.store.clock.suspend_ms() - books.lease_until_ms - grace_ms,
            )
        else:
            yield from _claims_only(
                cluster, job, records, calm_since_ms=calm_since_ms, grace_ms=grace_ms
            )
    for process in cluster.processes:
        if process.alive and process.state is not State.RUNNING:
            yield f"{process.name} is {process.state.value}, and not running"
        on_time = process.instance.clock.wall_ms() >= cluster.store.time() - _SLOW_MS
        if process.alive and on_time and not cluster.audit.claims[process.name]:
            yield f"{process.name} has claimed nothing since all was well again"


def unstopped(cluster: Cluster) -> Iterator[str]:
    """
    Find schedulers whose stop() took too long, by their own clocks, or never ended.
    """
    bound_us = (cluster.plan.stop_timeout_ms + _STOP_GRACE_MS) * 1_000 + _STEP_US
    for process in cluster.processes:
        if process.instance.crashed and process.state is not State.STOPPED:
            continue
        if process.state in (State.STOPPING, State.STARTING):
            yield f"stop() of {process.name} has not returned"
        elif (
            process.stopped_after_us is not None
            and process.stopped_after_us > bound_us
            and process.held_until_us < process.began_us
        ):
            yield f"stop() of {process.name} took {process.stopped_after_us / 1e6:.3f} s"


def _records(cluster: Cluster, job: str) -> dict[int, list[RunRecord]]:
    found: dict[int, list[RunRecord]] = {}
    for stored in cluster.store.memory.records.get(job, {}).values():
        found.setdefault(stored.record.slot, []).append(stored.record)
    for attempts in found.values():
        attempts.sort(key=lambda record: record.attempt)
    return found


def _grid(every_ms: int, after_ms: int, until_ms: int) -> list[int]:
    schedule = Every(every_ms / 1_000)
    slots: list[int] = []
    slot = schedule.next_slot(after_ms)
    while slot is not None and slot <= until_ms:
        slots.append(slot)
        slot = schedule.next_slot(slot)
    return slots


def _slots(
    cluster: Cluster,
    heard: Heard,
    job: JobPlan,
    books: JobBooks,
    records: dict[int, list[RunRecord]],
    *,
    calm_since_ms: int,
    grace_ms: int,
) -> Iterator[str]:
    """
    Each slot since the job was first registered is in the history, or was told as missed.
    """
    first_ms = books.first_high
    if first_ms is None:
        yield f"{job.name} was never registered"
        return
    for number, reign in enumerate(books.reigns):
        from_ms = max(first_ms, reign.since_ms or 0)
        every_ms = _every_ms(job, reign)
        to_ms = reached_ms(cluster, job, every_ms) - grace_ms
        if number + 1 < len(books.reigns):
            # A schedule that was replaced owes what its own newest slot has passed over, and nothing after that.
            to_ms = min(to_ms, reign.high or 0)
        yield from _reign_slots(
            cluster,
            heard,
            job,
            books,
            records,
            slots=_grid(every_ms, from_ms, to_ms),
            calm_since_ms=calm_since_ms,
        )


def _version_ms(job: JobPlan, version: int) -> int:
    """
    Say how far apart slots are in a version of the jobs.
    """
    return job.every_ms if not version or job.changed_every_ms is None else job.changed_every_ms


def _every_ms(job: JobPlan, reign: Reign) -> int:
    """
    Say by which of the job's two schedules it was known.
    """
    changed_ms = job.changed_every_ms
    if changed_ms is not None and Every(changed_ms / 1_000).fingerprint == reign.fingerprint:
        return changed_ms
    return job.every_ms


def _reign_slots(
    cluster: Cluster,
    heard: Heard,
    job: JobPlan,
    books: JobBooks,
    records: dict[int, list[RunRecord]],
    *,
    slots: Sequence[int],
    calm_since_ms: int,
) -> Iterator[str]:
    """
    Each of these slots is in the history, or there is a reason why it is not.
    """
    for slot in slots:
        if slot in records:
            continue
        if job.max_lateness_ms is not None and (job.name, slot) in heard.too_late:
            continue
        if job.catch_up == "none" and slot <= calm_since_ms and (books.high or 0) < slot:
            continue  # Nobody was there, and the policy is to begin with the next one.
        if books.high is None or slot > books.high:
            if job.catch_up != "all" or not (_works(cluster, books) or _lapsed(cluster, job, slot)):
                yield f"{job.name} {slot} was never decided; the newest is {books.high}"
        elif slot > calm_since_ms and job.catch_up != "all":
            yield f"{job.name} {slot} was lost although nothing went wrong"
        elif (
            job.catch_up == "all" and job.catch_up_window_ms is None and job.max_lateness_ms is None
        ):
            yield f"{job.name} {slot} was left out although every slot is to be caught up"
        elif not _explained(heard, job.name, slot, books):
            yield f"{job.name} {slot} was missed, and nobody told it"


def _works(cluster: Cluster, books: JobBooks) -> bool:
    """
    Say whether a job with slots to catch up gets on with them: one goes on, or began or ended just now.
    """
    idle_us = cluster.now_us() - books.busy_us
    return (
        books.live is not None
        or idle_us < (cluster.plan.lease_ms + 2 * cluster.plan.heartbeat_ms) * 1_000
    )


def _lapsed(cluster: Cluster, job: JobPlan, slot: int) -> bool:
    """
    Say whether a slot has left its window while an older one went on: the next one's winner tells it.
    """
    windows = [
        window_ms
        for window_ms in (job.catch_up_window_ms, job.max_lateness_ms)
        if window_ms is not None
    ]
    return bool(windows) and cluster.store.time() - slot > min(windows)


def _explained(heard: Heard, job: str, slot: int, books: JobBooks) -> bool:
    """
    A missed slot was told, unless whoever was to tell it died or never heard of it.
    """
    if heard.missed(job, slot):
        return True
    for missed in books.missed:
        if missed.after < slot < missed.before:
            holders = heard.claims.get((job, missed.before), [])
            return not any(process.alive for process in holders)
    return False


def _unfinished(
    job: JobPlan,
    books: JobBooks,
    records: dict[int, list[RunRecord]],
    *,
    until_ms: int,
    overdue_ms: int,
) -> Iterator[str]:
    """
    A run that was begun is finished, given up, superseded, or still goes on.
    """
    if overdue_ms > 0 and books.live is not None:
        yield f"{job.name} {books.live} was let go {overdue_ms} ms ago, and nobody went on with it"
    for slot, attempts in records.items():
        last = attempts[-1]
        numbers = [record.attempt for record in attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{job.name} {slot} has the attempts {numbers}"
        for record in attempts[:-1]:
            if record.status is not Status.INTERRUPTED:
                yield f"{job.name} {slot}.{record.attempt} is {record.status}, and another attempt followed"
        if last.status is Status.RUNNING and books.live != (slot, last.attempt):
            yield f"{job.name} {slot}.{last.attempt} is recorded as running, but {books.live} is live"
        if (
            last.status is Status.INTERRUPTED
            and _ended_before(last, until_ms)
            and not _settled(job, books, last)
        ):
            yield f"{job.name} {slot}.{last.attempt} was interrupted ({last.reason}), and nobody went on with it"


def _ended_before(record: RunRecord, until_ms: int) -> bool:
    """
    Say whether an attempt ended so long ago that somebody had the time to go on.
    """
    return record.finished_at is not None and record.finished_at < datetime_of(max(0, until_ms))


def _settled(job: JobPlan, books: JobBooks, last: RunRecord) -> bool:
    if last.reason in (Reason.SUPERSEDED, Reason.MAX_CRASHES, Reason.TAKEOVER_OFF):
        return True
    if last.reason is Reason.HANDED_OVER:
        # Without takeover it is closed; or a newer slot came first.
        return not job.takeover or books.newest > (last.slot, last.attempt)
    return False


def _claims_only(
    cluster: Cluster,
    job: JobPlan,
    records: dict[int, list[RunRecord]],
    *,
    calm_since_ms: int,
    grace_ms: int,
) -> Iterator[str]:
    """
    Without leases nothing is caught up; but in calm times no slot of any schedule that runs is lost.
    """
    for every_ms in sorted({_version_ms(job, process.version) for process in cluster.processes}):
        until_ms = reached_ms(cluster, job, every_ms) - grace_ms
        for slot in _grid(every_ms, calm_since_ms, until_ms):
            if slot not in records:
                yield f"{job.name} {slot} was lost although nothing went wrong"
    for slot, attempts in records.items():
        if len(attempts) > 1:
            yield f"{job.name} {slot} was executed {len(attempts)} times"
