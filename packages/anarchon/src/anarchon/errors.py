"""
Every error that anarchon raises.

Three families: wrong use, which the message explains together with the way
out; trouble with the store, whose cause is chained; and bugs of ours.
"""

from __future__ import annotations

__all__ = [
    "AnarchonError",
    "BackendError",
    "BackendStateError",
    "DefinitionError",
    "DuplicateJobError",
    "HandOver",
    "InternalError",
    "InvalidDurationError",
    "InvalidJobError",
    "InvalidOptionError",
    "InvalidScheduleError",
    "LeaseLostError",
    "ProtocolVersionError",
    "RequestError",
    "SchedulerStateError",
    "ServerTooOldError",
    "StoreRefusedError",
    "StoreUnavailableError",
    "UnknownBackendError",
    "UnsupportedByBackendError",
]


class AnarchonError(Exception):
    """
    Be the root of every error that anarchon raises.
    """


class DefinitionError(AnarchonError, ValueError):
    """
    Something that the user wrote cannot mean anything.

    Raised by constructors and where a job is defined, never later.
    """


class InvalidDurationError(DefinitionError):
    """
    A duration is unreadable, zero, negative, or no whole number of milliseconds.
    """


class InvalidScheduleError(DefinitionError):
    """
    A schedule is unreadable, impossible, or names an unknown time zone.
    """


class InvalidJobError(DefinitionError):
    """
    A job's name or handler cannot be used.
    """


class DuplicateJobError(InvalidJobError):
    """
    Two jobs of one scheduler carry the same name.
    """


class InvalidOptionError(DefinitionError):
    """
    An option has a value that is not allowed.
    """


class UnsupportedByBackendError(DefinitionError):
    """
    An option needs something that the backend does not offer.
    """


class UnknownBackendError(DefinitionError):
    """
    No installed distribution serves the scheme of a backend URL.
    """


class SchedulerStateError(AnarchonError, RuntimeError):
    """
    A call does not fit the scheduler's state: a second start, say.
    """


class BackendError(AnarchonError):
    """
    Be the root of all trouble with a store.
    """


class StoreUnavailableError(BackendError):
    """
    The store did not answer in time, or the connection broke.

    The outcome of the call is unknown: it may have happened or not.
    """


class StoreRefusedError(BackendError):
    """
    The store answered with a refusal: a login, a right, a full disk.

    Nothing was changed. The message carries the store's own words.
    """


class ServerTooOldError(BackendError):
    """
    The server is too old for what was asked of it.

    The message names the version that was found and the one that is needed.
    """


class ProtocolVersionError(BackendError):
    """
    A backend, or the data in a store, speaks another version of the protocol.
    """


class BackendStateError(BackendError):
    """
    A backend was opened twice, or used before open() or after close().
    """


class RequestError(BackendError):
    """
    One item of a batch could not be served; its neighbours were.

    Nothing was changed for this item.
    """


class LeaseLostError(AnarchonError):
    """
    The run is no longer this instance's: ctx.check() raises it.
    """


class HandOver(AnarchonError):  # noqa: N818 - a signal that users raise, not a failure
    """
    Raise it in a handler to release the run for another instance.

    The attempt is recorded as interrupted (handed over), and a backup starts
    the next one.
    """


class InternalError(AnarchonError):
    """
    A bug in anarchon: please report it with the message and the traceback.
    """
