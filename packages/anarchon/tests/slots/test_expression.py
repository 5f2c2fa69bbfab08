"""
The gate: what may be written in a cron expression, and how what may not is refused.
"""

from __future__ import annotations

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots.expression import checked_fields


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 8 * * *", "0 8 * * *"),
        ("  0\t8 *  * * ", "0 8 * * *"),
        ("08 08 * * *", "8 8 * * *"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("*/5 1-5/2 L jan-MAR Mon", "*/5 1-5/2 l 1-3 1"),
        ("0 0 1,15,l * *", "0 0 1,15,l * *"),
        ("5/15 * * * 5-7", "5/15 * * * 5-7"),
        ("0 0 * * fri#2,L0", "0 0 * * 5#2,l0"),
        ("*/10 * * * * *", "*/10 * * * * *"),
        ("*/60 */24 */31 */12 */7", "*/60 */24 */31 */12 */7"),
        ("@hourly", "0 * * * *"),
        ("@midnight ", "0 0 * * *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_allowed(expression: str, expected: str) -> None:
    """
    Names become numbers and `?` becomes `*`, so that the parser sees one way to write it.
    """
    assert expected == " ".join(checked_fields(expression))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("61 * * * *", "in the minute field, '61' is out of bounds. Allowed are 0 to 59"),
        ("* 24 * * *", "in the hour field, '24' is out of bounds. Allowed are 0 to 23"),
        ("99 * * * * *", "in the second field, '99' is out of bounds"),
        (
            "* * 1-32 * *",
            "in the day of month field, '1-32' is out of bounds. Allowed are 1 to 31, L for the last",
        ),
        (
            "* * * foo *",
            "in the month field, 'foo' has an unknown name. Allowed are 1 to 12 or jan to dec",
        ),
        ("* * * mon *", "in the month field, 'mon' has an unknown name"),
        (
            "* * * * jan",
            "in the day of week field, 'jan' has an unknown name. Allowed are 0 to 7 (0 and 7 are Sunday)",
        ),
        ("* * * * foo#1", "in the day of week field, 'foo#1' has an unknown name"),
        ("* * * * 8", "in the day of week field, '8' is out of bounds"),
        ("* * * * mon#6", "in the day of week field, 'mon#6' cannot be read"),
        ("* * * * L8", "in the day of week field, 'L8' cannot be read"),
        ("* * * * 1,2#2", "in the day of week field, '1,2#2' mixes plain weekdays with # or L"),
        ("* * * * *,L5", "in the day of week field, '*,L5' mixes plain weekdays with # or L"),
        (
            "* * * * 7/2",
            "in the day of week field, '7/2' is read in two ways; steps from Sunday are written 0/n",
        ),
        (
            "* * * * fri-sun",
            "in the day of week field, the range 'fri-sun' must rise (at its end, Sunday is 7)",
        ),
        ("* 5-5 * * *", "in the hour field, the range '5-5' must rise. Allowed"),
        ("*/61 * * * *", "in the minute field, the step of '*/61' must be from 1 to 60"),
        ("1-5/0 * * * *", "in the minute field, the step of '1-5/0' must be from 1 to 60"),
        ("L * * * *", "in the minute field, 'L' cannot be read"),
        ("* * 15W * *", "in the day of month field, '15W' cannot be read"),
        ("* * ?,1 * *", "in the day of month field, '?' cannot be read"),
        ("R * * * *", "in the minute field, 'R' cannot be read"),
        ("H H * * *", "in the minute field, 'H' cannot be read"),
        ("100 * * * *", "in the minute field, '100' cannot be read"),
        ("1,,2 * * * *", "in the minute field, '' cannot be read"),
        (
            "* * * *",
            "must have five fields (minute, hour, day of month, month, day of week) or six",
        ),
        ("* * * * * * 2030", "There is no field for the year"),
        ("@daily x", "is no known alias. Allowed are @hourly, @daily"),
        ("@DAILY", "is no known alias"),
        ("\u0663 * * * *", "must be at most 1024 ASCII characters"),
        ("0,0" + ",0" * 600 + " * * * *", "must be at most 1024 ASCII characters"),
    ],
)
def test_refused(expression: str, words: str) -> None:
    """
    The message names the expression, the field, what is wrong, and what is allowed.
    """
    with pytest.raises(InvalidScheduleError) as caught:
        checked_fields(expression)

    message = str(caught.value)
    assert words in message
    assert repr(expression)[:77] in message
    assert len(message) < 500
