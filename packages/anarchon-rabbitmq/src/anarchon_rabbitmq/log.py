"""
The log as one instance uses it: it follows it, appends to it, and waits until what it appended was read.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from anarchon.backend import ClaimAnswer
from anarchon.clock import Clock
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon_rabbitmq.address import Address
from anarchon_rabbitmq.entries import Entry, Message, encode
from anarchon_rabbitmq.ledger import Ledger
from anarchon_rabbitmq.line import Line
from anarchon_rabbitmq.options import Options
from anarchon_rabbitmq.reading import Placed, read_part

__all__ = ["Log", "Read"]

_OVERLAP: Final = 16
"""
How many messages before its window an instance reads: when they were written says how old
everything before them is at least. Several, so that one bad clock does not decide.
"""

_GAP_MAX: Final = 2
"""
How many offsets may be missing between two messages: the broker writes notes of its own where
it begins a segment. Whole segments are what it cuts off, and each has more messages than that.
"""

_CLOSED: Final = "this backend was closed"

_ROUNDS_MAX: Final = 3
_PAUSE_S: Final = 0.1

_ROUND_S: Final = 3.0
"""
How long the first round through the nodes may take, in seconds; a later one has twice as long. A
try ends, and another begins: now and then a new stream never delivers to its first reader.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """
    A message of this instance that was read back: where it stands, and the answers to its claims.
    """

    offset: int
    answers: Sequence[ClaimAnswer]


@dataclass(slots=True)
class _Start:
    """
    The first messages of a log that is joined in its middle, up to the one at ``end``.
    """

    end: int
    messages: list[Placed] = field(default_factory=list)


class Log:
    """
    The log, over one line at a time.

    Args:
        address: The nodes; after one was lost the next is tried.

        options: The options.

        ledger: Learns every message.

        clock: The instance's clocks.

        mark: Makes a text that is like no other.
    """

    # A broken backend of our tests puts its own in its place.
    _line_class: ClassVar[type[Line]] = Line

    def __init__(
        self,
        address: Address,
        options: Options,
        ledger: Ledger,
        *,
        clock: Clock,
        mark: Callable[[], str],
    ) -> None:
        self._address = address
        self._options = options
        self._ledger = ledger
        self._clock = clock
        self._mark = mark
        self._turn = 0
        self._line: Line | None = None
        self._reading: Line | None = None
        self._lines: set[Line] = set()
        self._connecting: asyncio.Task[Line] | None = None
        self._waiting: dict[str, asyncio.Future[Read]] = {}
        self._start: _Start | None = None
        self._resumed = False
        self._last: int | None = None
        self._last_mark = ""
        self._last_ms = 0
        self._closed = False
        self.version = ""

    async def append(self, entries: Sequence[Entry], *, deadline: float) -> Read:
        """
        Append one message, and wait until it was read back with all that stands before it.

        Args:
            entries: What the message holds; without any it only finds the end of the log.

            deadline: When to give up, by the event loop's clock.

        Raises:
            BackendError: The outcome is unknown, unless it is a refusal.
        """
        line = await self.line(deadline=deadline)
        mark = self._mark()
        waiting: asyncio.Future[Read] = asyncio.get_running_loop().create_future()
        self._waiting[mark] = waiting
        read_count = line.read_count

        def failed(error: BackendError) -> None:
            if not waiting.done():
                waiting.set_exception(error)

        line.append(mark, encode(mark, self._clock.wall_ms(), entries), failed)
        try:
            left_s = deadline - asyncio.get_running_loop().time()
            await asyncio.wait({waiting}, timeout=max(0.0, left_s))
            if waiting.done():
                return waiting.result()
            error = StoreUnavailableError(
                f"{line.where}: no answer in time; the outcome is unknown"
            )
            if line.read_count == read_count:
                # Nothing at all was read meanwhile: the line may be dead without a word.
                line.drop(error)
            raise error
        finally:
            del self._waiting[mark]
            if waiting.done() and not waiting.cancelled():
                waiting.exception()
            waiting.cancel()

    async def line(self, *, deadline: float) -> Line:
        """
        Return the live line; without one connect, to one node after another.

        Connecting goes on when a caller's time is over: on a busy machine it takes longer than one
        call may, and would never come to its end if each call began anew.

        Raises:
            BackendError: No node can be used, or none was there in time.
        """
        if self._line is not None:
            return self._line
        if self._closed:
            raise BackendStateError(_CLOSED)
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = self._connecting = asyncio.ensure_future(self._connected())
            # Every caller may have given up when it fails.
            connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        left_s = deadline - asyncio.get_running_loop().time()
        await asyncio.wait({connecting}, timeout=max(0.0, left_s))
        if not connecting.done():
            msg = f"RabbitMQ at {self._address.shown}: no connection in time"
            raise StoreUnavailableError(msg)
        if connecting.cancelled():
            raise BackendStateError(_CLOSED)
        failure = connecting.exception()
        if isinstance(failure, BackendError):
            # Each has one of its own: a traceback belongs to one task.
            raise type(failure)(str(failure)) from failure
        return connecting.result()

    async def close(self) -> None:
        """
        End what is under way, and every connection.
        """
        self._closed = True
        self._fail(BackendStateError(_CLOSED))
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        await asyncio.gather(*(line.close() for line in self._lines))

    async def _connected(self) -> Line:
        hosts = self._address.hosts
        failure: BackendError | None = None
        for number in range(_ROUNDS_MAX * len(hosts)):
            if number and number % len(hosts) == 0:
                # Two instances that make one stream at the same moment disturb each other.
                await asyncio.sleep(_PAUSE_S * number)  # The broker has nothing to wait on.
            round_s = _ROUND_S if number < len(hosts) else 2 * _ROUND_S
            now = asyncio.get_running_loop().time()
            failure = await self._connect(now + round_s / len(hosts))
            if failure is not None and not isinstance(failure, StoreUnavailableError):
                break
            if self._line is not None:
                return self._line
        assert failure is not None
        raise failure

    async def _connect(self, deadline: float) -> BackendError | None:
        """
        Try the node whose turn it is; gives what went wrong.
        """
        host = self._address.hosts[self._turn % len(self._address.hosts)]
        line = self._line_class(
            self._address, host, self._options, read=self._read, lost=self._lost
        )
        self._lines = {each for each in self._lines if not each.over} | {line}
        try:
            async with asyncio.timeout_at(deadline):
                await line.connect()
                await self._attach(line)
        except TimeoutError:
            failure: BackendError = StoreUnavailableError(f"{line.where}: no answer in time")
        except BackendError as error:
            failure = error
        except BaseException:
            line.drop(StoreUnavailableError(f"{line.where}: the caller gave up"))
            raise
        else:
            if line.broken is None:
                self._line, self.version = line, line.version
                return None
            failure = line.broken
        self._turn += 1
        line.drop(failure)
        return failure

    async def _attach(self, line: Line) -> None:
        """
        Read on where the last line ended, or begin some time before now.
        """
        self._reading, self._start, self._resumed = line, None, False
        if self._last is not None:
            away_ms = self._clock.suspend_ms() - self._last_ms
            if away_ms <= self._options.window_ms:
                # The last message again: that it is still there says that nothing after it was cut off.
                self._resumed = True
                await line.follow(self._last)
                return
            self._last = None
        # Where the window begins is told by its first message, so there has to be one.
        mark = self._mark()
        line.append(mark, encode(mark, self._clock.wall_ms(), ()), line.drop)
        window = f"{self._options.window_ms // 1_000}s"
        ((first, _),) = await read_part(line, self._options.stream, window)
        begin = max(0, first - _OVERLAP)
        if begin > 0:
            self._start = _Start(first)
        await line.follow(begin)

    def _read(self, line: Line, offset: int, message: Message | None) -> None:
        """
        Take the next message; nothing here waits.
        """
        if line is not self._reading:
            return
        if self._resumed and not self._continues(line, offset, message):
            return
        start = self._start
        if start is None:
            self._take(offset, message)
            return
        start.messages.append((offset, message))
        if offset >= start.end:
            self._start = None
            written = [each.written_ms for _, each in start.messages if each is not None]
            # What was not read is older than all that was.
            self._ledger.blind(
                int(statistics.median_low(written)) if written else self._clock.wall_ms()
            )
            self._last = start.messages[0][0] - 1
            for placed in start.messages:
                self._take(*placed)

    def _continues(self, line: Line, offset: int, message: Message | None) -> bool:
        """
        Look at the first message of a line that goes on where another has ended.
        """
        self._resumed = False
        if offset == self._last and _mark_of(message) != self._last_mark:
            self._last = None
            line.drop(StoreUnavailableError(f"{line.where}: the stream was made anew"))
            return False
        if self._last is not None and offset > self._last:
            self._ledger.blind(self._clock.wall_ms() if message is None else message.written_ms)
        return True

    def _take(self, offset: int, message: Message | None) -> None:
        if self._last is not None and offset <= self._last:
            return
        gap = offset - (-1 if self._last is None else self._last) - 1
        if gap > (0 if self._last is None else _GAP_MAX):
            # The log was cut off before it: what stood there was not read.
            self._ledger.blind(self._clock.wall_ms() if message is None else message.written_ms)
        self._last, self._last_mark = offset, _mark_of(message)
        self._last_ms = self._clock.suspend_ms()
        if message is None:
            return
        answers = self._ledger.apply(message, self._last_ms)
        waiting = self._waiting.get(message.mark)
        if waiting is not None and not waiting.done():
            waiting.set_result(Read(offset=offset, answers=answers))

    def _lost(self, line: Line, reason: BackendError) -> None:
        if line is self._line:
            self._line = None
            self._turn += 1
            self._last_ms = self._clock.suspend_ms()
            if not line.read_count:
                # It may have waited beyond the end of a log that was made anew.
                self._last = None
            self._fail(reason)
        if line is self._reading:
            self._reading = None

    def _fail(self, reason: BackendError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                # Each has one of its own: a traceback belongs to one task.
                waiting.set_exception(type(reason)(str(reason)))


def _mark_of(message: Message | None) -> str:
    return "" if message is None else message.mark
