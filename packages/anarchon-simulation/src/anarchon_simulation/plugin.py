"""
Give tests the fixture ``simulation``.

Every pytest run on a machine where the simulation is installed imports this module, so
that it imports pytest alone; the rest comes when the fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from anarchon_simulation.report import Report


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    Add the option that gives every simulation another seed.
    """
    group = parser.getgroup("anarchon-simulation", "anarchon's scheduler on virtual time")
    group.addoption(
        "--anarchon-seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of the fixture `simulation` (0): another one gives another order of events",
    )


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Callable[..., Report]]:
    """
    Run a scheduler on virtual time: `anarchon_simulation.simulate`, with the timeline shown when the test fails.
    """
    from anarchon_simulation.simulating import simulate  # noqa: PLC0415 - see the module's first lines

    reports: list[Report] = []

    def run(*args: Any, **options: Any) -> Report:
        options.setdefault("seed", request.config.getoption("--anarchon-seed"))
        report = simulate(*args, **options)
        reports.append(report)
        return report

    yield run
    for report in reports:
        # pytest shows what a failed test has printed, and nothing of one that passed.
        print(f"simulation, seed {report.seed}:\n{report.timeline()}")  # noqa: T201 - see above
