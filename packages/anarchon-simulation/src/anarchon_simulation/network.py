"""
The way between instances and the store: slow, lossy, cut, doubled.

A message is an event of the kernel's own, so that freezing or killing its sender does
not stop it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from anarchon.errors import StoreUnavailableError
from anarchon_simulation.faults import Cut, Hints, Lossy, Outage, Slow
from anarchon_simulation.kernel import Kernel

__all__ = ["Line", "Network", "Port"]


@dataclass(frozen=True, slots=True)
class Line:
    """
    A connection: whose, and which of its connections. The first one is 0, the handlers'.
    """

    instance: str
    connection: int


class Port(Protocol):
    """
    What stands between a backend and its store.
    """

    def send(self, line: Line, serve: Callable[[], Any], reply: Callable[[Any], None]) -> None:
        """
        Carry a request to the store, and what it answers back; each once, several times, or never.
        """

    def push(self, line: Line, deliver: Callable[[], None]) -> None:
        """
        Carry something that the store tells by itself.
        """


class Network:
    """
    A port with faults.

    Args:
        kernel: Carries messages as events.

        random: Throws the dice.

        delay_ms: How long a message travels, from and to.

        fired: Counts what really went wrong.
    """

    def __init__(
        self, kernel: Kernel, random: Random, *, delay_ms: tuple[int, int], fired: Counter[str]
    ) -> None:
        self._kernel = kernel
        self._random = random
        self._least_us, self._most_us = delay_ms[0] * 1_000, delay_ms[1] * 1_000
        self._fired = fired
        self._outages: list[Outage] = []
        self._cuts: list[Cut] = []
        self._slow: list[Slow] = []
        self._lossy: list[Lossy] = []
        self._hints: list[Hints] = []

    # What goes wrong, and for how long.

    def suffer(self, fault: Outage | Cut | Slow | Lossy | Hints) -> None:
        """
        Let something go wrong from now on, until its time is over.
        """
        active: Any = {
            Outage: self._outages,
            Cut: self._cuts,
            Slow: self._slow,
            Lossy: self._lossy,
            Hints: self._hints,
        }[type(fault)]
        active.append(fault)
        self._kernel.at(
            self._kernel.now_us + fault.duration_ms * 1_000, lambda: active.remove(fault)
        )

    # Messages.

    def send(self, line: Line, serve: Callable[[], Any], reply: Callable[[Any], None]) -> None:
        """
        Carry a request and its reply.
        """
        self._carry_request(line, serve, reply)
        if self._falls(sum(lossy.doubled for lossy in self._lossy)):
            self._fired["doubled"] += 1
            self._carry_request(line, serve, reply)

    def push(self, line: Line, deliver: Callable[[], None]) -> None:
        """
        Carry a hint, if nothing is wrong with the line.
        """
        if (
            self._outages
            or self._loses(line, "replies")
            or self._falls(sum(hints.lost for hints in self._hints))
        ):
            self._fired["hint: lost"] += 1
            return
        late_us = sum(hints.delay_ms for hints in self._hints) * 1_000
        if late_us:
            self._fired["hint: delayed"] += 1
            late_us = int(self._random.random() * late_us)
        self._fired["hint: told"] += 1
        self._kernel.after(self._delay_us(line) + late_us, deliver)

    def _carry_request(
        self, line: Line, serve: Callable[[], Any], reply: Callable[[Any], None]
    ) -> None:
        if self._loses(line, "requests"):
            return
        self._kernel.after(self._delay_us(line), lambda: self._arrive(line, serve, reply))

    def _arrive(self, line: Line, serve: Callable[[], Any], reply: Callable[[Any], None]) -> None:
        if self._outages:
            if all(outage.refuses for outage in self._outages):
                self._fired["outage: refused"] += 1
                error = StoreUnavailableError("connection refused")
                self._kernel.after(self._delay_us(line), lambda: reply(error))
            else:
                self._fired["outage: silent"] += 1
            return
        answer = serve()
        if not self._loses(line, "replies"):
            self._kernel.after(self._delay_us(line), lambda: reply(answer))

    def _loses(self, line: Line, what: str) -> bool:
        for cut in self._cuts:
            if cut.instance == line.instance and cut.lost == what and _hits(cut, line):
                self._fired[f"cut: {what}"] += 1
                return True
        percent = sum(
            lossy.requests_lost if what == "requests" else lossy.replies_lost
            for lossy in self._lossy
        )
        if self._falls(percent):
            self._fired[f"lossy: {what}"] += 1
            return True
        return False

    def _falls(self, percent: int) -> bool:
        return percent > 0 and self._random.random() * 100 < percent

    def _delay_us(self, line: Line) -> int:
        most_us = self._most_us
        for slow in self._slow:
            if slow.instance in (None, line.instance):
                self._fired["slow"] += 1
                most_us += slow.delay_ms * 1_000
        return self._least_us + int(self._random.random() * (most_us - self._least_us + 1))


def _hits(cut: Cut, line: Line) -> bool:
    return cut.connection == "all" or (cut.connection == "first") == (line.connection == 0)
