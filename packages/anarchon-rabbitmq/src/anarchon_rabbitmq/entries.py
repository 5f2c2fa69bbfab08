"""
What stands in the log: a message with entries, each a claim or the end of a run.

A message is one step: all its entries stand in the log, next to each other, or none does.
One without entries says nothing but that its sender is there, and where the log's end was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anarchon.records import Reason, Status

__all__ = [
    "MESSAGE_TYPE",
    "ClaimEntry",
    "Entry",
    "FinishEntry",
    "Message",
    "NewerLayoutError",
    "cut",
    "decode",
    "encode",
]

MESSAGE_TYPE: Final = "anarchon/1"
"""
The type of every message of ours, with the layout's version.
"""

_FAMILY: Final = MESSAGE_TYPE.partition("/")[0]
_ENTRIES_MAX: Final = 256
_BYTES_MAX: Final = 250_000


class NewerLayoutError(ValueError):
    """
    A message of a later layout: whoever ignores it could grant what it has granted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEntry:
    """
    A token asks for a slot. The first one in the log has it.
    """

    job: str
    slot: int
    token: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishEntry:
    """
    How a run ended, with all that its record needs: the claim may be gone by then.
    """

    job: str
    slot: int
    token: str
    instance_id: str
    claimed_ms: int
    status: Status
    reason: Reason | None
    error: str | None
    started_ms: int | None


Entry = ClaimEntry | FinishEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """
    One message of the log: where it stands, who waits for it, when it was written by which clock.
    """

    offset: int
    mark: str
    written_ms: int
    entries: tuple[Entry, ...]


def encode(mark: str, written_ms: int, entries: Sequence[Entry]) -> bytes:
    """
    Write the body of a message.
    """
    rows = [_row(entry) for entry in entries]
    # ASCII alone, so that any text fits, be it one that UTF-8 cannot hold.
    return json.dumps([mark, written_ms, rows], separators=(",", ":")).encode("ascii")


def decode(offset: int, kind: str | None, body: bytes) -> Message | None:
    """
    Read a message; None if it is not one of ours, which all instances find alike.

    Raises:
        NewerLayoutError: A later version of this distribution has written it.
    """
    if kind != MESSAGE_TYPE:
        if kind is not None and kind.startswith(f"{_FAMILY}/"):
            msg = f"a message of type {kind!r}, where this version reads {MESSAGE_TYPE!r}"
            raise NewerLayoutError(msg)
        return None
    try:
        mark, written_ms, rows = json.loads(body)
        return Message(
            offset=offset,
            mark=mark,
            written_ms=written_ms,
            entries=tuple(_entry(row) for row in rows),
        )
    except (ValueError, TypeError, KeyError):
        return None


def cut(entries: Iterable[Entry]) -> Iterator[tuple[Entry, ...]]:
    """
    Cut entries into messages that neither block a connection for long nor exceed a broker's limit.
    """
    piece: list[Entry] = []
    size = 0
    for entry in entries:
        weight = len(json.dumps(_row(entry)))
        if piece and (len(piece) >= _ENTRIES_MAX or size + weight > _BYTES_MAX):
            yield tuple(piece)
            piece, size = [], 0
        piece.append(entry)
        size += weight
    if piece:
        yield tuple(piece)


def _row(entry: Entry) -> list[Any]:
    head = [entry.job, entry.slot, entry.token, entry.instance_id]
    if isinstance(entry, ClaimEntry):
        return head
    reason = None if entry.reason is None else entry.reason.value
    return [
        *head,
        entry.claimed_ms,
        entry.status.value,
        reason,
        entry.error,
        entry.started_ms,
    ]


def _entry(row: list[Any]) -> Entry:
    job, slot, token, instance_id, *rest = row
    if not rest:
        return ClaimEntry(job=job, slot=slot, token=token, instance_id=instance_id)
    claimed_ms, status, reason, error, started_ms = rest
    return FinishEntry(
        job=job,
        slot=slot,
        token=token,
        instance_id=instance_id,
        claimed_ms=claimed_ms,
        status=Status(status),
        reason=None if reason is None else Reason(reason),
        error=error,
        started_ms=started_ms,
    )
