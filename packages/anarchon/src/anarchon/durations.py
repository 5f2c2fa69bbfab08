"""
Durations: what users write, and whole milliseconds.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from anarchon.errors import InvalidDurationError

__all__ = ["DURATION_MS_MAX", "Duration", "duration_ms", "format_ms"]

Duration: TypeAlias = timedelta | str | int | float
"""
What a user may write for a duration; a bare number is seconds.
"""

DURATION_MS_MAX: Final = 36_525 * 86_400_000
"""
The longest duration: a hundred years, so that no sum of instants overflows.
"""

_UNITS_MS: Final = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}

# The order of the groups makes a text descend through the units and name each at most once.
_TEXT: Final = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in _UNITS_MS))

# A longer text names no duration that is allowed, and digits beyond count cost time to convert.
_TEXT_LENGTH_MAX: Final = 64

_FORMS: Final = (
    "Write a timedelta, a number of seconds, or a text such as '250ms', '10s', '1.5h' or '1h30m' "
    "(units w, d, h, m, s, ms, largest first)"
)


def duration_ms(value: Duration, *, what: str, minimum_ms: int = 1) -> int:
    """
    Say how many whole milliseconds a duration has.

    Nothing is rounded: what is no whole number of milliseconds is refused, as
    is everything below *minimum_ms* or above a hundred years.

    Args:
        value: A timedelta, a text, or a number of seconds.

        what: What the duration is for, as the error message names it.

        minimum_ms: The shortest duration that is allowed; 0 allows none at all.

    Raises:
        InvalidDurationError: The value is unreadable or not allowed.
    """
    result_ms = _exact_ms(value, what)
    if result_ms < minimum_ms:
        raise InvalidDurationError(
            f"{what} must be at least {format_ms(minimum_ms)}, not {_shown(value)}. {_FORMS}.",
        )
    if result_ms > DURATION_MS_MAX:
        raise InvalidDurationError(
            f"{what} must be at most a hundred years (36525d), not {_shown(value)}. {_FORMS}."
        )
    return result_ms


def format_ms(duration_ms: int) -> str:
    """
    Write a duration as a user would: "1h30m", "250ms", "0s".

    A duration from zero up reads back as the same number of milliseconds.
    """
    sign, rest_ms = ("-", -duration_ms) if duration_ms < 0 else ("", duration_ms)
    parts = []
    for unit, unit_ms in _UNITS_MS.items():
        count, rest_ms = divmod(rest_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return sign + ("".join(parts) or "0s")


def _exact_ms(value: object, what: str) -> int:
    if isinstance(value, timedelta):
        return _timedelta_ms(value, what)
    if isinstance(value, str):
        return _text_ms(value, what)
    # True is an int to Python, and surely a slip of the pen to whoever reads it here.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _seconds_ms(value, what)
    raise InvalidDurationError(f"{what} must be a duration, not {_shown(value)}. {_FORMS}.")


def _timedelta_ms(value: timedelta, what: str) -> int:
    rest_us = value.microseconds
    if rest_us % 1000:
        raise _not_whole(value, what)
    return (value.days * 86_400 + value.seconds) * 1000 + rest_us // 1000


def _text_ms(value: str, what: str) -> int:
    text = value.strip()
    amount = text.removeprefix("-")
    match = _TEXT.fullmatch(amount) if amount and len(text) <= _TEXT_LENGTH_MAX else None
    if match is None:
        raise InvalidDurationError(f"{what} must be a duration, not {_shown(value)}. {_FORMS}.")
    total_ms = 0
    for number, unit_ms in zip(match.groups(), _UNITS_MS.values(), strict=True):
        if number is None:
            continue
        # Integers keep every digit, which binary fractions and a bounded decimal context would not.
        whole, _, fraction = number.partition(".")
        part_ms, lost = divmod(int(whole + fraction) * unit_ms, 10 ** len(fraction))
        if lost:
            raise _not_whole(value, what)
        total_ms += part_ms
    return -total_ms if text.startswith("-") else total_ms


def _seconds_ms(value: float, what: str) -> int:
    if isinstance(value, int):
        return value * 1000
    if not math.isfinite(value):
        raise InvalidDurationError(
            f"{what} must be a finite duration, not {_shown(value)}. {_FORMS}."
        )
    # The shortest text that reads back as the float is what the user wrote; its binary value is not.
    exact_ms = Decimal(repr(float(value))) * 1000
    if exact_ms != exact_ms.to_integral_value():
        raise _not_whole(value, what)
    return int(exact_ms)


def _not_whole(value: object, what: str) -> InvalidDurationError:
    return InvalidDurationError(
        f"{what} must be a whole number of milliseconds, not {_shown(value)}. {_FORMS}."
    )


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        # An int of many thousand digits cannot be turned into a text at all.
        return str(value) if abs(value) <= DURATION_MS_MAX else "a number beyond all bounds"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
