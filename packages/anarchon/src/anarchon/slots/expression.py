"""
The gate in front of the cron parser: which expressions are allowed.

A parser of cron expressions accepts much that means something else elsewhere,
or something else on each machine. What passes here reads the same everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from anarchon.errors import InvalidScheduleError

__all__ = ["checked_fields"]

_LENGTH_MAX: Final = 1_024

_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Field:
    """
    One field: what it is called, and what it may hold.
    """

    name: str
    low: int
    high: int
    size: int
    more: str = ""
    names: dict[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        return (
            f"{self.low} to {self.high}{self.more}, with lists (1,2), ranges (1-5) and steps (*/2)"
        )


_SECOND: Final = _Field(name="second", low=0, high=59, size=60)
_MINUTE: Final = _Field(name="minute", low=0, high=59, size=60)
_HOUR: Final = _Field(name="hour", low=0, high=23, size=24)
_MONTH_DAY: Final = _Field(
    name="day of month", low=1, high=31, size=31, more=", L for the last day, ? for any"
)
_MONTH: Final = _Field(
    name="month",
    low=1,
    high=12,
    size=12,
    more=" or jan to dec",
    names={name: number for number, name in enumerate(_MONTHS, 1)},
)
_WEEKDAY: Final = _Field(
    name="day of week",
    low=0,
    high=7,
    size=7,
    more=" (0 and 7 are Sunday) or sun to sat, fri#2 for the second Friday, L5 for the last one, ? for any",
    names={name: number for number, name in enumerate(_WEEKDAYS)},
)
_FIELDS: Final = (_MINUTE, _HOUR, _MONTH_DAY, _MONTH, _WEEKDAY)

_STAR: Final = re.compile(r"\*(?:/([0-9]{1,2}))?")
_VALUES: Final = re.compile(r"([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?(?:/([0-9]{1,2}))?")
_NTH: Final = re.compile(r"([0-7]|[a-z]{3})#([1-5])")
_LAST_WEEKDAY: Final = re.compile(r"l([0-7])")


class _RefusedError(Exception):
    """
    Carries the reason out of the term to where the whole expression is known.
    """


def checked_fields(expression: str) -> list[str]:
    """
    Return the fields of an expression, in numbers, if every machine reads them alike.

    There are five, minute first, or six, second first.

    Raises:
        InvalidScheduleError: The expression is not allowed; the message names
            the field, and what may stand there.
    """
    text = expression.strip()
    if not text.isascii() or len(text) > _LENGTH_MAX:
        raise InvalidScheduleError(
            f"The cron expression {_shown(expression)} must be at most {_LENGTH_MAX} ASCII characters.",
        )
    if text.startswith("@"):
        if text not in _ALIASES:
            raise InvalidScheduleError(
                f"The cron expression {_shown(expression)} is no known alias. Allowed are {', '.join(_ALIASES)}.",
            )
        text = _ALIASES[text]
    fields = text.split()
    if len(fields) not in {5, 6}:
        raise InvalidScheduleError(
            f"The cron expression {_shown(expression)} must have five fields (minute, hour, day of month, month, "
            f"day of week) or six (second first), not {len(fields)}. There is no field for the year.",
        )
    rules = _FIELDS if len(fields) == 5 else (_SECOND, *_FIELDS)
    return [_checked(field, rule, expression) for field, rule in zip(fields, rules, strict=True)]


def _checked(text: str, rule: _Field, expression: str) -> str:
    try:
        if text == "?" and rule in {_MONTH_DAY, _WEEKDAY}:
            return "*"
        terms = [_term(term, rule) for term in text.split(",")]
        _refuse_mixture(text, terms, rule)
    except _RefusedError as error:
        raise InvalidScheduleError(
            f"The cron expression {_shown(expression)} is not allowed: in the {rule.name} field, {error}. "
            f"Allowed are {rule.allowed}.",
        ) from None
    return ",".join(terms)


def _refuse_mixture(text: str, terms: list[str], rule: _Field) -> None:
    picked = sum("#" in term or "l" in term for term in terms)
    if rule is _WEEKDAY and picked not in {0, len(terms)}:
        raise _RefusedError(f"{_shown(text)} mixes plain weekdays with # or L")


def _term(term: str, rule: _Field) -> str:
    text = term.lower()
    star = _STAR.fullmatch(text)
    if star:
        return f"*{_step(star[1], term, rule)}"
    if text == "l" and rule is _MONTH_DAY:
        return text
    if rule is _WEEKDAY:
        nth = _NTH.fullmatch(text)
        if nth:
            return f"{_value(nth[1], term, rule)}#{nth[2]}"
        if _LAST_WEEKDAY.fullmatch(text):
            return text
    values = _VALUES.fullmatch(text)
    if values is None:
        raise _RefusedError(f"{_shown(term)} cannot be read")
    first, step = _value(values[1], term, rule), _step(values[3], term, rule)
    if values[2] is None:
        if step and rule is _WEEKDAY and first == 7:
            raise _RefusedError(
                f"{_shown(term)} is read in two ways; steps from Sunday are written 0/n"
            )
        return f"{first}{step}"
    last = _value(values[2], term, rule)
    if first >= last:
        sunday = " (at its end, Sunday is 7)" if rule is _WEEKDAY else ""
        raise _RefusedError(f"the range {_shown(term)} must rise{sunday}")
    return f"{first}-{last}{step}"


def _value(text: str, term: str, rule: _Field) -> int:
    if text in rule.names:
        return rule.names[text]
    if not text.isdigit():
        raise _RefusedError(f"{_shown(term)} has an unknown name")
    if not rule.low <= int(text) <= rule.high:
        raise _RefusedError(f"{_shown(term)} is out of bounds")
    return int(text)


def _step(text: str | None, term: str, rule: _Field) -> str:
    if text is None:
        return ""
    if not 1 <= int(text) <= rule.size:
        raise _RefusedError(f"the step of {_shown(term)} must be from 1 to {rule.size}")
    return f"/{int(text)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
