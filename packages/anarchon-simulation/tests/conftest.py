"""
What the tests of the simulation share.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from anarchon_simulation.faults import Freeze
from anarchon_simulation.instance import Instance
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.plan import InstancePlan, JobPlan, Plan


class World:
    """
    A kernel with instances, for tests of the parts.
    """

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.troubles: list[dict[str, Any]] = []

    def instance(self, name: str = "a", **options: Any) -> Instance:
        """
        Make an instance.
        """
        return Instance(
            self.kernel,
            name,
            seed="1",
            trouble=lambda _, context: self.troubles.append(context),
            **options,
        )

    def begin(
        self, instance: Instance, main: Callable[[], Coroutine[Any, Any, None]], name: str = "main"
    ) -> None:
        """
        Run *main* on a loop of an instance.
        """
        instance.start_loop(main, name=name)

    def pass_s(self, duration_s: float) -> None:
        """
        Let virtual time pass.
        """
        self.kernel.run_until(self.kernel.now_us + round(duration_s * 1e6))

    @property
    def now_s(self) -> float:
        """
        The true time.
        """
        return self.kernel.now_us / 1e6


@pytest.fixture
def world() -> Iterator[World]:
    """
    Give a world, and end it.
    """
    made = World()
    yield made
    made.kernel.close()


@pytest.fixture
def queued_plan() -> Plan:
    """
    Plan a plain function that waits for a thread while its instance is frozen, and its run is taken over.
    """
    return Plan(
        seed=1,
        instances=(
            InstancePlan(name="a", threads_max=1),
            InstancePlan(name="b", starts_ms=10_500),
        ),
        jobs=(
            JobPlan(name="beat", every_ms=5_000),
            JobPlan(
                name="long", every_ms=60_000, plain=True, work_ms=(12_000, 12_000), jitter_ms=0
            ),
            JobPlan(name="short", every_ms=10_000, plain=True, work_ms=(10, 10), jitter_ms=0),
        ),
        start_ms=1_767_225_655_000,
        faults=(Freeze(at_ms=5_500, instance="a", duration_ms=30_000),),
    )
