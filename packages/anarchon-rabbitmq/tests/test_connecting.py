"""
Connecting takes its own time: a call that cannot wait leaves it to the next one, and a try that hangs is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar

import pytest

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon_rabbitmq import RabbitMQBackend, log
from anarchon_rabbitmq.line import Line
from anarchon_rabbitmq.log import Log

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]


class SlowLine(Line):
    """
    Connects when it is let, and counts how often it was asked to.
    """

    asked: ClassVar[asyncio.Event]
    ready: ClassVar[asyncio.Event]
    tries: ClassVar[int]

    async def connect(self) -> None:
        """
        Wait, and connect.
        """
        SlowLine.tries += 1
        SlowLine.asked.set()
        await SlowLine.ready.wait()
        await super().connect()


class DeafLine(Line):
    """
    Never hands its first message to the first of all readers, as a new stream does now and then.

    Tries after the one that it spoils have all the time that they need.
    """

    appended: ClassVar[int]
    patient: ClassVar[Callable[[], None]]

    def append(self, mark: str, body: bytes, failed: Callable[[BackendError], None]) -> None:
        """
        Append, but for the first time.
        """
        DeafLine.appended += 1
        if DeafLine.appended == 1:
            DeafLine.patient()
        else:
            super().append(mark, body, failed)


def dropped(backend: RabbitMQBackend) -> Log:
    """
    Break the connection that a backend has.
    """
    found = backend._log
    assert found is not None
    assert found._line is not None
    found._line.drop(StoreUnavailableError("the test has cut it"))
    return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> type[SlowLine]:
    """
    Every line that is made from now on is a slow one, and no try ends by itself.
    """
    SlowLine.asked, SlowLine.ready, SlowLine.tries = asyncio.Event(), asyncio.Event(), 0
    monkeypatch.setattr(Log, "_line_class", SlowLine)
    monkeypatch.setattr(log, "_ROUND_S", TIMEOUT_MS / 1_000)
    return SlowLine


def test_connecting_outlives_the_call_that_began_it(
    opened: Opened, slow: type[SlowLine], now_ms: int, ask: Ask
) -> None:
    """
    Calls that end by their deadline do not begin anew: the connection is there for the next one.
    """

    async def scenario() -> tuple[int, Verdict]:
        slow.ready.set()
        async with opened() as backend:
            dropped(backend)
            slow.ready.clear()
            slow.tries = 0
            for _ in range(3):
                with pytest.raises(StoreUnavailableError, match="no connection in time"):
                    await backend.claim([ask("job", now_ms)], timeout_ms=1)
            slow.ready.set()
            (answer,) = await backend.claim([ask("job", now_ms)], timeout_ms=TIMEOUT_MS)
            assert isinstance(answer, ClaimAnswer), answer
            return slow.tries, answer.verdict

    assert (1, Verdict.WON) == asyncio.run(scenario())


def test_closing_ends_the_connecting(
    opened: Opened, slow: type[SlowLine], now_ms: int, ask: Ask
) -> None:
    """
    Whoever waits for a connection hears that the backend was closed, and nothing is left behind.
    """

    async def scenario() -> int:
        slow.ready.set()
        async with opened() as backend:
            dropped(backend)
            slow.ready.clear()
            slow.asked.clear()
            claim = asyncio.ensure_future(
                backend.claim([ask("job", now_ms)], timeout_ms=TIMEOUT_MS)
            )
            await slow.asked.wait()
            await backend.close()
            with pytest.raises(BackendStateError, match="was closed"):
                await claim
        return len(asyncio.all_tasks())

    assert 1 == asyncio.run(scenario())


def test_a_new_stream_that_never_delivers_to_its_first_reader(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, now_ms: int, ask: Ask
) -> None:
    """
    The try is given up, and the next one finds what the log holds.
    """
    DeafLine.appended = 0
    monkeypatch.setattr(Log, "_line_class", DeafLine)
    monkeypatch.setattr(log, "_ROUND_S", 2.0)
    DeafLine.patient = lambda: monkeypatch.setattr(log, "_ROUND_S", TIMEOUT_MS / 1_000)

    async def scenario() -> Verdict:
        async with opened() as backend:
            (answer,) = await backend.claim([ask("job", now_ms)], timeout_ms=TIMEOUT_MS)
            assert isinstance(answer, ClaimAnswer), answer
            return answer.verdict

    assert Verdict.WON == asyncio.run(scenario())
    assert DeafLine.appended > 2
