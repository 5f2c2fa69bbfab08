"""
Instants as the server writes them, and what is known of its clock between two looks at it.
"""

from __future__ import annotations

from datetime import datetime

from anarchon.clock import Clock

__all__ = ["ServerTime", "instant_ms"]

_FRESH_MS = 60_000
_SECOND_MS = 1_000


def instant_ms(text: str) -> int:
    """
    Read an instant of RFC 3339, as milliseconds since 1970, rounded down.

    The server writes up to nine digits behind the second, of which Python's own reader takes six.
    """
    whole, _, rest = text.rstrip("Z").partition(".")
    digits = rest[:3].ljust(3, "0")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * _SECOND_MS + int(digits)


class ServerTime:
    """
    The clock of the server: what it last said, and the time that has passed since.

    Nobody's claim is judged by an instance's own clock: one that is slow by an hour would ask
    for a slot whose claim has been forgotten.

    Args:
        clock: Measures what passes between two looks.
    """

    __slots__ = ("_clock", "_connection", "_heard_ms", "_told_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told_ms: int | None = None
        self._heard_ms = 0
        self._connection = 0

    def heard(self, text: str, connection: int) -> None:
        """
        Learn what the server's clock says, over which connection of this client.
        """
        self._told_ms = instant_ms(text)
        self._heard_ms = self._clock.suspend_ms()
        self._connection = connection

    def stale(self, connection: int) -> bool:
        """
        Say whether to look again: the server's clock may have been set, or be another server's now.
        """
        passed_ms = self._clock.suspend_ms() - self._heard_ms
        return self._told_ms is None or connection != self._connection or passed_ms > _FRESH_MS

    def now_ms(self) -> int:
        """
        Return the server's time, or a little less.
        """
        assert self._told_ms is not None, "the server is asked before anything is judged"
        return self._told_ms + self._clock.suspend_ms() - self._heard_ms
