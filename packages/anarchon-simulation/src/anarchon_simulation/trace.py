"""
What happened, and a picture of it: instances as columns, virtual time as rows.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from anarchon.records import datetime_of
from anarchon_simulation.digest import Digest

__all__ = ["Entry", "Sort", "Trace", "timeline"]

Sort: TypeAlias = Literal["fault", "event", "handler", "store", "broken"]

_COLUMN_WIDTH = 34
_ENTRIES_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One thing that happened.

    Args:
        at_us: The true time since the world began, in microseconds.

        column: The instance that it happened to; "store" for the store.

        sort: What sort of thing.

        text: In words.

        job: The job that it is about.
    """

    at_us: int
    column: str
    sort: Sort
    text: str
    job: str | None = None


class Trace:
    """
    Keeps what happened, the newest at least, and mixes all of it into the digest.

    Args:
        digest: Where each entry is mixed in.

        entries_max: How many entries are kept.
    """

    def __init__(self, digest: Digest, *, entries_max: int = _ENTRIES_MAX) -> None:
        self._digest = digest
        self.entries: deque[Entry] = deque(maxlen=entries_max)

    def add(self, at_us: int, column: str, sort: Sort, text: str, job: str | None = None) -> None:
        """
        Write one thing down.
        """
        self._digest.text(f"{at_us} {column} {text}")
        self.entries.append(Entry(at_us, column, sort, text, job))


def timeline(
    entries: Iterable[Entry],
    columns: Sequence[str],
    *,
    start_ms: int | None = None,
    rows_max: int | None = None,
    width: int = _COLUMN_WIDTH,
) -> str:
    """
    Draw entries as a table: a row for each instant, a column for each instance.

    Args:
        entries: What happened, in order.

        columns: The instances, in the order of their columns.

        start_ms: The wall time at which the world began, to show dates; None
            shows seconds since then.

        rows_max: How many rows to draw, the newest.

        width: How wide a column is.
    """
    rows: list[tuple[int, dict[str, list[str]]]] = []
    for entry in entries:
        if not rows or rows[-1][0] != entry.at_us:
            rows.append((entry.at_us, {}))
        rows[-1][1].setdefault(entry.column, []).append(entry.text)
    if rows_max is not None:
        rows = rows[-rows_max:]
    shown = [column for column in columns if any(column in cells for _, cells in rows)]
    stamp_width = max((len(_stamp(at_us, start_ms)) for at_us, _ in rows), default=4)
    lines = [" | ".join([" " * stamp_width, *(column.ljust(width) for column in shown)]).rstrip()]
    lines.append("-+-".join(["-" * stamp_width, *("-" * width for _ in shown)]))
    for at_us, cells in rows:
        wrapped = [
            [line for text in cells.get(column, ()) for line in _wrap(text, width)]
            for column in shown
        ]
        for number in range(max((len(cell) for cell in wrapped), default=0)):
            stamp = _stamp(at_us, start_ms) if number == 0 else " " * stamp_width
            parts = [(cell[number] if number < len(cell) else "").ljust(width) for cell in wrapped]
            lines.append(" | ".join([stamp.rjust(stamp_width), *parts]).rstrip())
    return "\n".join(lines)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ") or [""]


def _stamp(at_us: int, start_ms: int | None) -> str:
    if start_ms is None:
        return f"{at_us // 1_000 / 1_000:.3f}"
    return (
        f"{datetime_of(start_ms + at_us // 1_000):%Y-%m-%d %H:%M:%S}.{at_us // 1_000 % 1_000:03d}"
    )
