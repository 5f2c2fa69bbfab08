"""
What is done in a scenario, each step a value with a way to play it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Protocol

from anarchon_chaos.evidence import now_ns
from anarchon_chaos.history import Fault
from anarchon_chaos.proxies import ARRIVING
from anarchon_chaos.stage import Stage, wall_ms

__all__ = [
    "AwaitSlot",
    "AwaitWork",
    "Cut",
    "Freeze",
    "Kill",
    "Leave",
    "Pause",
    "Roll",
    "SetClock",
    "Step",
    "Together",
    "Witness",
]

_MS = 1_000_000
_LOCKED_MS_MAX = 300


class Step(Protocol):
    """
    One thing that is done, or waited for.
    """

    async def play(self, stage: Stage) -> None:
        """
        Do it, and return when it is over.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """
    Let time pass.
    """

    ms: int

    async def play(self, stage: Stage) -> None:
        """
        Wait, and read on.
        """
        await asyncio.sleep(self.ms / 1_000)
        stage.look()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitSlot:
    """
    Wait until so long after the scenario's one slot; before it where *ms* is negative.
    """

    ms: int

    async def play(self, stage: Stage) -> None:
        """
        Wait.
        """
        await asyncio.sleep(max(0, stage.slot_ms + self.ms - wall_ms()) / 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitWork:
    """
    Wait until so many runs have begun, and then *ms* more; of one job, where it is named.
    """

    runs: int = 1
    job: str | None = None
    ms: int = 0

    async def play(self, stage: Stage) -> None:
        """
        Wait.
        """

        def begun() -> bool:
            runs = {
                mark.run
                for mark in stage.marks
                if mark.what == "start" and self.job in (None, mark.job)
            }
            return len(runs) >= self.runs

        await stage.until(begun, f"{self.runs} runs to begin")
        await asyncio.sleep(self.ms / 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """
    End an instance as a crash does (SIGKILL).
    """

    who: str = "runner"

    async def play(self, stage: Stage) -> None:
        """
        Kill it.
        """
        for name in stage.resolve(self.who):
            since_ns = now_ns()
            worker = stage.workers[name]
            died_ns = await worker.kill()
            stage.deaths[worker.pid] = died_ns
            stage.note(
                Fault(
                    kind="kill",
                    target=name,
                    since_ns=since_ns,
                    until_ns=died_ns,
                    bites=int(worker.process.returncode == -9),
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """
    Stop an instance (SIGSTOP) for a while, outside of a write transaction on a file.
    """

    ms: int
    who: str = "runner"

    async def play(self, stage: Stage) -> None:
        """
        Freeze it, and thaw it.
        """
        (name,) = stage.resolve(self.who)
        worker = stage.workers[name]
        lock: sqlite3.Connection | None = await asyncio.to_thread(stage.store.lock)
        locked_ns = now_ns()
        try:
            since_ns = await worker.freeze()
        finally:
            if lock is not None:
                lock.close()
                _note_lock(stage, locked_ns)
        # Whoever stands still writes nothing.
        stage.look()
        before = sum(mark.pid == worker.pid for mark in stage.marks)
        await asyncio.sleep(self.ms / 1_000)
        stage.look()
        silent = before == sum(mark.pid == worker.pid for mark in stage.marks)
        until_ns = worker.thaw()
        stage.note(
            Fault(
                kind="freeze",
                target=name,
                since_ns=since_ns,
                until_ns=until_ns,
                bites=int(silent),
            )
        )


def _note_lock(stage: Stage, since_ns: int) -> None:
    """
    Write down that a file was locked by the stage for long: on a busy machine that is a fault of the store too.
    """
    until_ns = now_ns()
    if until_ns - since_ns > _LOCKED_MS_MAX * _MS:
        stage.note(
            Fault(
                kind="file locked",
                target="store",
                since_ns=since_ns,
                until_ns=until_ns,
                bites=1,
                stalls=False,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """
    Put a fault on the wire between instances and their store, for a while. See `proxies.CUTS` for the kinds.

    Args:
        stalls: Leases cannot be renewed through it.
    """

    kind: str
    ms: int
    who: str = "runner"
    stalls: bool = True

    async def play(self, stage: Stage) -> None:
        """
        Spoil the wires, look whether they are, and heal them.
        """
        names = stage.resolve(self.who)
        since, sure = {}, {}
        for name in names:
            since[name] = now_ns()
            await stage.wires[name].spoil(self.kind)
            sure[name] = now_ns()
        before = {name: stage.wires[name].bites for name in names}
        await stage.probe_while(names, self.ms)
        for name in names:
            await stage.wires[name].heal()
            kind = f"cut {self.kind}" if self.stalls else self.kind
            stage.note(
                Fault(
                    kind=kind,
                    target=name,
                    since_ns=since[name],
                    sure_ns=sure[name],
                    until_ns=now_ns(),
                    bites=stage.wires[name].bites - before[name],
                    stalls=self.stalls,
                    arrives=self.kind in ARRIVING,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """
    Ask an instance to hand over and end (SIGTERM).

    Args:
        losing_replies_after_ms: From so long after the signal on its answers are dropped; None leaves its wire alone.
    """

    who: str = "runner"
    losing_replies_after_ms: int | None = None

    async def play(self, stage: Stage) -> None:
        """
        Ask it, and wait until it has ended.
        """
        for name in stage.resolve(self.who):
            since_ns = now_ns()
            leaving = asyncio.ensure_future(stage.leave(name))
            wire, bites = stage.wires.get(name), 1
            if self.losing_replies_after_ms is not None and wire is not None:
                await asyncio.sleep(self.losing_replies_after_ms / 1_000)
                await wire.spoil("lost-reply")
                bites = int(await wire.bitten())
                await leaving
                await wire.heal()
            await leaving
            stage.note(
                Fault(
                    kind="stop",
                    target=name,
                    since_ns=since_ns,
                    until_ns=now_ns(),
                    bites=bites,
                    stalls=False,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """
    Replace every instance, one after the other, by a new process of the same name; so many rounds.
    """

    rounds: int = 1
    pause_ms: int = 500

    async def play(self, stage: Stage) -> None:
        """
        Start the new one, stop the old one, and so on: a deploy.
        """
        names = stage.resolve("all")
        for round_number in range(self.rounds):
            for name in names:
                fresh = f"{name.partition('.')[0]}.{round_number + 1}"
                old = name if round_number == 0 else f"{name.partition('.')[0]}.{round_number}"
                await stage.add(fresh)
                await stage.ready(fresh)
                stage.start(fresh)
                await asyncio.gather(Leave(who=old).play(stage), stage.started(fresh))
                await asyncio.sleep(self.pause_ms / 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClock:
    """
    Put the wall clock of an instance wrong from now on.
    """

    who: str
    ms: int

    async def play(self, stage: Stage) -> None:
        """
        Step it, and wait until it says so.
        """
        for name in stage.resolve(self.who):
            worker = stage.workers[name]
            since_ns = now_ns()
            worker.command(f"clock {self.ms}")
            await stage.until(
                partial(stage.heard, worker.pid, "clock_set"),
                f"the clock of {name} to step",
            )
            stage.note(
                Fault(
                    kind="clock step",
                    target=name,
                    since_ns=since_ns,
                    until_ns=now_ns(),
                    bites=1,
                    stalls=False,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """
    Count what happened by itself as the fault that the scenario is about: bodies that held their loop up so long.
    """

    kind: str
    job: str
    ms_min: int

    async def play(self, stage: Stage) -> None:
        """
        Wait until the job's body has ended, and look how long it was silent.
        """
        await stage.until(
            lambda: any(mark.job == self.job and mark.what == "end" for mark in stage.marks),
            f"{self.job} to end",
        )
        lines = [mark for mark in stage.marks if mark.job == self.job]
        longest, since_ns, until_ns = max(
            (after.at_ns - before.at_ns, before.at_ns, after.at_ns)
            for before, after in pairwise(lines)
        )
        stage.note(
            Fault(
                kind=self.kind,
                target=lines[0].instance,
                since_ns=since_ns,
                until_ns=until_ns,
                bites=int(longest >= self.ms_min * _MS),
                stalls=False,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """
    Play several steps at the same time.
    """

    steps: tuple[Step, ...] = field(default_factory=tuple)

    async def play(self, stage: Stage) -> None:
        """
        Play them all, and return when the last is over.
        """
        await asyncio.gather(*(step.play(stage) for step in self.steps))
