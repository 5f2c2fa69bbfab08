"""
Plans from Hypothesis, which shrinks a failure to the one fault that matters.

Needs ``pip install "anarchon-simulation[hypothesis]"``.
"""

from __future__ import annotations

from hypothesis import strategies as st

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
    Stop,
    Suspend,
)
from anarchon_simulation.plan import InstancePlan, JobPlan, Plan, StorePlan

__all__ = ["faults", "jobs", "plans"]

_NAMES = ("a", "b", "c")
_FAULTS_UNTIL_MS = 40_000
_FAULTS_MAX = 6
_DURATION_MS_MAX = 12_000
_BY_MS_MAX = 300_000


def faults() -> st.SearchStrategy[Fault]:
    """
    Draw a fault that is over when faults end.
    """
    at_ms = st.integers(1_000, _FAULTS_UNTIL_MS - _DURATION_MS_MAX - 1_000)
    duration_ms = st.integers(50, _DURATION_MS_MAX)
    instance = st.sampled_from(_NAMES)
    restart_ms = st.none() | st.integers(10, 10_000)
    percent = st.integers(0, 30)
    return st.one_of(
        st.builds(Freeze, at_ms=at_ms, instance=instance, duration_ms=duration_ms),
        st.builds(Crash, at_ms=at_ms, instance=instance, restart_ms=restart_ms),
        st.builds(Stop, at_ms=at_ms, instance=instance, restart_ms=restart_ms),
        st.builds(Suspend, at_ms=at_ms, instance=instance, duration_ms=duration_ms),
        st.builds(
            Stall,
            at_ms=at_ms,
            instance=instance,
            duration_ms=duration_ms,
            loop=st.sampled_from(("handlers", "renewals")),
        ),
        st.builds(
            StepClock,
            at_ms=at_ms,
            instance=instance,
            by_ms=st.integers(-_BY_MS_MAX, _BY_MS_MAX),
        ),
        st.builds(Outage, at_ms=at_ms, duration_ms=duration_ms, refuses=st.booleans()),
        st.builds(
            Cut,
            at_ms=at_ms,
            instance=instance,
            duration_ms=duration_ms,
            lost=st.sampled_from(("requests", "replies")),
            connection=st.sampled_from(("all", "first", "second")),
        ),
        st.builds(
            Slow, at_ms=at_ms, duration_ms=duration_ms, delay_ms=st.sampled_from((200, 900, 4_000))
        ),
        st.builds(
            Lossy,
            at_ms=at_ms,
            duration_ms=duration_ms,
            requests_lost=percent,
            replies_lost=percent,
            doubled=percent,
        ),
        st.builds(
            Hints,
            at_ms=at_ms,
            duration_ms=duration_ms,
            lost=st.integers(0, 100),
            delay_ms=st.sampled_from((0, 900, 4_000)),
            false=st.booleans(),
        ),
        st.builds(
            Look, at_ms=at_ms, instance=instance, cancelled_ms=st.none() | st.integers(0, 50)
        ),
    )


@st.composite
def jobs(draw: st.DrawFn, name: str) -> JobPlan:
    """
    Draw a job of that name.
    """
    return JobPlan(
        name=name,
        every_ms=draw(st.sampled_from((5_000, 2_000, 10_000))),
        catch_up=draw(st.sampled_from(("latest", "none", "all"))),
        max_crashes=draw(st.integers(1, 3)),
        takeover=draw(st.booleans()),
        timeout_ms=draw(st.none() | st.integers(1_000, 6_000)),
        plain=draw(st.booleans()),
        work_ms=draw(st.sampled_from(((0, 500), (500, 3_000), (2_000, 15_000)))),
        steps=draw(st.sampled_from((3, 1, 10))),
        hands_over=draw(st.sampled_from((0, 10))),
        cancels=draw(st.sampled_from((0, 30))),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """
    Draw a plan of two or three instances, two jobs, and some faults.
    """
    names = _NAMES[: draw(st.integers(2, 3))]
    return Plan(
        seed=draw(st.integers(0, 1_000_000)),
        order=draw(st.sampled_from(("fifo", "task"))),
        faults_until_ms=_FAULTS_UNTIL_MS,
        store=StorePlan(hints=draw(st.booleans()), delay_ms=(1, draw(st.sampled_from((20, 100))))),
        instances=tuple(InstancePlan(name=name) for name in names),
        jobs=(JobPlan(name="beat", every_ms=5_000), draw(jobs("work"))),
        faults=tuple(draw(st.lists(faults(), max_size=_FAULTS_MAX))),
    )
