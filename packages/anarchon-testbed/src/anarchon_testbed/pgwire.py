"""
As much of the PostgreSQL protocol as it takes to ask a server whether it is ready.
"""

from __future__ import annotations

import socket
import struct

__all__ = ["NotReadyError", "ask_ready"]

_PROTOCOL_3 = 196608


class NotReadyError(Exception):
    """
    The server answered that it does not serve this user yet; the text is its own.
    """


def ask_ready(host: str, port: int, *, user: str, database: str, timeout_ms: int = 2000) -> str:
    """
    Open a session, or be asked for a password: both say that the server is up. Gives its version where it tells.

    Raises NotReadyError with the server's words, OSError where it cannot be reached in time.
    """
    body = struct.pack("!i", _PROTOCOL_3)
    for word in ("user", user, "database", database, ""):
        body += word.encode() + b"\0"
    version = ""
    with socket.create_connection((host, port), timeout_ms / 1000) as connection:
        connection.sendall(struct.pack("!i", len(body) + 4) + body)
        with connection.makefile("rb") as file:
            while True:
                head = file.read(5)
                if len(head) < 5:
                    raise ConnectionResetError("the server closed the connection")
                kind, length = struct.unpack("!ci", head)
                payload = file.read(length - 4)
                if kind == b"E":
                    raise NotReadyError(_message(payload))
                if kind == b"S" and payload.startswith(b"server_version\0"):
                    version = payload.split(b"\0")[1].decode().split()[0]
                wants_password = kind == b"R" and payload[:4] != b"\0\0\0\0"
                if kind == b"Z" or wants_password:
                    connection.sendall(b"X" + struct.pack("!i", 4))
                    return version


def _message(payload: bytes) -> str:
    fields = {field[:1]: field[1:].decode(errors="replace") for field in payload.split(b"\0")}
    return f"{fields.get(b'M', 'an error without words')} ({fields.get(b'C', '?')})"
