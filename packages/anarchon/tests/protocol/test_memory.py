"""
The memory backends, where the conformance kit does not reach: their store's clock, and what they keep.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anarchon.backend import (
    Backend,
    ClaimRequest,
    FinishRequest,
    LeaseBackend,
    RegisterRequest,
    ReleaseRequest,
    RenewRequest,
    Verdict,
)
from anarchon.capabilities import Reach
from anarchon.errors import BackendError, BackendStateError, InvalidOptionError
from anarchon.memory import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.records import Reason, Retention, Status
from anarchon.registry import backend_from_url
from anarchon.testing import ManualClock, open_memory, open_memory_claim

TIMEOUT_MS = 1_000


def claim(slot: int, **options: Any) -> ClaimRequest:
    """
    Write a claim.
    """
    named: dict[str, Any] = {"token": f"t-{slot}", "instance_id": "host:1", "lease_ms": 1_000}
    return ClaimRequest(job="job", slot=slot, **(named | options))


def finish(slot: int, **options: Any) -> FinishRequest:
    """
    Write the finish that belongs to it.
    """
    named: dict[str, Any] = {"attempt": 1, "token": f"t-{slot}", "status": Status.SUCCESS}
    return FinishRequest(job="job", slot=slot, **(named | options))


async def test_leases_follow_the_clock_that_never_steps() -> None:
    """
    A step of the wall clock ends no lease; the passing of time does.
    """
    clock = ManualClock()
    backend = MemoryBackend(MemoryStore(clock=clock))
    await backend.open(timeout_ms=TIMEOUT_MS)
    slot = clock.wall_ms()
    await backend.claim([claim(slot)], timeout_ms=TIMEOUT_MS)
    asked = claim(slot, attempt=2, token="other")
    clock.step(3_600_000)
    (stepped,) = await backend.claim([asked], timeout_ms=TIMEOUT_MS)
    clock.advance(1_000)
    (passed,) = await backend.claim([asked], timeout_ms=TIMEOUT_MS)

    assert not isinstance(stepped, BackendError)
    assert not isinstance(passed, BackendError)
    assert [Verdict.RUNNING, Verdict.WON] == [stepped.verdict, passed.verdict]


async def test_records_are_pruned_by_age() -> None:
    """
    What ended longer ago than the retention's age goes with the next grant.
    """
    clock = ManualClock()
    store = MemoryStore(clock=clock, retention=Retention(age_ms=10_000))
    backend = MemoryBackend(store)
    await backend.open(timeout_ms=TIMEOUT_MS)
    slots = []
    for _ in range(3):
        slots.append(clock.wall_ms())
        await backend.claim([claim(slots[-1])], timeout_ms=TIMEOUT_MS)
        await backend.finish([finish(slots[-1])], timeout_ms=TIMEOUT_MS)
        clock.advance(9_000)
    records = await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS)

    assert slots[:0:-1] == [record.slot for record in records]


async def test_no_age_keeps_records() -> None:
    """
    A retention without an age keeps what its count allows.
    """
    clock = ManualClock()
    retention = Retention(age_ms=None, records_per_job=2)
    backend = MemoryBackend(MemoryStore(clock=clock, retention=retention))
    await backend.open(timeout_ms=TIMEOUT_MS)
    for _ in range(4):
        slot = clock.wall_ms()
        await backend.claim([claim(slot)], timeout_ms=TIMEOUT_MS)
        await backend.finish([finish(slot)], timeout_ms=TIMEOUT_MS)
        clock.advance(10_000_000_000)

    assert 2 == len(await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS))


async def test_unfinished_record_does_not_stop_the_pruning() -> None:
    """
    A run whose instance died on a claim-only store stays; what ended after it goes all the same.
    """
    clock = ManualClock()
    store = MemoryStore(clock=clock, retention=Retention(age_ms=10_000))
    backend = MemoryClaimBackend(store)
    await backend.open(timeout_ms=TIMEOUT_MS)
    first = clock.wall_ms()
    await backend.claim([claim(first)], timeout_ms=TIMEOUT_MS)
    await backend.claim([claim(first - 1)], timeout_ms=TIMEOUT_MS)
    await backend.finish([finish(first - 1)], timeout_ms=TIMEOUT_MS)
    clock.advance(20_000)
    await backend.claim([claim(clock.wall_ms())], timeout_ms=TIMEOUT_MS)
    records = await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS)

    assert [clock.wall_ms(), first] == [record.slot for record in records]


async def test_first_word_of_a_start_counts() -> None:
    """
    A start that a renewal has dated is not moved by the finish, nor by one that says nothing.
    """
    clock = ManualClock()
    backend = MemoryBackend(MemoryStore(clock=clock))
    await backend.open(timeout_ms=TIMEOUT_MS)
    slot = clock.wall_ms()
    await backend.claim([claim(slot)], timeout_ms=TIMEOUT_MS)
    for ago_ms in (None, 5, 500):
        renewal = RenewRequest(
            job="job",
            slot=slot,
            attempt=1,
            token=f"t-{slot}",
            lease_ms=1_000,
            started_ago_ms=ago_ms,
        )
        await backend.renew([renewal], timeout_ms=TIMEOUT_MS)
    await backend.finish([finish(slot, started_ago_ms=900)], timeout_ms=TIMEOUT_MS)
    (record,) = await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS)

    assert record.started_at is not None
    assert 5 == (record.claimed_at - record.started_at).total_seconds() * 1_000


async def test_retention_belongs_to_a_store_of_ones_own() -> None:
    """
    Without a store the backend makes one, with the retention that was asked for.
    """
    backend = MemoryBackend(retention=Retention(records_per_job=1))
    await backend.open(timeout_ms=TIMEOUT_MS)
    for slot in (1, 2):
        await backend.claim([claim(slot)], timeout_ms=TIMEOUT_MS)
        await backend.finish([finish(slot)], timeout_ms=TIMEOUT_MS)

    assert 1 == len(await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS))


async def test_stop_is_recorded_on_a_claim_only_store() -> None:
    """
    What was in progress at stop is interrupted, whatever reason was given.
    """
    backend = MemoryClaimBackend()
    await backend.open(timeout_ms=TIMEOUT_MS)
    await backend.claim([claim(1)], timeout_ms=TIMEOUT_MS)
    request = finish(1, status=Status.INTERRUPTED, error="cut\x00")
    await backend.finish([request], timeout_ms=TIMEOUT_MS)
    (record,) = await backend.history(None, limit=10, timeout_ms=TIMEOUT_MS)

    assert (Status.INTERRUPTED, Reason.STOPPED, "cut\\x00") == (
        record.status,
        record.reason,
        record.error,
    )


async def test_close_ends_a_watch() -> None:
    """
    Nobody waits for a hint on a backend that is gone.
    """
    backend = MemoryBackend()
    await backend.open(timeout_ms=TIMEOUT_MS)
    await backend.claim([claim(1)], timeout_ms=TIMEOUT_MS)
    watch = asyncio.ensure_future(backend.next_hint([("job", 1, 1)], timeout_ms=3_600_000))
    await asyncio.sleep(0)
    await backend.close()

    assert frozenset() == await watch
    with pytest.raises(BackendStateError, match="closed"):
        await backend.time(timeout_ms=TIMEOUT_MS)


async def test_hints_wake_once_and_for_the_watched_alone() -> None:
    """
    Two changes before the watcher gets to run are one hint; another job's is none.
    """
    backend = MemoryBackend()
    await backend.open(timeout_ms=TIMEOUT_MS)
    for job in ("a", "b"):
        request = ClaimRequest(job=job, slot=1, token=job, instance_id="host:1", lease_ms=1_000)
        await backend.claim([request], timeout_ms=TIMEOUT_MS)
    watch = asyncio.ensure_future(
        backend.next_hint([("a", 1, 1), ("b", 1, 1)], timeout_ms=3_600_000)
    )
    await asyncio.sleep(0)
    store = backend._store
    for job in ("c", "a", "b"):
        store.tell(job)

    assert frozenset({"a", "b"}) == await watch


def test_memory_comes_from_a_url_without_parameters() -> None:
    """
    Each URL that is read is a store of its own.
    """
    first, second = backend_from_url("memory:"), backend_from_url("memory:")

    assert isinstance(first, MemoryBackend)
    assert isinstance(second, MemoryBackend)
    assert first._store is not second._store
    with pytest.raises(InvalidOptionError):
        backend_from_url("memory:?retention=1")


def test_capabilities_say_what_they_are() -> None:
    """
    Both are backends, one keeps leases, and neither reaches beyond its process.
    """
    lease, claims = MemoryBackend(), MemoryClaimBackend()

    assert isinstance(lease, LeaseBackend)
    assert isinstance(claims, Backend)
    assert (True, False) == (lease.capabilities.leases, claims.capabilities.leases)
    assert {Reach.PROCESS} == {lease.capabilities.reach, claims.capabilities.reach}


async def test_testing_opens_namespaces() -> None:
    """
    Clients of one namespace share a store, of either kind, and a retention given later counts.
    """
    async with (
        open_memory("here") as one,
        open_memory("here") as two,
        open_memory("there") as other,
    ):
        await one.claim([claim(1)], timeout_ms=TIMEOUT_MS)
        counts = [
            len(await each.history(None, limit=10, timeout_ms=TIMEOUT_MS))
            for each in (one, two, other)
        ]
    retention = Retention(records_per_job=1)
    async with open_memory_claim("here", retention=retention) as claims:
        empty = await claims.history(None, limit=10, timeout_ms=TIMEOUT_MS)

        assert retention == claims._store.retention

    assert [1, 1, 0] == counts
    assert [] == list(empty)


async def test_life_of_a_backend() -> None:
    """
    It is opened once, used until it is closed, and copied unopened.
    """
    backend = MemoryBackend()
    with pytest.raises(BackendStateError, match="unopened"):
        await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)
    await backend.open(timeout_ms=TIMEOUT_MS)
    with pytest.raises(BackendStateError, match="opened before"):
        await backend.open(timeout_ms=TIMEOUT_MS)
    copy = backend.clone()
    await copy.open(timeout_ms=TIMEOUT_MS)
    await backend.close()

    assert isinstance(await copy.time(timeout_ms=TIMEOUT_MS), int)
    assert "memory of this process" == copy.service


async def test_item_that_cannot_be_served_fails_alone() -> None:
    """
    The error stands in the item's place.
    """
    backend = MemoryBackend()
    await backend.open(timeout_ms=TIMEOUT_MS)
    await backend.claim([claim(1)], timeout_ms=TIMEOUT_MS)
    refused, accepted = await backend.finish(
        [finish(1, status=Status.SKIPPED), finish(1)], timeout_ms=TIMEOUT_MS
    )

    assert isinstance(refused, BackendError)
    assert not isinstance(accepted, BackendError)
    assert accepted.accepted


async def test_run_is_handed_from_one_client_to_another() -> None:
    """
    Registered, claimed, watched, released, taken over: all on one store.
    """
    runner = MemoryBackend()
    backup = runner.clone()
    for each in (runner, backup):
        await each.open(timeout_ms=TIMEOUT_MS)
    registration = RegisterRequest(job="job", slot=1)
    (known,) = await runner.register([registration], timeout_ms=TIMEOUT_MS)
    await runner.claim([claim(2)], timeout_ms=TIMEOUT_MS)
    nothing = await backup.next_hint([("job", 2, 1)], timeout_ms=1)
    key: dict[str, Any] = {"job": "job", "slot": 2, "attempt": 1}
    stranger = ReleaseRequest(**key, token="nobody")
    owner = ReleaseRequest(**key, token="t-2")
    lost = RenewRequest(**key, token="nobody", lease_ms=1_000)
    (renewed,) = await runner.renew([lost], timeout_ms=TIMEOUT_MS)
    answers = await runner.release([stranger, owner], timeout_ms=TIMEOUT_MS)
    heard = await backup.next_hint([("job", 2, 1)], timeout_ms=60_000)
    (taken,) = await backup.claim([claim(2, attempt=2, token="new")], timeout_ms=TIMEOUT_MS)
    records = await backup.history("job", limit=10, timeout_ms=TIMEOUT_MS)

    assert not isinstance(known, BackendError)
    assert known.new
    assert (frozenset(), frozenset({"job"})) == (nothing, heard)
    assert not isinstance(renewed, BackendError)
    assert not renewed.held
    assert [False, True] == [
        answer.accepted for answer in answers if not isinstance(answer, BackendError)
    ]
    assert not isinstance(taken, BackendError)
    assert Verdict.WON == taken.verdict
    assert [(2, Status.RUNNING), (1, Status.INTERRUPTED)] == [
        (record.attempt, record.status) for record in records
    ]


async def test_claim_only_store_forgets_and_refuses() -> None:
    """
    Repeated, taken, forgotten: the store grants each slot once, also beyond its memory.
    """
    store = MemoryStore(retention=Retention(records_per_job=1))
    backend = MemoryClaimBackend(store)
    await backend.open(timeout_ms=TIMEOUT_MS)
    requests = [claim(1), claim(1), claim(1, token="other"), claim(2), claim(1)]
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    refusals = await backend.finish([finish(2, token="other"), finish(7)], timeout_ms=TIMEOUT_MS)

    assert [Verdict.WON, Verdict.WON, Verdict.TAKEN, Verdict.WON, Verdict.LATE] == [
        answer.verdict for answer in answers if not isinstance(answer, BackendError)
    ]
    assert [False, False] == [
        answer.accepted for answer in refusals if not isinstance(answer, BackendError)
    ]


async def test_result_is_written_once() -> None:
    """
    A second finish of a claim-only run changes nothing of the first.
    """
    backend = MemoryClaimBackend()
    await backend.open(timeout_ms=TIMEOUT_MS)
    await backend.claim([claim(1)], timeout_ms=TIMEOUT_MS)
    results = [finish(1, started_ago_ms=3), finish(1, status=Status.FAILED, error="late")]
    for result in results:
        await backend.finish([result], timeout_ms=TIMEOUT_MS)
    (record,) = await backend.history("job", limit=10, timeout_ms=TIMEOUT_MS)

    assert (Status.SUCCESS, None) == (record.status, record.error)
    assert record.started_at is not None
