"""
What people and programs read: tables, lines of JSON, instants.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from anarchon.records import datetime_of
from anarchon.slots.zones import check_key, zone
from anarchon_cli.text import printable

__all__ = ["local_time", "print_json_lines", "print_table", "utc_time", "zoned_time"]

_FOLDED_COLUMNS_MIN = 30
"""
How wide the last column of a table stays, where the terminal is narrow.
"""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """
    Print rows under their columns.

    On a terminal, the last column is folded to its width. Whoever reads a pipe gets
    each row on one line, however long it is. Nothing is cut in either.
    """
    table = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if sys.stdout.isatty():
        _print_on_terminal(table, widths)
        return
    for row in table:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())  # noqa: T201 - this is the program's output


def _print_on_terminal(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    from rich.console import Console  # noqa: PLC0415 - Rich takes longer to import than all the rest
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    header, *cells = rows
    for name, width in zip(header, widths, strict=True):
        table.add_column(name, overflow="fold", min_width=min(width, _FOLDED_COLUMNS_MIN))
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in cells:
        # A Text is shown as it stands; a str would be read as markup.
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    # Dates that are folded cannot be read; a terminal that is too narrow for them wraps whole lines better.
    least = sum(widths[:-1]) + 2 * len(widths) + min(widths[-1], _FOLDED_COLUMNS_MIN)
    console.width = max(console.width, least)
    console.print(table)


def print_json_lines(objects: Iterable[Mapping[str, object]]) -> None:
    """
    Print one JSON object a line.
    """
    for value in objects:
        print(json.dumps(value, ensure_ascii=False))  # noqa: T201 - this is the program's output


def utc_time(slot: int) -> str:
    """
    Write an instant in UTC; thousandths only where there are any.
    """
    return _written(datetime_of(slot).replace(tzinfo=None), slot)


def zoned_time(slot: int, key: str) -> str:
    """
    Write an instant by the clocks of a zone, by the rules that slots are computed with.

    Raises:
        InvalidScheduleError: There is no such zone.
    """
    offset = timedelta(seconds=zone(check_key(key)).at(slot // 1_000).offset)
    return f"{_with_offset(datetime_of(slot).astimezone(timezone(offset)), slot)} {key}"


def local_time(slot: int) -> str:
    """
    Write an instant by this machine's clocks.
    """
    return _with_offset(datetime_of(slot).astimezone(), slot)


def _with_offset(time: datetime, slot: int) -> str:
    offset = time.strftime("%z")
    return f"{_written(time.replace(tzinfo=None), slot)} {offset[:3]}:{offset[3:5]}"


def _written(time: datetime, slot: int) -> str:
    return time.isoformat(sep=" ", timespec="milliseconds" if slot % 1_000 else "seconds")
