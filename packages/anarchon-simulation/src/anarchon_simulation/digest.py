"""
One number for a whole run: equal numbers, equal runs.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["Digest"]

_MASK = (1 << 64) - 1
_FACTOR = 6_364_136_223_846_793_005


class Digest:
    """
    Mixes every step and every traced event into 64 bits, alike on every Python.
    """

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def step(self, lane: int, now_us: int) -> None:
        """
        Mix a step in: which lane, and when.
        """
        self._value = (self._value * _FACTOR + lane * 2_654_435_761 + now_us) & _MASK

    def text(self, text: str) -> None:
        """
        Mix an event in.
        """
        self.step(crc32(text.encode()), 0)

    def __str__(self) -> str:
        return f"{self._value:016x}"
