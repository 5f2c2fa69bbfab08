"""
Ask a broker by AMQP 0-9-1 whether it is there: its greeting tells what it is.
"""

from __future__ import annotations

import re
import socket

from anarchon_testbed.errors import ServerFailedError

__all__ = ["ask_greeting"]

_PROTOCOL = b"AMQP\x00\x00\x09\x01"
_FRAME_HEAD_BYTES = 7
_FRAME_BYTES_MAX = 131_072


def ask_greeting(host: str, port: int, *, timeout_ms: int = 2_000) -> str:
    """
    Say hello over a new connection and give the version that the broker tells.

    Raises OSError where nobody answers, and ServerFailedError where it is no such broker.
    """
    with socket.create_connection((host, port), timeout_ms / 1000) as connection:
        connection.sendall(_PROTOCOL)
        head = _read(connection, _FRAME_HEAD_BYTES)
        size = int.from_bytes(head[3:7], "big")
        if head[:3] != b"\x01\x00\x00" or size > _FRAME_BYTES_MAX:
            raise ServerFailedError(f"{host}:{port} does not speak AMQP 0-9-1: {head!r}")
        greeting = _read(connection, size)
    # A table holds name and value with their lengths before them; S says that the value is a text.
    found = re.search(rb"\x07versionS\x00\x00\x00.([0-9][0-9.]*)", greeting, re.DOTALL)
    if found is None:
        raise ServerFailedError(f"the broker at {host}:{port} tells no version")
    return found[1].decode()


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the broker hung up during its greeting")
        data += part
    return data
