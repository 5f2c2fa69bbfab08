"""
Draw a plan from a seed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal

from anarchon_simulation.faults import (
    Crash,
    Cut,
    Fault,
    Freeze,
    Hints,
    Look,
    Lossy,
    Outage,
    Slow,
    Stall,
    StepClock,
    StepStore,
    Stop,
    Stray,
    Suspend,
)
from anarchon_simulation.lanes import Order
from anarchon_simulation.plan import InstancePlan, JobPlan, Plan, StorePlan

__all__ = ["draw_plan"]

_FAULTS_UNTIL_MS = 60_000
_OFFSET_MS_MAX = 600_000
# A store that is ahead of every instance by minutes has no slot due for minutes: nothing to see.
_AHEAD_MS_MAX = 5_000
_DRIFT_PPM_MAX = 10_000
_GAPS_MS = (1_000, 2_000, 3_000, 5_000, 7_000, 10_000, 30_000)


def draw_plan(seed: int, *, order: Order = "fifo") -> Plan:
    """
    Draw the plan of a seed: the same one each time.
    """
    dice = Random(f"{seed}:plan")  # noqa: S311 - a seed must give the same again
    store = _draw_store(dice)
    instances = tuple(_draw_instance(dice, number) for number in range(dice.randint(2, 4)))
    jobs = (
        JobPlan(name="beat", every_ms=5_000, work_ms=(0, 800)),
        *(_draw_job(dice, number, leases=store.leases) for number in range(dice.randint(2, 4))),
    )
    names = [instance.name for instance in instances]
    faults = [fault for _ in range(dice.randint(0, 10)) for fault in _draw_faults(dice, names)]
    # Dice of their own: what is drawn with the others stays as it was, seed by seed.
    more = Random(f"{seed}:more")  # noqa: S311 - a seed must give the same again
    jobs = tuple(_draw_habits(more, job) for job in jobs)
    faults = [
        replace(fault, job=more.choice(jobs).name) if isinstance(fault, Stray) else fault
        for fault in faults
    ]
    faults += [_draw_nuisance(more, names) for _ in range(more.randint(0, 3))]
    faults += _draw_deploy(more, names) if more.random() < 0.2 else []
    return Plan(
        seed=seed,
        order=order,
        faults_until_ms=_FAULTS_UNTIL_MS,
        store=store,
        instances=instances,
        jobs=jobs,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
    )


def _draw_habits(dice: Random, job: JobPlan) -> JobPlan:
    return replace(job, zoned=dice.random() < 0.2, cancels=dice.choice((0, 0, 30)))


def _draw_deploy(dice: Random, names: list[str]) -> list[Fault]:
    """
    Replace instances one by one by the next version of the jobs; sometimes one keeps the old one.
    """
    at_ms, pause_ms = dice.randint(5_000, _FAULTS_UNTIL_MS - 30_000), dice.randint(100, 5_000)
    replaced = names[: dice.randint(1, len(names))]
    return [
        Stop(at_ms=at_ms + number * pause_ms, instance=name, restart_ms=500, version=1)
        for number, name in enumerate(replaced)
    ]


def _draw_nuisance(dice: Random, names: list[str]) -> Fault:
    """
    Draw what must make no difference: hints that go wrong, and looks at the history.
    """
    at_ms = dice.randint(1_000, _FAULTS_UNTIL_MS - 1_000)
    if dice.random() < 0.5:
        return Look(
            at_ms=at_ms,
            instance=dice.choice(names),
            job=dice.choice((None, "beat", "job0")),
            cancelled_ms=dice.choice((None, None, dice.randint(0, 50))),
        )
    return Hints(
        at_ms=at_ms,
        duration_ms=min(dice.randint(1_000, 30_000), _FAULTS_UNTIL_MS - at_ms),
        lost=dice.choice((0, 50, 100)),
        delay_ms=dice.choice((0, 300, 3_000)),
        false=dice.random() < 0.5,
    )


def _draw_store(dice: Random) -> StorePlan:
    leases = dice.random() < 0.9
    return StorePlan(
        leases=leases,
        hints=dice.random() < 0.4,
        batch_max=dice.choice((1, 2, 256)),
        offset_ms=dice.choice((0, 0, dice.randint(-_OFFSET_MS_MAX, _AHEAD_MS_MAX)))
        if leases
        else 0,
        drift_ppm=dice.choice((0, dice.randint(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX))),
        delay_ms=(dice.randint(0, 5), dice.choice((5, 20, 100))),
    )


def _draw_instance(dice: Random, number: int) -> InstancePlan:
    far_ms = dice.randint(-_OFFSET_MS_MAX, _OFFSET_MS_MAX)
    return InstancePlan(
        name="abcdefgh"[number],
        starts_ms=dice.choice((0, 0, dice.randint(0, 20_000))),
        offset_ms=0 if number == 0 else dice.choice((0, far_ms, dice.randint(-700, 700))),
        drift_ppm=dice.choice((0, dice.randint(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX))),
        threads_max=dice.choice((1, 1, 64)),
    )


def _draw_job(dice: Random, number: int, *, leases: bool) -> JobPlan:
    every_ms = dice.choice(_GAPS_MS)
    plain = dice.random() < 0.3
    catch_up: Literal["latest", "none", "all"] = dice.choice(("latest", "latest", "none", "all"))
    return JobPlan(
        name=f"job{number}",
        every_ms=every_ms,
        changed_every_ms=dice.choice(_GAPS_MS) if dice.random() < 0.15 else None,
        catch_up=catch_up if leases else "none",
        catch_up_window_ms=dice.randint(5_000, 30_000) if leases and dice.random() < 0.2 else None,
        max_lateness_ms=dice.randint(3_000, 10_000) if dice.random() < 0.15 else None,
        max_crashes=dice.choice((1, 2, 3)),
        takeover=dice.random() < 0.85,
        timeout_ms=dice.randint(1_000, 6_000) if dice.random() < 0.2 else None,
        jitter_ms=0 if dice.random() < 0.3 else None,
        plain=plain,
        work_ms=_draw_work(dice),
        steps=dice.choice((1, 3, 10)),
        fails=dice.choice((0, 0, 20)),
        blocks=dice.choice((0, 0, 0, 15)),
        stubborn=dice.choice((0, 0, 50)),
        hands_over=dice.choice((0, 0, 10)),
    )


def _draw_work(dice: Random) -> tuple[int, int]:
    return dice.choice(((0, 0), (0, 500), (500, 3_000), (2_000, 15_000)))


def _draw_faults(dice: Random, names: list[str]) -> list[Fault]:
    """
    Draw a fault, or two that are worse together: a line that is slow first, and cut soon after.
    """
    if dice.random() < 0.85:
        return [_draw_fault(dice, names)]
    at_ms, name = dice.randint(1_000, _FAULTS_UNTIL_MS - 20_000), dice.choice(names)
    slow = Slow(at_ms=at_ms, duration_ms=6_000, delay_ms=dice.choice((450, 900)), instance=name)
    cut = Cut(
        at_ms=at_ms + dice.randint(500, 5_000),
        instance=name,
        duration_ms=dice.randint(4_000, 12_000),
    )
    return [slow, cut]


def _draw_fault(dice: Random, names: list[str]) -> Fault:
    """
    Draw a fault that is over by the time when faults end.
    """
    at_ms = dice.randint(1_000, _FAULTS_UNTIL_MS - 16_000)
    duration_ms = dice.choice((dice.randint(50, 1_000), dice.randint(1_000, 15_000)))
    name = dice.choice(names)
    restart_ms = dice.choice((None, dice.randint(10, 10_000)))
    match dice.randrange(15):
        case 0 | 1:
            return Crash(at_ms=at_ms, instance=name, restart_ms=restart_ms)
        case 2 | 3:
            version = dice.choice((None, 1))
            return Stop(at_ms=at_ms, instance=name, restart_ms=restart_ms, version=version)
        case 4 | 5:
            return Freeze(at_ms=at_ms, instance=name, duration_ms=duration_ms)
        case 6:
            return Suspend(at_ms=at_ms, instance=name, duration_ms=duration_ms)
        case 7:
            loop: Literal["handlers", "renewals"] = dice.choice(("handlers", "renewals"))
            return Stall(at_ms=at_ms, instance=name, duration_ms=duration_ms, loop=loop)
        case 8:
            by_ms = dice.choice(
                (dice.randint(-5_000, 5_000), dice.randint(-_OFFSET_MS_MAX, _OFFSET_MS_MAX))
            )
            return StepClock(at_ms=at_ms, instance=name, by_ms=by_ms)
        case 9:
            return StepStore(at_ms=at_ms, by_ms=dice.randint(-3_000, 3_000))
        case 10:
            return Outage(at_ms=at_ms, duration_ms=duration_ms, refuses=dice.random() < 0.5)
        case 11:
            lost: Literal["requests", "replies"] = dice.choice(("requests", "replies"))
            connection: Literal["all", "first", "second"] = dice.choice(
                ("all", "all", "first", "second")
            )
            return Cut(
                at_ms=at_ms,
                instance=name,
                duration_ms=duration_ms,
                lost=lost,
                connection=connection,
            )
        case 12:
            return Slow(
                at_ms=at_ms, duration_ms=duration_ms, delay_ms=dice.choice((200, 1_000, 4_000))
            )
        case 13:
            return Stray(at_ms=at_ms, job="beat")
        case _:
            return Lossy(
                at_ms=at_ms,
                duration_ms=duration_ms,
                requests_lost=dice.choice((0, 20)),
                replies_lost=dice.choice((0, 20)),
                doubled=dice.choice((0, 30)),
            )
