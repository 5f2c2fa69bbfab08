"""
Reading the history: a job's own records, or the newest of all jobs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from heapq import nsmallest

from anarchon.records import RunRecord
from anarchon_redis.answers import record_of
from anarchon_redis.keys import Keys
from anarchon_redis.operations import Plan
from anarchon_redis.scripts import Script
from anarchon_redis.trouble import item_error
from anarchon_redis.wire import Piece, Wire

__all__ = ["read_history"]

_LIMIT_MAX = 2**31
_JOBS_A_PIECE = 16
_PIECES_A_TRIP = 8


async def read_history(
    wire: Wire, plan: Plan, keys: Keys, script: Script, *, job: str | None, limit: int, where: str
) -> list[RunRecord]:
    """
    Return the newest records, newest first.

    Of all jobs, some are asked at a time; what they told bounds what the next ones are asked for.
    """
    bound = min(limit, _LIMIT_MAX)
    if job is not None:
        jobs = [job]
    else:
        names = await wire.command("SMEMBERS", keys.index)
        jobs = sorted(keys.decoded(name.decode()) for name in names)
    newest: list[RunRecord] = []
    least = "-inf"
    trip = 1 if job is not None else _JOBS_A_PIECE * _PIECES_A_TRIP
    for start in range(0, len(jobs), trip):
        newest += await _read(
            wire, plan, keys, script, jobs[start : start + trip], bound, least, where
        )
        newest = nsmallest(bound, newest, key=_order)
        if len(newest) == bound:
            least = str(newest[-1].slot)
    return newest


def _order(record: RunRecord) -> tuple[int, str, int]:
    return -record.slot, record.job, -record.attempt


async def _read(
    wire: Wire,
    plan: Plan,
    keys: Keys,
    script: Script,
    jobs: Sequence[str],
    limit: int,
    least: str,
    where: str,
) -> list[RunRecord]:
    settings = json.dumps({**plan.settings, "limit": limit, "least": least})
    size = 1 if wire.cluster else _JOBS_A_PIECE
    parts = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    pieces = [
        Piece(
            script,
            [key for job in part for key in plan.keys(keys, job, None)],
            [settings, *["[]"] * len(part)],
        )
        for part in parts
    ]
    found: list[RunRecord] = []
    for part, told in zip(parts, await wire.run(pieces), strict=True):
        for job, answer in zip(part, told[1:], strict=True):
            if answer and answer[0] == "error":
                raise item_error(answer[1], job, where)
            # An empty list of Lua's is an empty object in JSON.
            found += [record_of(job, member, record) for member, record in answer]
    return found
