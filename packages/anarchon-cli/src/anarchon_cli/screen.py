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

_PIPE_COLUMNS = 100_000
"""
Wider than any row: whoever reads a pipe wants each record on one line, and nothing cut.
"""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """
    Print rows under their columns. Into a pipe, each row is one line however long it is.
    """
    from rich.console import Console  # noqa: PLC0415 - Rich takes longer to import than all the rest
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    on_screen = sys.stdout.isatty()
    console = Console(width=None if on_screen else _PIPE_COLUMNS)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=not on_screen)
    for row in rows:
        # A Text is shown as it stands; a str would be read as markup.
        table.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())  # noqa: T201 - this is the program's output


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
