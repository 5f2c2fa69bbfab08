"""
What groups of servers share: they are entered and left together, and asked until they agree.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from anarchon_testbed.context import Enterable
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.resp import RespError
from anarchon_testbed.server import Server

__all__ = ["ServerGroup", "until"]

_AGREE_MS_MAX = 120_000
_POLL_MS = 20


class ServerGroup(Enterable):
    """
    Several servers that belong together. Whatever goes wrong at the start, none of them is left.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()

    @property
    @abstractmethod
    def _members(self) -> Sequence[Server]:
        """
        Every server, the one that is asked for the version first.
        """

    @property
    def version(self) -> str:
        """
        The version of the servers.
        """
        return self._members[0].version

    def _start(self, stack: ExitStack) -> None:
        """
        Start the servers, one after the other.
        """
        for server in self._members:
            stack.enter_context(server)

    @abstractmethod
    def _join(self, stack: ExitStack) -> None:
        """
        Make a group of servers that run, and wait until it is one.
        """

    def _enter(self) -> None:
        with ExitStack() as stack:
            self._start(stack)
            self._join(stack)
            self._stack = stack.pop_all()

    def _leave(self, error: BaseException | None) -> None:
        self._stack.__exit__(type(error) if error else None, error, None)


def until(
    condition: Callable[[], bool],
    *,
    what: str,
    ms_max: int = _AGREE_MS_MAX,
    poll_ms: int = _POLL_MS,
) -> None:
    """
    Ask until a condition holds, blocking. A server that cannot answer yet is asked again.

    Raises:
        ServerFailedError: It did not in time; *what* says what is wrong then.
    """
    end = time.monotonic() + ms_max / 1000
    last: Exception | None = None
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (OSError, RespError, ServerFailedError) as error:
            last = error
        time.sleep(poll_ms / 1000)  # Servers tell nobody when they agree: they are asked.
    raise ServerFailedError(f"After {ms_max} ms {what}" + (f" ({last})." if last else "."))
