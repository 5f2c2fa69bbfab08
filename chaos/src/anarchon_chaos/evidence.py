"""
What instances leave behind: a line for each thing that a handler did, and one for each event.

Both files are append-only and a line is one write, so that lines of several processes never mix. Nothing in here
imports anarchon: the evidence does not come from what it is about.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Bound at import, before a worker puts its clocks wrong.
from time import clock_gettime_ns, time_ns
from typing import Any

__all__ = ["Mark", "Tail", "Told", "append_mark", "append_told", "now_ns", "open_log"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    One line of a handler.

    ``what`` is "start", "step", "end" (the body came to its end) or "cleanup" (it was cancelled). ``at_ns`` is a clock
    that every process of a machine shares and nobody sets; ``wall_ms`` is the machine's true wall clock, also in a
    process whose clock lies.
    """

    what: str
    job: str
    slot: int
    attempt: int
    instance: str
    pid: int
    at_ns: int
    wall_ms: int

    @property
    def run(self) -> tuple[str, int]:
        """
        Which run it belongs to.
        """
        return self.job, self.slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    One event that an instance told of itself, or one answer of its process. It is no proof of anything but of itself.
    """

    type: str
    instance: str
    pid: int
    at_ns: int
    detail: Mapping[str, Any] = field(default_factory=dict)


def now_ns() -> int:
    """
    Read the clock of the evidence.
    """
    return clock_gettime_ns(_CLOCK)


def open_log(path: Path) -> int:
    """
    Open a file that is only ever appended to.
    """
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def append_mark(log: int, what: str, ctx: Any) -> None:
    """
    Write down what the handler of *ctx* does now.
    """
    mark = Mark(
        what=what,
        job=ctx.job,
        slot=ctx.slot,
        attempt=ctx.attempt,
        instance=ctx.instance_id,
        pid=os.getpid(),
        at_ns=now_ns(),
        wall_ms=time_ns() // 1_000_000,
    )
    _append(log, asdict(mark))


def append_told(log: int, kind: str, instance: str, detail: Mapping[str, Any]) -> None:
    """
    Write down an event.
    """
    told = Told(type=kind, instance=instance, pid=os.getpid(), at_ns=now_ns(), detail=detail)
    _append(log, asdict(told))


def _append(log: int, line: Mapping[str, Any]) -> None:
    os.write(log, f"{json.dumps(line)}\n".encode())


class Tail:
    """
    Reads a growing file of lines, each once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def news(self) -> list[dict[str, Any]]:
        """
        Return the lines that were added since the last call.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
