"""
Leases are judged by the machine's own clock, under the name of its boot; dates come from SQLite.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest

from anarchon.backend import ClaimAnswer, ClaimRequest, RenewAnswer, RenewRequest, Verdict
from anarchon.testing import ManualClock
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.clock import LeaseClock, host_clock

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


async def claimed(backend: SqliteBackend, request: ClaimRequest) -> ClaimAnswer:
    """
    Claim one run.
    """
    (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
    assert isinstance(answer, ClaimAnswer)
    return answer


def test_another_boot_costs_one_lease(path: Path, opened: Opened, ask: Ask) -> None:
    """
    A lease of before a reboot is answered running, as a whole one from now; then it runs out.
    """
    before, after = ManualClock(), ManualClock()
    before.advance(10_000_000)

    async def scenario() -> None:
        async with opened(
            _clock=LeaseClock(clock_id="boot 1", read_ms=before.suspend_ms)
        ) as backend:
            slot = await backend.time(timeout_ms=TIMEOUT_MS)
            assert slot is not None
            await claimed(backend, ask("job", slot, lease_ms=1_000))
        clock = LeaseClock(clock_id="boot 2", read_ms=after.suspend_ms)
        async with opened(_clock=clock) as one, opened(_clock=clock) as other:
            takeover = ask("job", slot, attempt=2)
            first = await claimed(one, takeover)
            after.advance(400)
            second = await claimed(other, takeover)
            after.advance(600)
            third = await claimed(one, takeover)

            assert first.run is not None
            assert second.run is not None
            assert [(Verdict.RUNNING, 1_000), (Verdict.RUNNING, 600)] == [
                (first.verdict, first.run.remaining_ms),
                (second.verdict, second.run.remaining_ms),
            ]
            assert Verdict.WON == third.verdict

    asyncio.run(scenario())


def test_two_machines_on_one_file_do_not_keep_a_dead_run(opened: Opened, ask: Ask) -> None:
    """
    Backups on both look by turns; each clock counts one lease, and whoever is over first takes the run.
    """
    clocks = [ManualClock(), ManualClock()]
    clocks[1].advance(10_000_000)

    async def scenario() -> None:
        host, guest = (
            LeaseClock(clock_id=f"machine {number}", read_ms=clock.suspend_ms)
            for number, clock in enumerate(clocks)
        )
        async with opened(_clock=host) as runner, opened(_clock=guest) as backup:
            slot = await runner.time(timeout_ms=TIMEOUT_MS)
            assert slot is not None
            await claimed(runner, ask("job", slot, lease_ms=1_000))
            told = []
            for turn in range(8):
                looking = (backup, runner)[turn % 2]
                answer = await claimed(looking, ask("job", slot, attempt=2))
                told.append((answer.verdict, answer.run and answer.run.remaining_ms))
                for clock in clocks:
                    clock.advance(300)

            running = [(Verdict.RUNNING, left_ms) for left_ms in (1_000, 700, 400, 100)]
            assert [*running, (Verdict.WON, None)] == told[:5]

    asyncio.run(scenario())


def test_renewal_begins_the_count_of_every_machine_anew(opened: Opened, ask: Ask) -> None:
    """
    A runner that renews keeps its run, however often another machine looks.
    """
    clock, other = ManualClock(), ManualClock()

    async def scenario() -> None:
        host = LeaseClock(clock_id="host", read_ms=clock.suspend_ms)
        guest = LeaseClock(clock_id="guest", read_ms=other.suspend_ms)
        async with opened(_clock=host) as runner, opened(_clock=guest) as backup:
            slot = await runner.time(timeout_ms=TIMEOUT_MS)
            assert slot is not None
            await claimed(runner, ask("job", slot, token="mine", lease_ms=1_000))
            renewal = RenewRequest(job="job", slot=slot, attempt=1, token="mine", lease_ms=1_000)
            for _ in range(5):
                looks = [await claimed(backup, ask("job", slot, attempt=2)) for _ in range(2)]
                clock.advance(900)
                other.advance(900)
                (answer,) = await runner.renew([renewal], timeout_ms=TIMEOUT_MS)

                assert isinstance(answer, RenewAnswer)
                assert answer.held
                assert [(Verdict.RUNNING, 1_000)] * 2 == [
                    (look.verdict, look.run and look.run.remaining_ms) for look in looks
                ]

    asyncio.run(scenario())


def test_a_lease_is_counted_on_the_clock_that_never_steps(opened: Opened, ask: Ask) -> None:
    """
    While that clock stands still, no lease runs out, whatever the wall clock does.
    """
    clock = ManualClock()

    async def scenario() -> None:
        async with opened(_clock=LeaseClock(clock_id="boot", read_ms=clock.suspend_ms)) as backend:
            slot = await backend.time(timeout_ms=TIMEOUT_MS)
            assert slot is not None
            await claimed(backend, ask("job", slot, lease_ms=1))
            while (await backend.time(timeout_ms=TIMEOUT_MS) or 0) < slot + 20:
                pass
            early = await claimed(backend, ask("job", slot, attempt=2))
            clock.advance(1)
            late = await claimed(backend, ask("job", slot, attempt=2))

            assert [Verdict.RUNNING, Verdict.WON] == [early.verdict, late.verdict]

    asyncio.run(scenario())


def test_the_instances_own_clock_decides_nothing(
    path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A process whose `time` module lies hears SQLite's time.
    """
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)

    async def scenario() -> int:
        async with opened() as backend:
            return await backend.time(timeout_ms=TIMEOUT_MS) or 0

    with closing(sqlite3.connect(path)) as raw:
        seconds = "SELECT CAST(strftime('%s', 'now') AS INTEGER)"
        before = raw.execute(seconds).fetchone()[0]
        told = asyncio.run(scenario())
        after = raw.execute(seconds).fetchone()[0]

    assert before * 1_000 <= told < (after + 1) * 1_000


def test_this_hosts_clock_has_a_name_and_goes_on() -> None:
    """
    The name stays the same while the machine is up, and the clock never goes back.
    """
    first, second = host_clock(), host_clock()
    earlier, later = first.read_ms(), second.read_ms()

    assert first.clock_id == second.clock_id
    assert first.clock_id.count("/") == 1
    assert earlier <= later


def test_a_system_that_names_no_boot_has_a_clock_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Without the kernel's files the name says so.
    """
    monkeypatch.setattr("anarchon_sqlite.clock._BOOT_ID", path)
    monkeypatch.setattr("anarchon_sqlite.clock._TIME_NAMESPACE", path)
    monkeypatch.setattr("sys.platform", "linux")

    assert "unknown/none" == host_clock().clock_id
