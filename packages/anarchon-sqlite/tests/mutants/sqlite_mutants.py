"""
Backends with one fault each, of the kinds that only several connections show.

A module of its own, so that the processes which the kit starts find them by name.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import fields
from typing import ClassVar, TypeVar

from anarchon.protocol import Now
from anarchon_conformance.profile import BackendProfile
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.batch import Tables
from anarchon_sqlite.conformance import opener_for
from anarchon_sqlite.transaction import Ticket, insist

T = TypeVar("T")


class SplitTables(Tables):
    """
    Checks in one transaction and writes in others: each statement is one of its own.
    """

    def write(self, raw: sqlite3.Connection, ticket: Ticket, body: Callable[[], T]) -> T:
        """
        Run *body* without a transaction around it.
        """
        return insist(ticket, body)


class DeferredTables(Tables):
    """
    Takes the write lock only when it writes, having read before.
    """

    def write(self, raw: sqlite3.Connection, ticket: Ticket, body: Callable[[], T]) -> T:
        """
        Run *body* in a transaction that begins by reading.
        """
        raw.execute("BEGIN")
        try:
            result = body()
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise
        return result


class CallersClockTables(Tables):
    """
    Judges by the clock of whoever asks.
    """

    def now(self, raw: sqlite3.Connection) -> Now:
        """
        Read the wall clock in Python.
        """
        now = super().now(raw)
        return Now(time.time_ns() // 1_000_000, now.lease_ms, now.lease_clock)


class Mutant(SqliteBackend):
    """
    A backend with other tables.
    """

    tables_class: ClassVar[type[Tables]] = Tables

    async def open(self, *, timeout_ms: int) -> None:
        """
        Open, and put the fault in.
        """
        await super().open(timeout_ms=timeout_ms)
        _, tables = self._opened()
        self._tables = self.tables_class(
            **{field.name: getattr(tables, field.name) for field in fields(Tables)}
        )


class Split(Mutant):
    """
    See SplitTables.
    """

    tables_class: ClassVar[type[Tables]] = SplitTables


class Deferred(Mutant):
    """
    See DeferredTables.
    """

    tables_class: ClassVar[type[Tables]] = DeferredTables


class CallersClock(Mutant):
    """
    See CallersClockTables.
    """

    tables_class: ClassVar[type[Tables]] = CallersClockTables


sound = BackendProfile(name="sound", open=opener_for(Mutant))
split = BackendProfile(name="split", open=opener_for(Split))
deferred = BackendProfile(name="deferred", open=opener_for(Deferred))
callers_clock = BackendProfile(name="callers-clock", open=opener_for(CallersClock))
