"""
A time zone as a chain of segments, each with one offset.

All numbers are whole seconds: instants since 1970-01-01 UTC, and readings of
the local clock, written as the instants at which a clock in UTC shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = ["DAY_S", "Segment", "Zone"]

DAY_S: Final = 86_400

# Blocks of 2**22 s (48 days) lie on one grid for everybody, so that who asks first does not matter. Almost every
# question touches one or two of them, and scanning one costs as much as a few dozen answers.
_BLOCK_BITS: Final = 22

# An offset is less than a day either way, so that what the clocks showed two days ago has been passed since.
_HORIZON_S: Final = 2 * DAY_S

# 1,024 blocks are 136 years: enough for any schedule that people write, and a bound for the others.
_BLOCKS_MAX: Final = 1_024


class Segment(NamedTuple):
    """
    A stretch of time, from *start* up to *end*, with one offset.

    *peak* is where the clocks had got to before: the readings below it have
    been shown already, or were left out by the change at *start*.
    """

    start: int
    end: int
    offset: int
    peak: int


class Zone:
    """
    The segments of one time zone, found by asking for offsets once a day.

    No two changes of a zone are nearer than days to each other, so that a look
    a day misses none, and halving finds the second at which one happens.

    Args:
        offset_at: The offset in seconds at an instant, less than a day either
            way.
    """

    __slots__ = ("_blocks", "_offset_at")

    def __init__(self, offset_at: Callable[[int], int]) -> None:
        self._offset_at = offset_at
        self._blocks: dict[int, tuple[Segment, ...]] = {}

    def at(self, instant: int) -> Segment:
        """
        Return the segment that holds an instant.
        """
        index = instant >> _BLOCK_BITS
        block = self._blocks.get(index)
        if block is None:
            block = self._scan(index)
        segment = block[0]
        if instant >= segment.end:
            segment = next(later for later in block if instant < later.end)
        return segment

    def reaching(self, reading: int) -> Segment:
        """
        Return the first segment in which the clocks show *reading* or later.
        """
        segment = self.at(reading - DAY_S)
        while segment.end + segment.offset <= reading:
            segment = self.at(segment.end)
        return segment

    def between(self, first: int, end: int) -> Iterator[Segment]:
        """
        Yield the segments from the one that holds *first* until *end* is reached.
        """
        while first < end:
            segment = self.at(first)
            yield segment
            first = segment.end

    def changes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """
        Yield each change in [first, end) as its instant and the offset from then on.
        """
        offset = self.at(first - 1).offset
        for segment in self.between(first, end):
            if segment.offset != offset:
                yield segment.start, segment.offset
            offset = segment.offset

    def _scan(self, index: int) -> tuple[Segment, ...]:
        start = index << _BLOCK_BITS
        end = (index + 1) << _BLOCK_BITS
        segments: list[Segment] = []
        # What came before the block matters for two days, by the peak that it leaves behind.
        chain = self._chain(start - _HORIZON_S, start, end)
        peak = (start - _HORIZON_S) + chain[0][2]
        for segment_start, segment_end, offset in chain:
            if segment_start >= start:
                segments.append(Segment(segment_start, segment_end, offset, peak))
            peak = max(peak, segment_end + offset)
        block = tuple(segments)
        if len(self._blocks) >= _BLOCKS_MAX:
            self._blocks.clear()
        self._blocks[index] = block
        return block

    def _chain(self, first: int, cut: int, end: int) -> list[tuple[int, int, int]]:
        """
        List the stretches of [first, end), with a cut where the block begins.
        """
        chain: list[tuple[int, int, int]] = []
        start, offset, before = first, self._offset_at(first), first
        for probe in (*range(first + DAY_S, end, DAY_S), end - 1):
            probed = self._offset_at(probe)
            if probed != offset:
                change = self._change(before, probe, probed)
                chain.append((start, change, offset))
                start, offset = change, probed
            # The block begins on the raster of the looks, two of them after the first.
            if probe == cut and start < cut:
                chain.append((start, cut, offset))
                start = cut
            before = probe
        chain.append((start, end, offset))
        return chain

    def _change(self, early: int, late: int, after: int) -> int:
        """
        Find the second at which the offset becomes *after*, in (early, late].
        """
        while late - early > 1:
            middle = (early + late) // 2
            if self._offset_at(middle) == after:
                late = middle
            else:
                early = middle
        return late
