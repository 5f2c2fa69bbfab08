"""
Events to whoever listens, and to the log.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from anarchon.errors import InvalidOptionError
from anarchon.events import EVENT_TYPES, Event, FinishEvent
from anarchon.records import Status

__all__ = ["Listeners"]

logger = logging.getLogger("anarchon")

# What is not listed here is logged where it happens, in words of its own.
_LEVELS = {
    "scheduler_started": logging.INFO,
    "scheduler_stopped": logging.INFO,
    "claim": logging.DEBUG,
    "start": logging.DEBUG,
    "finish": logging.DEBUG,
    "skip": logging.DEBUG,
    "takeover": logging.INFO,
    "handover": logging.INFO,
    "lost": logging.WARNING,
}


class Listeners:
    """
    The callbacks of a scheduler. What they raise is logged, not passed on.
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callable[[Any], object]]] = {}

    def add(self, event_type: str, callback: Callable[[Any], object]) -> None:
        """
        Call *callback* with each event of that type.

        Raises:
            InvalidOptionError: There is no such type, or the callback is no plain function.
        """
        if event_type not in EVENT_TYPES:
            msg = f"there is no event type {event_type!r}; the types are {', '.join(sorted(EVENT_TYPES))}"
            raise InvalidOptionError(msg)
        given: object = callback  # callers without a type checker hand in anything
        if not callable(given) or inspect.iscoroutinefunction(callback):
            msg = (
                f"a callback for {event_type!r} is a plain function of one event; got {callback!r}"
            )
            raise InvalidOptionError(msg)
        self._callbacks.setdefault(event_type, []).append(callback)

    def tell(self, event: Event) -> None:
        """
        Log the event, and call whoever listens.
        """
        level = _LEVELS.get(event.type)
        if level is not None and logger.isEnabledFor(level):
            _log(level, event)
        for callback in self._callbacks.get(event.type, ()):
            try:
                callback(event)
            except Exception:
                logger.exception("a callback for %r raised", event.type)


def _log(level: int, event: Event) -> None:
    job, slot = getattr(event, "job", None), getattr(event, "slot", None)
    attempt, reason = getattr(event, "attempt", None), getattr(event, "reason", None)
    words = [event.type]
    if job is not None:
        words.append(f"job {job!r}")
    if slot is not None:
        words.append(f"slot {slot}, attempt {attempt}")
    if isinstance(event, FinishEvent) and event.status is not Status.SUCCESS:
        words.append(event.status)
    if reason is not None:
        words.append(str(reason))
    extra = {"job": job, "slot": slot, "attempt": attempt, "instance": event.instance}
    logger.log(level, ": ".join(words), extra=extra)
