"""
Faults in reading the log are caught: by the kit, or by who joins late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon_conformance import run_clause
from anarchon_conformance.loading import load_profile
from anarchon_rabbitmq import RabbitMQBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000

Ask = Callable[..., ClaimRequest]


@pytest.fixture(autouse=True)
def _mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "mutants")


def load(name: str) -> Any:
    """
    Find a broken backend's profile, by the name that the kit's processes find it by, too.
    """
    return load_profile(f"rabbitmq_mutants:{name}")


@pytest.mark.parametrize(
    ("mutant", "outcome"),
    [("sound", "passed"), ("counts_confirms", "failed")],
)
def test_the_kit_catches_a_fault(mutant: str, outcome: str) -> None:
    """
    Whoever takes it for a win that its message was sent fails the clause of one winner; the sound backend passes.
    """
    run = run_clause(load(mutant), "CLM-1")

    assert outcome == run.outcome, run.reason


def test_who_joins_at_the_end_wins_what_was_won(
    url: str, prefix: str, now_ms: int, ask: Ask
) -> None:
    """
    The offset "next" would win every slot again; the sound backend, in its place, wins none.
    """

    async def verdicts(backend: RabbitMQBackend) -> set[Verdict]:
        await backend.open(timeout_ms=TIMEOUT_MS)
        answers = await backend.claim(
            [ask("job", now_ms + number) for number in range(50)], timeout_ms=TIMEOUT_MS
        )
        await backend.close()
        return {answer.verdict for answer in answers if isinstance(answer, ClaimAnswer)}

    async def scenario() -> list[set[Verdict]]:
        reads_next = load_mutant()
        return [
            await verdicts(RabbitMQBackend(url, prefix=prefix)),
            await verdicts(RabbitMQBackend(url, prefix=prefix)),
            await verdicts(reads_next(url, prefix=prefix)),
        ]

    assert [{Verdict.WON}, {Verdict.TAKEN}, {Verdict.WON}] == asyncio.run(scenario())


def load_mutant() -> type[RabbitMQBackend]:
    """
    Find the backend that joins the log at its end.
    """
    from rabbitmq_mutants import ReadsNext  # noqa: PLC0415 - its folder is on the path in a test alone

    return ReadsNext
