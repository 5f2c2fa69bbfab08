"""
How long a call may go on, and how it waits for the file's one write lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from time import sleep
from typing import TypeVar

from anarchon.errors import StoreUnavailableError
from anarchon_sqlite.clock import monotonic_s
from anarchon_sqlite.trouble import is_busy

__all__ = ["BUSY_TIMEOUT_MS", "Ticket", "insist", "write_transaction"]

T = TypeVar("T")

BUSY_TIMEOUT_MS = 20
"""
How long SQLite itself waits for a lock before it lets us look at the deadline.

Its waits grow to 100 ms each and heed no interrupt; in slices of 20 ms they stay
short, which is also fairer among processes.
"""

_PAUSE_S = 0.002
_MARGIN_S = 0.025


class Ticket:
    """
    A call's right to go on: until its deadline, and while somebody waits for it.
    """

    __slots__ = ("_give_up_s", "abandoned", "ending", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        timeout_s = max(0, timeout_ms) / 1_000
        self.timeout_ms = timeout_ms
        self.abandoned = False
        self.ending = False
        # A little early, so that the caller hears from here what was in the way.
        self._give_up_s = monotonic_s() + timeout_s - min(_MARGIN_S, timeout_s / 5)

    @property
    def stops(self) -> bool:
        """
        Whether a statement that runs is to be stopped: all but a rollback, once nobody waits.
        """
        return self.abandoned and not self.ending

    def check(self, cause: BaseException | None = None) -> None:
        """
        End the call's work if its time is over.

        Raises:
            StoreUnavailableError: It is; the transaction is rolled back.
        """
        if self.abandoned or monotonic_s() >= self._give_up_s:
            why = (
                "the call's time was over"
                if cause is None
                else f"another connection kept the file locked: {cause}"
            )
            msg = f"SQLite did not do it within {self.timeout_ms} ms: {why}"
            raise StoreUnavailableError(msg) from cause


def insist(ticket: Ticket, attempt: Callable[[], T]) -> T:
    """
    Repeat *attempt* while somebody else holds the lock, until the ticket ends.

    Raises:
        StoreUnavailableError: The lock was held all the time.
    """
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            ticket.check(error)
            # SQLite has waited by itself most often, but not where it sees a deadlock.
            sleep(_PAUSE_S)


def write_transaction(raw: sqlite3.Connection, ticket: Ticket, body: Callable[[], T]) -> T:
    """
    Run *body* as one transaction that has the write lock from its beginning.

    A deferred transaction that reads first and writes then fails at once when
    somebody else wrote in between, whatever the busy timeout.
    """
    insist(ticket, lambda: raw.execute("BEGIN IMMEDIATE"))
    try:
        result = body()
        # A process that froze in here thaws with the lock still its own, but with a caller who has given up.
        ticket.check()
        raw.execute("COMMIT")
    except BaseException:
        ticket.ending = True
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    return result
