"""
As much of the NATS protocol as it takes to ask a server one question.
"""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anarchon_testbed.errors import ServerFailedError

__all__ = ["NatsAddress", "ask_nats", "greet_nats"]

_INBOX = "_INBOX.anarchon-testbed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsAddress:
    """
    Where and how to reach a server; `ca` is a file, and asks for TLS.
    """

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    token: str | None = None
    ca: Path | None = None


def greet_nats(address: NatsAddress, *, log_in: bool = True, timeout_ms: int = 2000) -> str:
    """
    Log in, or only be greeted, and give the server's version.

    Raises ServerFailedError with the server's words, OSError where it cannot be reached in time.
    """
    if log_in:
        return _session(address, b"PING\r\n", timeout_ms, until=b"PONG")[0]
    with socket.create_connection((address.host, address.port), timeout_ms / 1000) as plain:
        return _version(_greeting(plain))


def ask_nats(
    address: NatsAddress, subject: str, body: object = None, *, timeout_ms: int = 5000
) -> Any:
    """
    Send one request, and give its answer, which is JSON; None where nobody listens on the subject.

    Raises ServerFailedError with the server's words, OSError where it cannot be reached in time.
    """
    payload = b"" if body is None else json.dumps(body).encode()
    words = b"SUB %s 1\r\nPUB %s %s %d\r\n%s\r\n" % (
        _INBOX.encode(),
        subject.encode(),
        _INBOX.encode(),
        len(payload),
        payload,
    )
    answer = _session(address, words, timeout_ms, until=b"MSG")[1]
    return json.loads(answer) if answer else None


def _session(
    address: NatsAddress, words: bytes, timeout_ms: int, *, until: bytes
) -> tuple[str, bytes]:
    plain = socket.create_connection((address.host, address.port), timeout_ms / 1000)
    with plain:
        version = _version(_greeting(plain))
        if address.ca is None:
            return version, _exchange(plain, address, words, until)
        context = ssl.create_default_context(cafile=str(address.ca))
        with context.wrap_socket(plain, server_hostname=address.host) as secret:
            return version, _exchange(secret, address, words, until)


def _exchange(connection: socket.socket, address: NatsAddress, words: bytes, until: bytes) -> bytes:
    login = {"user": address.user, "pass": address.password, "auth_token": address.token}
    options: dict[str, object] = {name: word for name, word in login.items() if word is not None}
    options |= {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    connection.sendall(b"CONNECT %s\r\n%s" % (json.dumps(options).encode(), words))
    with connection.makefile("rb") as file:
        while True:
            line = file.readline().strip()
            if not line:
                raise ConnectionResetError("the server closed the connection")
            kind = line.split(b" ", 1)[0]
            if kind == b"-ERR":
                raise ServerFailedError(line.partition(b" ")[2].decode())
            if kind in (b"MSG", b"HMSG"):
                data = file.read(int(line.split(b" ")[-1]) + 2)[:-2]
                return b"" if kind == b"HMSG" else data
            if kind == until:
                return b""


def _version(greeting: bytes) -> str:
    version: str = json.loads(greeting.partition(b" ")[2])["version"]
    return version


def _greeting(connection: socket.socket) -> bytes:
    """
    Read one line and no byte more: what comes after it may be secret.
    """
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := connection.recv(1)):
            raise ConnectionResetError("the server closed the connection")
        line += byte
    return line
