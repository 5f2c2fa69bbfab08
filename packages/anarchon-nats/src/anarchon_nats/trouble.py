"""
What went wrong, in the protocol's errors: which pass and which do not.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from nats import errors

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError

__all__ = [
    "CLIENT_ERRORS",
    "NO_MESSAGE",
    "NO_STREAM",
    "api_error",
    "client_error",
    "is_taken",
    "no_listener",
    "server_error",
]

CLIENT_ERRORS: Final = (errors.Error, OSError, EOFError, ssl.SSLError)
"""
What nats-py raises, also through the standard library.
"""

NO_MESSAGE: Final = 10037
NO_STREAM: Final = 10059

_STORE_FAILED: Final = 10077
_PER_SUBJECT: Final = "per subject"

# The server's own numbers of errors. Those that are not listed are refusals.
_MAY_PASS: Final = {
    10004: "the cluster is at work on something else",
    10005: "too few nodes of the cluster can be had",
    10007: "this node's JetStream is not in the cluster",
    10008: "JetStream is between two leaders, or too few nodes are there",
    10009: "the cluster has no leader at the moment",
    NO_STREAM: "somebody has deleted it; a scheduler that starts makes it",
    10040: "JetStream lacks memory at the moment",
    10118: "the stream is offline",
    10158: "the same message is on its way already",
    10194: "the stream is offline",
}
_ADVICE: Final = {
    10023: "the server's or the account's limits of JetStream are reached; nothing was changed, and room lifts it",
    10028: "free memory lifts it",
    10039: "turn JetStream on for this account, or name another user",
    10047: "the disk or max_file_store is full; nothing was changed, and room lifts it",
    10052: "this server and this stream do not fit together",
    10065: "another stream listens to the same subjects: give this service another prefix",
    10074: "this server is no cluster: leave replicas out",
    10076: "start the server with JetStream (-js, or a jetstream block in its configuration)",
    10122: "the account has too many streams",
    _STORE_FAILED: "the stream is full by limits of its own; nothing was changed, and room lifts it",
}

# Fragments of what a server says before it hangs up, or in place of an answer.
_REFUSED_WORDS: Final = {
    "authorization violation": "the server does not know this login",
    "authentication": "the login is no longer valid",
    "permissions violation": "this user may not do that; the documentation lists the subjects that are needed",
    "maximum connections exceeded": "the server or the account takes no more connections",
}


def is_taken(error: Mapping[str, Any]) -> bool:
    """
    Say whether a message was refused because its subject has one: the number alone does not tell.
    """
    return error.get("err_code") == _STORE_FAILED and _PER_SUBJECT in str(error.get("description"))


def api_error(error: Mapping[str, Any], where: str) -> BackendError:
    """
    Read an error that JetStream answers.
    """
    number = error.get("err_code")
    words = f"{where}: {error.get('description')} (JetStream's error {number})"
    if number in _MAY_PASS:
        return StoreUnavailableError(f"{words}; {_MAY_PASS[number]}")
    advice = _ADVICE.get(number or 0)
    return StoreRefusedError(words if advice is None else f"{words}; {advice}")


def no_listener(subject: str, where: str) -> BackendError:
    """
    Say what it means when nobody listens where a stream should.
    """
    reason = (
        "JetStream has no leader at the moment, or is not turned on for this account"
        if subject.startswith("$JS.")
        else "the stream has no leader at the moment, or somebody has deleted it; a scheduler that starts makes it"
    )
    msg = f"{where}: nobody answers on {subject}: {reason}"
    return StoreUnavailableError(msg)


def server_error(words: str, where: str) -> BackendError:
    """
    Read what a server says about a connection as a whole.
    """
    lowered = words.lower()
    for fragment, meaning in _REFUSED_WORDS.items():
        if fragment in lowered:
            return StoreRefusedError(f"{where}: {words}; {meaning}")
    return StoreUnavailableError(f"{where}: {words}")


def client_error(error: BaseException, where: str) -> BackendError:
    """
    Turn what the client raised into one of the protocol's errors.
    """
    words = str(error).strip().removeprefix("nats: ") or type(error).__name__
    cause: BaseException | None = error
    seen: list[BaseException] = []
    while (
        cause is not None and cause not in seen
    ):  # A cause may have been raised beside its effect.
        if isinstance(cause, ssl.SSLCertVerificationError):
            return StoreRefusedError(f"{where}: {words}; the server's certificate was refused")
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ssl.SSLError):
        return StoreRefusedError(f"{where}: {words}; TLS could not be agreed on")
    return server_error(words, where)
