"""
Redis's errors in the protocol's words: what may pass, and what will not.
"""

from __future__ import annotations

import re
import ssl

from redis import exceptions

from anarchon.errors import (
    BackendError,
    RequestError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)

__all__ = ["CLIENT_ERRORS", "item_error", "store_error", "told_error"]

CLIENT_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError, EOFError)
"""
What redis-py raises about a server and the way to it.
"""

# The first word of what the server says, and what it means to a user. These concern the
# server or the login as a whole, whichever item met them first.
_REFUSED = {
    "ACL": "this user may not do that; the documentation lists the commands, keys and channels that are needed",
    "DENIED": "the server runs in protected mode",
    "IDMPSETTINGS": "all instances must be given the same claim_memory_ms; nothing was changed",
    "MISCONF": "the server cannot write its snapshot, and takes no writes until it can",
    "MOVED": "this server is a node of a Redis Cluster; say cluster=True (in a URL: ?cluster=true)",
    "NOAUTH": "the server wants a login",
    "NOPERM": "this user may not do that; the documentation lists the commands, keys and channels that are needed",
    "OOM": "the server's memory is full (maxmemory); nothing was changed, and free memory lifts it",
    "READONLY": "this server is a replica; name the primary, or let Sentinel find it",
    "WRONGPASS": "the server knows no such user and password",
}
_MAY_PASS = {
    "BUSY": "the server is busy with somebody's script",
    "CLUSTERDOWN": "the cluster has no primary for these keys at the moment",
    "LOADING": "the server is reading its data, and answers when it has",
    "MASTERDOWN": "the replica has lost its primary",
    "NOREPLICAS": "the server has too few replicas at the moment (min-replicas-to-write)",
    "TRYAGAIN": "the cluster is moving these keys",
    "UNKILLABLE": "the server is busy with somebody's script",
}


def store_error(error: BaseException, where: str) -> BackendError:
    """
    Turn what the client raised into one of the protocol's errors.

    Args:
        error: What was raised.

        where: The server in words.
    """
    if isinstance(error, exceptions.RedisClusterException) and error.__cause__ is not None:
        # Why the map of a Cluster could not be had says more than that it could not.
        return store_error(error.__cause__, where)
    words = str(error).strip() or type(error).__name__
    if _NO_CLUSTER.search(words):
        msg = f"{where}: {words}; this server is no node of a Redis Cluster: say cluster=False"
        return StoreRefusedError(msg)
    told = told_error(_with_code(error, words), where)
    if told is not None:
        return told
    if _refused_certificate(error):
        return StoreRefusedError(f"{where}: {words}; the server's certificate was refused")
    if isinstance(
        error,
        exceptions.ConnectionError
        | exceptions.TimeoutError
        | exceptions.RedisClusterException
        | exceptions.ClusterError
        | OSError
        | EOFError
        | TimeoutError,
    ):
        return StoreUnavailableError(f"{where}: {words}")
    if "unknown command" in words.lower() and "HELLO" in words.upper():
        return ServerTooOldError(f"{where}: {words}; Redis 7.0 or newer is needed")
    return StoreRefusedError(f"{where}: {words}")


def told_error(words: str, where: str) -> BackendError | None:
    """
    Read what a server says about itself or the login; None if it is something else.
    """
    code = words.lstrip("-").split(" ", 1)[0].rstrip(":")
    if code in _REFUSED:
        return StoreRefusedError(f"{where}: {words}; {_REFUSED[code]}")
    if code in _MAY_PASS:
        return StoreUnavailableError(f"{where}: {words}; {_MAY_PASS[code]}")
    return None


def item_error(words: str, job: str, where: str) -> BackendError:
    """
    Read an error that stands in an item's place.

    Returns:
        A RequestError that concerns this item alone, or another error that
        concerns the whole call.
    """
    return told_error(words, where) or RequestError(f"job {job!r}: {words}")


_NO_CLUSTER = re.compile("cluster support disabled|Cluster mode is not enabled")

# The client cuts the code off when it has a class of its own for it.
_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MasterDownError, "MASTERDOWN"),  # A kind of the next one.
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.AuthenticationError, "NOAUTH"),
)


def _with_code(error: BaseException, words: str) -> str:
    for kind, code in _CODES:
        if isinstance(error, kind) and not words.startswith(code):
            # It has one class for both kinds of a refused login.
            wrong = code == "NOAUTH" and "password" in words and "must be called" not in words
            return f"{'WRONGPASS' if wrong else code} {words}"
    return words


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
