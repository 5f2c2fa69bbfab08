"""
As much of the Redis protocol as it takes to ask a server whether it is ready, over TCP, TLS or a Unix socket.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["Address", "RespError", "ask"]


class RespError(Exception):
    """
    The server answered with an error; the text is its own.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    Where and how to reach a server. A Unix socket goes before host and port; `ca` is a file, and asks for TLS.
    """

    host: str
    port: int
    unix: Path | None = None
    user: str | None = None
    password: str | None = None
    ca: Path | None = None


def ask(address: Address, *commands: tuple[str, ...], timeout_ms: int = 2000) -> list[Any]:
    """
    Send commands over a new connection and give their answers: bytes, integers, None, and lists of them.

    Raises RespError for the first error that the server answers, OSError where it cannot be reached in time.
    """
    with _connection(address, timeout_ms) as (connection, file):
        answers = []
        if address.password is not None:
            user = (address.user,) if address.user else ()
            commands = (("AUTH", *user, address.password), *commands)
        for command in commands:
            words = [word.encode() for word in command]
            parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
            connection.sendall(b"*%d\r\n%s" % (len(words), b"".join(parts)))
            answers.append(_read(file))
    return answers[1:] if address.password is not None else answers


@contextmanager
def _connection(address: Address, timeout_ms: int) -> Iterator[tuple[socket.socket, BinaryIO]]:
    seconds = timeout_ms / 1000
    if address.unix is not None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(seconds)
        try:
            connection.connect(str(address.unix))
        except BaseException:
            connection.close()
            raise
    else:
        connection = socket.create_connection((address.host, address.port), seconds)
    with connection:
        if address.ca is None:
            with connection.makefile("rb") as file:
                yield connection, file
            return
        context = ssl.create_default_context(cafile=str(address.ca))
        with (
            context.wrap_socket(connection, server_hostname=address.host) as secured,
            secured.makefile("rb") as file,
        ):
            yield secured, file


def _read(file: BinaryIO) -> Any:
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest
    if kind == b"-":
        raise RespError(rest.decode(errors="replace"))
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return None if rest == b"-1" else [_read(file) for _ in range(int(rest))]
    raise RespError(f"an answer that starts with {kind!r}")
