"""
What comes of a case that cannot be played to its end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from anarchon_chaos.running import Case, Result, play_all
from anarchon_chaos.scenario import Scenario
from anarchon_chaos.stage import ChaosError, Stage
from anarchon_chaos.stores import named


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """
    A step that breaks.
    """

    error: Exception

    async def play(self, stage: Stage) -> None:
        """
        Break.
        """
        raise self.error


def played(*errors: Exception | None) -> list[Result]:
    """
    Play one case for each error that is to come, on a file, without instances.
    """
    cases = [
        Case(
            store=named("sqlite"),
            scenario=Scenario(
                name=f"case-{number}",
                says="nothing",
                steps=() if error is None else (Break(error=error),),
                loads=(),
                instances=(),
            ),
        )
        for number, error in enumerate(errors)
    ]
    return asyncio.run(play_all(cases, at_once=1, done=lambda _: None))


def test_a_stage_that_breaks_does_not_end_the_others() -> None:
    """
    Whatever is raised is the trouble of that case alone.
    """
    broken, unplayable, sound = played(KeyError("gone"), ChaosError("too late"), None)

    assert ("KeyError: 'gone'", None) == (broken.trouble, broken.history)
    assert ("ChaosError: too late", False) == (unplayable.trouble, unplayable.held)
    assert sound.held
