"""
Where an instance begins to read, where it goes on, and what it makes of a log that is not as it left it.

The lines are real and connected to nobody: what a broker would hand out is handed out here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from anarchon.backend import ClaimRequest, Verdict
from anarchon.clock import SystemClock
from anarchon.errors import StoreUnavailableError
from anarchon_rabbitmq.address import read_address
from anarchon_rabbitmq.entries import ClaimEntry, Message
from anarchon_rabbitmq.ledger import Ledger
from anarchon_rabbitmq.line import Line
from anarchon_rabbitmq.log import Log, _Start
from anarchon_rabbitmq.options import CLOCK_TOLERANCE_MS, Options

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """
    Run a test in an event loop, which a line needs even where it is connected to nobody.
    """

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Reader:
    """
    A log that reads what a test hands it.
    """

    def __init__(self) -> None:
        self.ledger = Ledger(memory_ms=DAY_MS, window_ms=2 * DAY_MS)
        address = read_address("amqp://127.0.0.1:1")
        self.log = Log(address, Options(), self.ledger, clock=SystemClock(), mark=lambda: "unused")
        self.line = Line(
            address, address.hosts[0], Options(), read=self.log._read, lost=self.log._lost
        )
        self.log._line = self.log._reading = self.line

    def hear(self, offset: int, *slots: int, mark: str = "", written_ms: int = NOW_MS) -> None:
        """
        Hand out a message with claims.
        """
        entries = tuple(
            ClaimEntry(job="job", slot=slot, token=f"{offset}", instance_id="") for slot in slots
        )
        message = Message(
            offset=offset, mark=mark or f"mark-{offset}", written_ms=written_ms, entries=entries
        )
        self.log._read(self.line, offset, message)

    def resume(self) -> None:
        """
        Go on with another line.
        """
        self.log._resumed = True

    def told(self, slot: int) -> Verdict:
        """
        Say what becomes of a claim.
        """
        request = ClaimRequest(job="job", slot=slot, token="asked", instance_id="")
        return self.ledger.decide(request, NOW_MS).verdict


@in_a_loop
async def test_messages_are_taken_once_and_in_order() -> None:
    """
    A message that comes again changes nothing, and a note of the broker between two is no gap.
    """
    reader = Reader()
    reader.hear(0, NOW_MS)
    reader.hear(2, NOW_MS + 1)
    reader.hear(0, NOW_MS + 2)

    assert [Verdict.TAKEN, Verdict.TAKEN, Verdict.WON] == [
        reader.told(NOW_MS + each) for each in range(3)
    ]
    assert "0" == reader.ledger.holder("job", NOW_MS).token  # type: ignore[union-attr]  # It is held, as was just seen.


@in_a_loop
async def test_a_log_that_was_cut_off_meanwhile_shuts_what_it_held() -> None:
    """
    Where whole segments are missing, slots up to their end are late.
    """
    reader = Reader()
    reader.hear(0, NOW_MS)
    reader.hear(4, written_ms=NOW_MS)

    assert Verdict.LATE == reader.told(NOW_MS + CLOCK_TOLERANCE_MS)
    assert Verdict.WON == reader.told(NOW_MS + CLOCK_TOLERANCE_MS + 1)


@in_a_loop
async def test_a_log_that_begins_late_was_cut_off() -> None:
    """
    The first message that there is may have had others before it.
    """
    reader = Reader()
    reader.hear(7, written_ms=NOW_MS)

    assert Verdict.LATE == reader.told(NOW_MS)


@in_a_loop
async def test_a_log_that_is_joined_in_its_middle_waits_for_its_window() -> None:
    """
    Nothing is taken before it is known how old the rest is; one clock among several does not decide that.
    """
    reader = Reader()
    reader.log._start = _Start(13)
    for offset, written_ms in [
        (10, NOW_MS + DAY_MS),
        (11, NOW_MS - 500_000),
        (12, NOW_MS - 400_000),
    ]:
        reader.hear(offset, NOW_MS - offset, written_ms=written_ms)
    before = len(reader.ledger)
    reader.hear(13, NOW_MS, written_ms=NOW_MS)

    assert 0 == before
    assert 3 <= len(reader.ledger)
    assert Verdict.TAKEN == reader.told(NOW_MS)
    assert Verdict.LATE == reader.told(NOW_MS - 400_000 + CLOCK_TOLERANCE_MS)
    assert Verdict.WON == reader.told(NOW_MS - 1)


@in_a_loop
async def test_a_line_goes_on_where_the_last_one_ended() -> None:
    """
    The last message comes again, and nothing between was missed.
    """
    reader = Reader()
    reader.hear(3, NOW_MS)
    reader.ledger = reader.log._ledger = Ledger(memory_ms=DAY_MS, window_ms=DAY_MS)
    reader.resume()
    reader.hear(3, NOW_MS)
    reader.hear(4, NOW_MS + 1)

    assert [Verdict.WON, Verdict.TAKEN] == [reader.told(NOW_MS), reader.told(NOW_MS + 1)]


@in_a_loop
async def test_a_line_that_goes_on_later_than_the_last_one_ended() -> None:
    """
    The message that was last is gone, and with it what came after: its slots are late, however near the next one is.
    """
    reader = Reader()
    reader.hear(0, NOW_MS)
    reader.resume()
    reader.hear(1, written_ms=NOW_MS)

    assert Verdict.LATE == reader.told(NOW_MS + 1)


@in_a_loop
async def test_another_log_under_the_same_name() -> None:
    """
    Where the last message is another one, the stream was made anew: the line is given up, and the log joined afresh.
    """
    reader = Reader()
    reader.hear(0)
    reader.hear(1)
    reader.resume()
    reader.hear(1, NOW_MS, mark="another")
    broken = reader.line.broken
    await reader.log.close()

    assert isinstance(broken, StoreUnavailableError)
    assert "made anew" in str(broken)
    assert Verdict.WON == reader.told(NOW_MS)
    assert reader.log._last is None
