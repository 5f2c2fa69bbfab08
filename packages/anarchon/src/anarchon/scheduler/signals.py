"""
SIGTERM and SIGINT for a program that is a scheduler and nothing else.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """
    Catch the first signal; the second one ends the process at once.

    Handlers exist in the main thread alone: elsewhere nothing is caught. What
    stood there before is put back at the end.
    """

    def __init__(self) -> None:
        self._caught = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    async def wait(self) -> None:
        """
        Return when the first signal has come.
        """
        await self._caught.wait()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            # None says that the handler before was not set from Python; it cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a signal handler
        assert self._loop is not None
        if (
            self._caught.is_set()
        ):  # pragma: no cover - it ends the process; a test sees it from outside
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            return
        self._caught.set()
        # The loop sleeps in its selector: only a byte on its pipe wakes it.
        self._loop.call_soon_threadsafe(lambda: None)
