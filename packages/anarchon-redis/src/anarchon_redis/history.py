"""
Reading the history: a job's own records, or the newest of all jobs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from anarchon.records import RunRecord
from anarchon_redis.answers import record_of
from anarchon_redis.keys import Keys
from anarchon_redis.operations import Plan
from anarchon_redis.scripts import Script
from anarchon_redis.trouble import item_error
from anarchon_redis.wire import Piece, Wire

__all__ = ["HistoryReader"]

_LIMIT_MAX = 2**31
_JOBS_A_PIECE = 16
_PIECES_A_TRIP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReader:
    """
    Reads the records of jobs.

    Args:
        wire: The connection.

        plan: The strategy.

        keys: The keys of the prefix.

        script: The script that reads.

        where: The server in words.
    """

    wire: Wire
    plan: Plan
    keys: Keys
    script: Script
    where: str

    async def read(self, job: str | None, *, limit: int) -> list[RunRecord]:
        """
        Return the newest records, newest first.

        Of all jobs, some are asked at a time; what they told bounds what the next
        ones are asked for.
        """
        bound = min(limit, _LIMIT_MAX)
        if job is not None:
            jobs = [job]
        else:
            names = await self.wire.command("SMEMBERS", self.keys.index)
            jobs = sorted(self.keys.decoded(name.decode()) for name in names)
        newest: list[RunRecord] = []
        least = "-inf"
        trip = _JOBS_A_PIECE * _PIECES_A_TRIP
        for start in range(0, len(jobs), trip):
            newest += await self._read(jobs[start : start + trip], bound, least)
            newest = nsmallest(bound, newest, key=_order)
            if len(newest) == bound:
                least = str(newest[-1].slot)
        return newest

    async def _read(self, jobs: Sequence[str], limit: int, least: str) -> list[RunRecord]:
        """
        Read the newest records of some jobs, not below the slot *least*, in any order.
        """
        settings = json.dumps({**self.plan.settings, "limit": limit, "least": least})
        size = 1 if self.wire.cluster else _JOBS_A_PIECE
        parts = [jobs[start : start + size] for start in range(0, len(jobs), size)]
        pieces = [
            Piece(
                self.script,
                [key for job in part for key in self.plan.keys(self.keys, job, None)],
                [settings, *["[]"] * len(part)],
            )
            for part in parts
        ]
        found: list[RunRecord] = []
        for part, told in zip(parts, await self.wire.run(pieces), strict=True):
            for job, answer in zip(part, told[1:], strict=True):
                if answer and answer[0] == "error":
                    raise item_error(answer[1], job, self.where)
                # An empty list of Lua's is an empty object in JSON.
                found += [record_of(job, member, record) for member, record in answer]
        return found


def _order(record: RunRecord) -> tuple[int, str, int]:
    return -record.slot, record.job, -record.attempt
