"""
The handlers that the instances run. Each writes a line when it starts and when its body has come to its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from anarchon import RunContext
from anarchon_chaos.evidence import append_mark
from instances.plan import JobPlan

__all__ = ["STEP_S", "handler_for"]

STEP_S = 0.05


async def rest(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Wait, as a handler does that talks to somebody. A cancellation goes on.
    """
    append_mark(log, "start", ctx)
    try:
        await asyncio.sleep(job.work_s(ctx.attempt))
    except asyncio.CancelledError:
        append_mark(log, "cleanup", ctx)
        raise
    append_mark(log, "end", ctx)


async def step(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Write a line every 50 ms. A cancellation is swallowed, so that a finish would be sent if anything let it.
    """
    append_mark(log, "start", ctx)
    try:
        for _ in range(round(job.work_s(ctx.attempt) / STEP_S)):
            await asyncio.sleep(STEP_S)
            append_mark(log, "step", ctx)
    except asyncio.CancelledError:
        append_mark(log, "cleanup", ctx)
        return
    append_mark(log, "end", ctx)


async def block(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Hold the event loop up, as no handler should, and then take two more steps.
    """
    append_mark(log, "start", ctx)
    try:
        await asyncio.sleep(STEP_S)
        time.sleep(job.work_s(ctx.attempt))  # noqa: ASYNC251 - to block the loop is what this handler is for
        await asyncio.sleep(STEP_S)
        append_mark(log, "step", ctx)
    except asyncio.CancelledError:
        append_mark(log, "cleanup", ctx)
        raise
    append_mark(log, "end", ctx)


def thread(log: int, job: JobPlan, ctx: RunContext) -> None:
    """
    Work in a thread, deaf to everything.
    """
    append_mark(log, "start", ctx)
    time.sleep(job.work_s(ctx.attempt))  # The work of a plain function, which nothing can end.
    append_mark(log, "end", ctx)


_HANDLERS: dict[str, Callable[..., Any]] = {
    "rest": rest,
    "step": step,
    "block": block,
    "thread": thread,
}


def handler_for(log: int, job: JobPlan) -> Callable[[RunContext], Any]:
    """
    Return the handler that a plan names.
    """
    return partial(_HANDLERS[job.handler], log, job)
