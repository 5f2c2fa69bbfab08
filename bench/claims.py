"""
The lines of the tables that every store has: what instances ask of it, one at a time and in batches.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from anarchon.backend import (
    Backend,
    ClaimRequest,
    FinishRequest,
    LeaseBackend,
    RegisterRequest,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.records import Status
from bench.tables import Block, Line, Report, Sizes, Target, measured

__all__ = ["TIMEOUT_MS", "Claims", "batch_target", "claim", "key_of", "single_target"]

TIMEOUT_MS = 60_000
FINGERPRINT = "0123456789abcdef"

serial = count(1)


def claim(slot: int, job: str | None = None) -> ClaimRequest:
    """
    Write a claim, of a job of its own where none is named.
    """
    number = next(serial)
    return ClaimRequest(
        job=job or f"job-{number}",
        slot=slot,
        token=f"{number:032x}",
        instance_id="host:1",
        lease_ms=30_000,
        not_after_ms=slot + 600_000,
        fingerprint=FINGERPRINT,
    )


def key_of(request: ClaimRequest) -> dict[str, Any]:
    """
    Say which attempt a claim is for.
    """
    return {
        "job": request.job,
        "slot": request.slot,
        "attempt": request.attempt,
        "token": request.token,
    }


class Claims:
    """
    A backend under measurement, and one method a line.

    Args:
        backend: Opened.

        sizes: How much a line does.

        name: What stands in front of its lines' names.
    """

    def __init__(self, backend: Backend | LeaseBackend, sizes: Sizes, *, name: str = "") -> None:
        self._backend: Any = backend
        self._sizes = sizes
        self._name = f"{name}: " if name else ""
        self._leases = backend.capabilities.leases

    def lines(self, *, one: str, lost: str, many: str) -> list[Line]:
        """
        Name them all, and what each is compared with.

        Args:
            one: The raw line for what writes, one a call.

            lost: The one for what only reads.

            many: The one for batches.
        """
        found = [
            Line(name=f"{self._name}won, one a call", against=one, run=self.won),
            Line(name=f"{self._name}lost, one a call", against=lost, run=self.lost),
            Line(name=self.batch_name, against=many, run=self.batch),
        ]
        if self._leases:
            found += [
                Line(name=f"{self._name}renewal, one a call", against=one, run=self.renewed),
                Line(
                    name=f"{self._name}backup's check, one a call", against=lost, run=self.watched
                ),
                Line(
                    name=f"{self._name}claim, renew, finish, in batches",
                    against=many,
                    run=self.life,
                ),
            ]
        return found

    @property
    def batch_name(self) -> str:
        """
        What the line of batches is called.
        """
        return f"{self._name}won, {self._sizes.batch} a call"

    async def won(self) -> Block:
        """
        Claim one run a call, and win it.
        """
        claims = await self.make(self._sizes.singles)
        return await measured([partial(self.win, [each]) for each in claims], len(claims))

    async def lost(self) -> Block:
        """
        Claim a run that somebody else executes: what all instances but one do.
        """
        return await self._other(1)

    async def watched(self) -> Block:
        """
        Ask for the next attempt of a run that goes on: what a backup does.
        """
        return await self._other(2)

    async def renewed(self) -> Block:
        """
        Renew one lease a call.
        """
        (mine,) = await self.make(1)
        await self.win([mine])
        renewals = [RenewRequest(**key_of(mine), lease_ms=30_000)]
        call = partial(self._backend.renew, renewals, timeout_ms=TIMEOUT_MS)
        return await measured([call] * self._sizes.singles, self._sizes.singles)

    async def batch(self) -> Block:
        """
        Claim a batch of runs, and win them all.
        """
        claims = await self.make(self._sizes.batch)
        return await measured([partial(self.win, claims)], len(claims))

    async def life(self) -> Block:
        """
        Claim, renew and finish a batch of runs: three items a run.
        """
        claims = await self.make(self._sizes.batch)
        keys = [key_of(each) for each in claims]
        renewals = [RenewRequest(**key, lease_ms=30_000, started_ago_ms=1) for key in keys]
        ends = [FinishRequest(**key, status=Status.SUCCESS, started_ago_ms=2) for key in keys]
        return await measured(
            [
                partial(self.win, claims),
                partial(self._backend.renew, renewals, timeout_ms=TIMEOUT_MS),
                partial(self._backend.finish, ends, timeout_ms=TIMEOUT_MS),
            ],
            3 * len(claims),
        )

    async def make(self, number: int) -> list[ClaimRequest]:
        """
        Write claims of jobs that are known and that nobody has claimed, as a scheduler's are.
        """
        now_ms = await self.now_ms()
        claims = [claim(now_ms) for _ in range(number)]
        await self.register([each.job for each in claims])
        return claims

    async def register(self, jobs: Sequence[str]) -> None:
        """
        Make jobs known: where a backend keeps no such thing, by a claim of an earlier slot.
        """
        if self._leases:
            known = [RegisterRequest(job=job, slot=None, fingerprint=FINGERPRINT) for job in jobs]
            await self._backend.register(known, timeout_ms=TIMEOUT_MS)
        else:
            earlier_ms = await self.now_ms() - 60_000
            await self.win([claim(earlier_ms, job) for job in jobs])

    async def claim(self, requests: Sequence[ClaimRequest]) -> None:
        """
        Claim; an answer that is an error ends the benchmark.
        """
        for answer in await self._backend.claim(requests, timeout_ms=TIMEOUT_MS):
            if isinstance(answer, BackendError):
                raise answer

    async def win(self, requests: Sequence[ClaimRequest]) -> None:
        """
        Claim; any other answer than won ends the benchmark.
        """
        for answer in await self._backend.claim(requests, timeout_ms=TIMEOUT_MS):
            if isinstance(answer, BackendError):
                raise answer
            assert answer.verdict is Verdict.WON, answer

    async def now_ms(self) -> int:
        """
        Tell the store's clock.
        """
        now_ms: int | None = await self._backend.time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        return now_ms

    async def _other(self, attempt: int) -> Block:
        (mine,) = await self.make(1)
        await self.win([mine])
        other = replace(mine, attempt=attempt, token="other", instance_id="host:2")
        return await measured(
            [partial(self.claim, [other])] * self._sizes.singles, self._sizes.singles
        )


def single_target(report: Report, name: str) -> Target:
    """
    Aim at one and a half raw round trips for what is asked one at a time.
    """
    row = report.row(name)
    return Target(name=f"{name}, to {row.against}", figure=row.ratio, bound=1.5)


def batch_target(report: Report, one: str, many: str) -> Target:
    """
    Aim at a tenth for an item of a batch.
    """
    singles, batches = report.row(one).rounds_us, report.row(many).rounds_us
    return Target(
        name=f"{many}: how many times cheaper an item is",
        figure=statistics.median(
            single / item for single, item in zip(singles, batches, strict=True)
        ),
        bound=10,
        at_least=True,
    )
