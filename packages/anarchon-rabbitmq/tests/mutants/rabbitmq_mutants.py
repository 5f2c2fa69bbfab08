"""
Backends with one fault each in how they read the log.

A module of its own, so that the processes which the kit starts find them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from anarchon.backend import ClaimAnswer, Verdict
from anarchon_conformance.profile import BackendProfile
from anarchon_rabbitmq import RabbitMQBackend
from anarchon_rabbitmq.conformance import opener_for
from anarchon_rabbitmq.entries import ClaimEntry, Entry
from anarchon_rabbitmq.ledger import Ledger
from anarchon_rabbitmq.line import Line
from anarchon_rabbitmq.log import Log, Read


class SightedLedger(Ledger):
    """
    Believes that it has read everything.
    """

    def blind(self, written_ms: int) -> None:
        """
        Shut nothing.
        """


class NextLog(Log):
    """
    Reads what comes after it joined, and nothing of what was there.
    """

    async def _attach(self, line: Line) -> None:
        self._reading = line
        await line.follow("next")


class ReadsNext(RabbitMQBackend):
    """
    Joins the log at its end.
    """

    _log_class: ClassVar[type[Log]] = NextLog
    _ledger_class: ClassVar[type[Ledger]] = SightedLedger


class HastyLog(Log):
    """
    Takes it for a win that its message was sent.
    """

    async def append(self, entries: Sequence[Entry], *, deadline: float) -> Read:
        """
        Append, and look at nothing.
        """
        read = await super().append(entries, deadline=deadline)
        won = [ClaimAnswer(verdict=Verdict.WON) for each in entries if isinstance(each, ClaimEntry)]
        return Read(offset=read.offset, answers=won)


class CountsConfirms(RabbitMQBackend):
    """
    Wins by having asked.
    """

    _log_class: ClassVar[type[Log]] = HastyLog


sound = BackendProfile(name="sound", open=opener_for(RabbitMQBackend, "4"))
counts_confirms = BackendProfile(name="counts-confirms", open=opener_for(CountsConfirms, "4"))
