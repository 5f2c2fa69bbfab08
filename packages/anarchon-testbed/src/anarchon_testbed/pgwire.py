"""
As much of the PostgreSQL protocol as it takes to ask a server whether it is ready, and a question without a password.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["NotReadyError", "ask", "ask_ready"]

_PROTOCOL_3 = 196608
_END = b"X" + struct.pack("!i", 4)


class NotReadyError(Exception):
    """
    The server answered that it does not serve this user yet, or not this question; the text is its own.
    """


def ask_ready(host: str, port: int, *, user: str, database: str, timeout_ms: int = 2000) -> str:
    """
    Open a session, or be asked for a password: both say that the server is up. Gives its version where it tells.

    Raises NotReadyError with the server's words, OSError where it cannot be reached in time.
    """
    version = ""
    with _session(host, port, user=user, database=database, timeout_ms=timeout_ms) as (_, file):
        for kind, payload in _messages(file):
            if kind == b"S" and payload.startswith(b"server_version\0"):
                version = payload.split(b"\0")[1].decode().split()[0]
            if kind == b"Z" or _wants_password(kind, payload):
                break
    return version


def ask(
    host: str, port: int, query: str, *, user: str, database: str, timeout_ms: int = 2000
) -> list[list[str | None]]:
    """
    Run one statement in a session that needs no password, and give its rows as text.

    Raises NotReadyError with the server's words, OSError where it cannot be reached in time.
    """
    rows: list[list[str | None]] = []
    asked = False
    with _session(host, port, user=user, database=database, timeout_ms=timeout_ms) as opened:
        connection, file = opened
        for kind, payload in _messages(file):
            if _wants_password(kind, payload):
                raise NotReadyError("a password is needed")
            if kind == b"D":
                rows.append(_row(payload))
            if kind == b"Z":
                if asked:
                    break
                words = query.encode() + b"\0"
                connection.sendall(b"Q" + struct.pack("!i", len(words) + 4) + words)
                asked = True
    return rows


@contextmanager
def _session(
    host: str, port: int, *, user: str, database: str, timeout_ms: int
) -> Iterator[tuple[socket.socket, BinaryIO]]:
    body = struct.pack("!i", _PROTOCOL_3)
    for word in ("user", user, "database", database, ""):
        body += word.encode() + b"\0"
    with socket.create_connection((host, port), timeout_ms / 1000) as connection:
        connection.sendall(struct.pack("!i", len(body) + 4) + body)
        with connection.makefile("rb") as file:
            yield connection, file
            connection.sendall(_END)


def _messages(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """
    Give what the server says, message by message, without end; its refusal is raised.
    """
    while True:
        head = file.read(5)
        if len(head) < 5:
            raise ConnectionResetError("the server closed the connection")
        kind, length = struct.unpack("!ci", head)
        payload = file.read(length - 4)
        if kind == b"E":
            raise NotReadyError(_refusal(payload))
        yield kind, payload


def _wants_password(kind: bytes, payload: bytes) -> bool:
    return kind == b"R" and payload[:4] != b"\0\0\0\0"


def _row(payload: bytes) -> list[str | None]:
    (count,) = struct.unpack_from("!h", payload)
    row: list[str | None] = []
    position = 2
    for _ in range(count):
        (length,) = struct.unpack_from("!i", payload, position)
        position += 4
        row.append(None if length < 0 else payload[position : position + length].decode())
        position += max(0, length)
    return row


def _refusal(payload: bytes) -> str:
    fields = {field[:1]: field[1:].decode(errors="replace") for field in payload.split(b"\0")}
    return f"{fields.get(b'M', 'an error without words')} ({fields.get(b'C', '?')})"
