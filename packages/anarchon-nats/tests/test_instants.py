"""
The server's clock, between two looks at it.
"""

from __future__ import annotations

import pytest

from anarchon_nats.instants import ServerTime, instant_ms


class Watch:
    """
    A clock that a test moves.
    """

    def __init__(self) -> None:
        self.now_ms = 5_000

    def suspend_ms(self) -> int:
        """
        Tell what was set.
        """
        return self.now_ms

    def wall_ms(self) -> int:
        """
        Be of no use: the instance's own wall clock must not count.
        """
        raise AssertionError("an instance's wall clock judges nothing")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30T18:12:58.979780386Z", 1796062378979),
        ("2026-11-30T18:12:58.9Z", 1796062378900),
        ("2026-11-30T18:12:58Z", 1796062378000),
        ("1970-01-01T00:00:00.001Z", 1),
    ],
)
def test_instants_are_read_to_the_millisecond(text: str, expected: int) -> None:
    """
    The server leaves zeros out at the end, and writes nine digits otherwise.
    """
    assert expected == instant_ms(text)


def test_time_goes_on_between_two_looks() -> None:
    """
    What the server said, and what has passed since by a clock that counts sleep.
    """
    watch = Watch()
    time = ServerTime(watch)
    time.heard("1970-01-01T00:01:00Z", 1)
    watch.now_ms += 1_234

    assert 61_234 == time.now_ms()


def test_it_is_looked_at_again_after_a_while_and_on_another_connection() -> None:
    """
    A clock that was set, or another server's, counts within a minute.
    """
    watch = Watch()
    time = ServerTime(watch)
    told = [time.stale(1)]
    time.heard("1970-01-01T00:01:00Z", 1)
    told += [time.stale(1), time.stale(2)]
    watch.now_ms += 60_001
    told.append(time.stale(1))

    assert [True, False, True, True] == told
