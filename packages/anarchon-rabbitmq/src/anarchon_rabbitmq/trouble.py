"""
The broker's errors in the protocol's words: what may pass, and what will not.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from aio_pika import exceptions
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelPreconditionFailed,
    ConnectionNotAllowed,
    ProbableAuthenticationError,
)

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError

__all__ = ["CLIENT_ERRORS", "client_errors", "store_error"]

CLIENT_ERRORS = (exceptions.AMQPError, OSError, EOFError, RuntimeError, ValueError)
"""
What the client raises about a broker and the way to it.
"""

_NOT_ALLOWED = 530
_ACCESS_REFUSED = 403


@contextmanager
def client_errors(where: str) -> Iterator[None]:
    """
    Turn what the client raises within into one of the protocol's errors.

    The client ends what waits for a connection that was lost with a CancelledError, at
    times; only one that somebody has asked for is one.

    Args:
        where: The broker in words.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StoreUnavailableError(f"{where}: the connection was lost") from error
    except CLIENT_ERRORS as error:
        raise store_error(error, where) from error


def store_error(error: BaseException, where: str) -> BackendError:
    """
    Turn what the client raised into one of the protocol's errors.

    Args:
        error: What was raised.

        where: The broker in words.
    """
    if isinstance(error, BackendError):
        return error
    words = _words(error)
    if isinstance(error, ProbableAuthenticationError | exceptions.AuthenticationError):
        return StoreRefusedError(f"{where}: {words}; the broker refused the login")
    if _refused_certificate(error):
        return StoreRefusedError(f"{where}: {words}; the broker's certificate was refused")
    code = _code(error)
    if code == _NOT_ALLOWED and "limit" not in words:
        return StoreRefusedError(
            f"{where}: {words}; make the virtual host, or give this user access to it"
        )
    if code == _ACCESS_REFUSED:
        return StoreRefusedError(
            f"{where}: {words}; this user needs the rights configure, write and read for the stream, and"
            " write for the default exchange"
        )
    if isinstance(error, ChannelPreconditionFailed) and "x-stream-offset" in words:
        return StoreRefusedError(
            f"{where}: {words}; the queue of that name is no stream: use another prefix"
        )
    # Such as a node that was down, which gets its copy of the stream some seconds after its return.
    return StoreUnavailableError(f"{where}: {words or type(error).__name__}")


def _words(error: BaseException) -> str:
    parts = [str(part) for part in error.args if part is not None and not isinstance(part, int)]
    return " ".join(parts).strip() or str(error).strip()


def _code(error: BaseException) -> int | None:
    if isinstance(error, ConnectionNotAllowed):
        return _NOT_ALLOWED
    if isinstance(error, ChannelAccessRefused):
        return _ACCESS_REFUSED
    first = error.args[0] if error.args else None
    return first if isinstance(error, exceptions.AMQPError) and isinstance(first, int) else None


def _refused_certificate(error: BaseException | None) -> bool:
    """
    Say whether the other side could not prove who it is: waiting does not cure that.
    """
    seen: list[BaseException] = []
    while (
        error is not None and error not in seen
    ):  # A cause may have been raised beside its effect.
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False
