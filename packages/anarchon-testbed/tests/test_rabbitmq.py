"""
RabbitMQ from an unpacked folder: it starts, says what it is, does what it is told, and leaves nothing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import anarchon_testbed as testbed
from anarchon_testbed.amqp import ask_greeting

GREETING = b"\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x13\x07versionS\x00\x00\x00\x063.10.8"


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """
    Answer one connection with some bytes, and hang up; gives the port.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(8)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join()


def frame(payload: bytes) -> bytes:
    """
    Put a method into a frame of channel 0.
    """
    return b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce"


def test_a_greeting_tells_the_version() -> None:
    """
    The version stands in the broker's first message.
    """
    with saying(frame(GREETING)) as port:
        assert "3.10.8" == ask_greeting("127.0.0.1", port)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"HTTP/1.1 400 Bad\r\n", "does not speak AMQP"), (frame(b"\x00" * 20), "tells no version")],
)
def test_another_greeting_is_told(answer: bytes, words: str) -> None:
    """
    Whoever else listens there is no broker.
    """
    with saying(answer) as port, pytest.raises(testbed.ServerFailedError, match=words):
        ask_greeting("127.0.0.1", port)


def test_a_broker_that_hangs_up_is_not_ready() -> None:
    """
    A greeting that ends early is trouble with the connection, which may pass.
    """
    with saying(frame(GREETING)[:9]) as port, pytest.raises(ConnectionResetError):
        ask_greeting("127.0.0.1", port)


def answers(server: testbed.RabbitMQServer, *, timeout_ms: int = 20_000) -> bool:
    """
    Ask a broker for its greeting over a new connection.
    """
    try:
        return server.version == ask_greeting(server.host, server.port, timeout_ms=timeout_ms)
    except OSError:
        return False


@pytest.mark.slow
def test_a_broker_is_started_broken_and_mended() -> None:
    """
    Frozen it is silent, killed it refuses, and restarted it is the same node with its data.
    """
    with testbed.rabbitmq("4", own=True) as server:
        first = server.pid
        seen = [answers(server)]
        server.freeze()
        seen.append(answers(server, timeout_ms=100))
        server.thaw()
        seen.append(answers(server))
        server.evaluate('rabbit_vhost:add(<<"kept">>, <<"test">>)')
        server.kill_now()
        seen += [answers(server), server.pid is None]
        server.start_now()
        seen += [answers(server), server.pid not in {None, first}]
        node, kept = server.evaluate("node()"), server.evaluate('rabbit_vhost:exists(<<"kept">>)')
        with pytest.raises(testbed.ServerFailedError, match="could not evaluate 'no:such"):
            server.evaluate("no:such()")
        folder = server.folder

    assert [True, False, True, False, True, True, True] == seen
    assert (server.node, "true") == (node.strip("'"), kept)
    assert server.version.startswith("4.")
    assert not folder.exists()
    assert not answers(server)
