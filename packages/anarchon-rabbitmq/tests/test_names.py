"""
Services with different prefixes, and jobs with strange names, never touch each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, Verdict
from anarchon.errors import RequestError
from anarchon.records import Status
from anarchon_rabbitmq import RabbitMQBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000
NAMES = [
    "report",
    "report.daily",
    "report.*",
    "report.#",
    "report daily",
    " report",
    "report ",
    "Report",
    "r\u00e9port",
    "re\u0301port",
    "📈 report",
    '"report"',
    "re\nport",
    "re\x00port",
    "x" * 255,
    "п" * 127,
]

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]


def test_strange_names_and_prefixes(prefix: str, opened: Opened, now_ms: int, ask: Ask) -> None:
    """
    The same slot of every job is won on each prefix, and each history tells its own runs alone.
    """

    async def scenario() -> None:
        prefixes = [prefix, f"{prefix}.", f"{prefix}.runs", f"{prefix}/x"]
        for number, each in enumerate(prefixes):
            async with opened(prefix=each) as backend:
                requests = [
                    ask(name, now_ms, token=f"{number}-{place}", instance_id=each)
                    for place, name in enumerate(NAMES)
                ]
                answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
                finish = FinishRequest(
                    job=NAMES[number],
                    slot=now_ms,
                    attempt=1,
                    token=f"{number}-{number}",
                    status=Status.SUCCESS,
                )
                await backend.finish([finish], timeout_ms=TIMEOUT_MS)
                records = await backend.history(None, limit=100, timeout_ms=TIMEOUT_MS)

            assert [Verdict.WON] * len(NAMES) == [
                answer.verdict for answer in answers if isinstance(answer, ClaimAnswer)
            ]
            assert sorted(NAMES) == [record.job for record in records]
            assert {each} == {record.instance_id for record in records}
            assert [NAMES[number]] == [
                record.job for record in records if record.status is Status.SUCCESS
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["", "x" * 256, "п" * 128, "half \ud800"])
def test_a_name_that_does_not_fit(name: str, opened: Opened, now_ms: int, ask: Ask) -> None:
    """
    It is an error of that job alone, never a cut.
    """

    async def scenario() -> None:
        async with opened() as backend:
            bad, good = await backend.claim(
                [ask(name, now_ms), ask("good", now_ms)], timeout_ms=TIMEOUT_MS
            )

        assert isinstance(bad, RequestError)
        assert isinstance(good, ClaimAnswer)
        assert Verdict.WON == good.verdict

    asyncio.run(scenario())
