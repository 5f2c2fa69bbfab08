"""
What is done to a store's server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from anarchon_chaos.evidence import now_ns
from anarchon_chaos.history import BACK, Fault
from anarchon_chaos.stage import SlowStartError, Stage, wall_ms
from anarchon_chaos.steps import Step

__all__ = ["CountCalls", "FailOver", "FallBehind", "FreezeServer", "KillServer", "StepStoreClock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCalls:
    """
    Count the calls that reach the store while other steps are played.
    """

    when: str
    steps: tuple[Step, ...]

    async def play(self, stage: Stage) -> None:
        """
        Play the steps between two looks at the counter.
        """
        await stage.count_from_now()
        for step in self.steps:
            await step.play(stage)
        await stage.count(self.when)


async def _count_those_back(stage: Stage, since_ns: int) -> None:
    # What waits in the connections of a frozen server reaches it now, so that the counter has begun before.
    if stage.store.calls is not None:
        await asyncio.sleep(1)  # What comes in a second is what is counted, so that it has to pass.
        await stage.count(BACK, since_ns=since_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillServer:
    """
    Kill the store's server (SIGKILL), and start it again with its data after a while.
    """

    down_ms: int

    async def play(self, stage: Stage) -> None:
        """
        Kill it, wait, start it.
        """
        server = stage.store.server
        assert server is not None
        await stage.count_from_now()
        before = await stage.connections()
        since_ns = now_ns()
        await server.kill()
        dead = server.pid is None
        await asyncio.sleep(self.down_ms / 1_000)
        after = await stage.connections()
        lost_ns = now_ns()
        await server.start()
        stage.note(
            Fault(
                kind="server killed",
                target="store",
                since_ns=since_ns,
                until_ns=now_ns(),
                bites=int(dead),
                lost_ns=lost_ns,
                knocks={name: count - before.get(name, 0) for name, count in after.items()},
            )
        )
        await _count_those_back(stage, lost_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeServer:
    """
    Stop the store's server (SIGSTOP) for a while: connections stay, and are silent.

    Args:
        ms_max: More than this is not the fault that was meant.
    """

    ms: int
    ms_max: int | None = None

    async def play(self, stage: Stage) -> None:
        """
        Freeze it, and thaw it.
        """
        server = stage.store.server
        assert server is not None
        names = stage.resolve("all")
        before = sum(stage.wires[name].bites for name in names)
        await stage.count_from_now()
        since_ns = now_ns()
        await asyncio.to_thread(server.freeze)
        await stage.probe_while(names[:1], self.ms)
        thawed_ns = now_ns()
        await asyncio.to_thread(server.thaw)
        until_ns = now_ns()
        took_ms = (until_ns - since_ns) // 1_000_000
        if self.ms_max is not None and took_ms > self.ms_max:
            raise SlowStartError(f"the server was frozen for {took_ms} ms, not {self.ms}")
        bites = sum(stage.wires[name].bites for name in names) - before
        stage.note(
            Fault(
                kind="server frozen",
                target="store",
                since_ns=since_ns,
                until_ns=until_ns,
                bites=bites,
            )
        )
        await _count_those_back(stage, thawed_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStoreClock:
    """
    Step the wall clock of the store's server, and leave it there.
    """

    seconds: int

    async def play(self, stage: Stage) -> None:
        """
        Step it; what the store tells of its time shows that it did.
        """
        clock = stage.store.clock
        assert clock is not None
        since_ns = now_ns()
        before_ms = await stage.store.time_ms() - wall_ms()
        await asyncio.to_thread(clock.set, self.seconds)
        # A server may answer once more with the time that it read when it last woke.
        await stage.store.time_ms()
        after_ms = await stage.store.time_ms() - wall_ms()
        stepped = abs(after_ms - before_ms - self.seconds * 1_000) < 5_000
        stage.note(
            Fault(
                kind="store's clock",
                target="store",
                since_ns=since_ns,
                until_ns=now_ns(),
                bites=int(stepped),
                stalls=False,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBehind:
    """
    End whoever would lead next, and go on without it for a while.
    """

    ms: int

    async def play(self, stage: Stage) -> None:
        """
        End it; that bodies come to their end meanwhile shows that the others have gone on.
        """
        group = stage.store.group
        assert group is not None
        assert group.part is not None
        since_ns = now_ns()
        await group.part()
        await asyncio.sleep(self.ms / 1_000)
        stage.look()
        went_on = sum(mark.what == "end" and mark.at_ns > since_ns for mark in stage.marks)
        stage.note(
            Fault(
                kind="fell behind",
                target="standby",
                since_ns=since_ns,
                until_ns=now_ns(),
                bites=went_on,
                stalls=False,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOver:
    """
    Kill whoever leads, and wait until the store's own means have another one lead.
    """

    async def play(self, stage: Stage) -> None:
        """
        Kill it and wait.
        """
        group = stage.store.group
        assert group is not None
        since_ns = now_ns()
        before = await asyncio.to_thread(group.leader)
        lost_ns = await group.fail_over()
        stage.note(
            Fault(
                kind="fail-over",
                target="store",
                since_ns=since_ns,
                until_ns=now_ns(),
                bites=int(await asyncio.to_thread(group.leader) != before),
                lost_ns=lost_ns,
            )
        )
