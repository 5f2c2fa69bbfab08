"""
The handlers that the instances run. Each writes a line when it starts, at each step, and when its body has ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from anarchon import RunContext
from anarchon_chaos.evidence import append_mark
from anarchon_chaos.history import STEP_MS
from anarchon_chaos.plans import JobPlan

__all__ = ["handler_for"]


async def _step(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Write a line every 50 ms. A cancellation is swallowed, so that a finish would be sent if anything let it.
    """
    append_mark(log, "start", ctx)
    try:
        end_s = time.monotonic() + job.work_s(ctx.attempt)
        while (left_s := end_s - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, STEP_MS / 1_000))
            append_mark(log, "step", ctx)
    except asyncio.CancelledError:
        append_mark(log, "cleanup", ctx)
        return
    append_mark(log, "end", ctx)


async def _block(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Hold the event loop up, as no handler should, and then take another step.
    """
    append_mark(log, "start", ctx)
    try:
        await asyncio.sleep(STEP_MS / 1_000)
        time.sleep(job.work_s(ctx.attempt))  # noqa: ASYNC251 - to block the loop is what this handler is for
        append_mark(log, "step", ctx)
        await asyncio.sleep(STEP_MS / 1_000)
    except asyncio.CancelledError:
        append_mark(log, "cleanup", ctx)
        raise
    append_mark(log, "end", ctx)


_HANDLERS: dict[str, Callable[..., Any]] = {"step": _step, "block": _block}


def handler_for(log: int, job: JobPlan) -> Callable[[RunContext], Any]:
    """
    Return the handler that a plan names.
    """
    return partial(_HANDLERS[job.handler], log, job)
