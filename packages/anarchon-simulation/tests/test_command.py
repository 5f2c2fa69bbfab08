"""
``python -m anarchon_simulation``.
"""

from __future__ import annotations

import pytest

from anarchon.protocol import claims
from anarchon_simulation.__main__ import main
from anarchon_simulation.clocks import START_MS
from anarchon_simulation.digest import Digest
from anarchon_simulation.trace import Trace, timeline


def test_replay_draws_the_timeline(capsys: pytest.CaptureFixture[str]) -> None:
    """
    A seed that holds is drawn too, and ends with 0.
    """
    status = main(["replay", "8", "--rows", "20"])
    printed = capsys.readouterr().out

    assert 0 == status
    assert "seed 8 (fifo)" in printed
    assert "every rule held" in printed
    assert "Plan(seed=8" in printed


def test_replay_of_a_failure_ends_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A broken rule is named with its instant, and the exit status says so.
    """
    monkeypatch.setattr(claims, "_close", lambda *_: ())

    status = main(["replay", "0"])

    assert 1 == status
    assert "broken: " in capsys.readouterr().out


@pytest.mark.slow
def test_sweep_counts_what_was_met(capsys: pytest.CaptureFixture[str]) -> None:
    """
    A sweep says what went wrong, which rows answered, and what is still unmet.
    """
    status = main(["sweep", "--seeds", "4", "--from", "100", "--processes", "1"])
    printed = capsys.readouterr().out

    assert 0 == status
    assert "claim: won, first" in printed
    assert "4 seeds (fifo)" in printed
    assert ": 0 failed" in printed


@pytest.mark.slow
def test_sweep_ends_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """
    What was done until then counts, and it is said that it was not all.
    """
    status = main(["sweep", "--seeds", "12", "--processes", "1", "--minutes", "0"])
    printed = capsys.readouterr().out

    assert 0 == status
    assert "stopped after 0 minutes, with 10 of 12 seeds" in printed
    assert "10 seeds (fifo)" in printed


def test_timeline_wraps_and_groups() -> None:
    """
    Things of one instant stand in one row; long ones are wrapped; columns without an entry are left out.
    """
    trace = Trace(Digest())
    trace.add(1_500_000, "a", "event", "claim j")
    trace.add(1_500_000, "b", "event", "skip j because it is done elsewhere")
    trace.add(2_000_000, "a", "event", "finish j")

    text = timeline(trace.entries, ["a", "b", "c"], width=12)

    assert [
        "      | a            | b",
        "------+--------------+-------------",
        "1.500 | claim j      | skip j",
        "      |              |   because it",
        "      |              |   is done",
        "      |              |   elsewhere",
        "2.000 | finish j     |",
    ] == text.splitlines()


def test_timeline_shows_dates() -> None:
    """
    With the beginning of the world given, rows carry dates.
    """
    trace = Trace(Digest())
    trace.add(61_000_000, "a", "event", "x")

    assert "2026-01-01 00:01:01.000 | x" in timeline(trace.entries, ["a"], start_ms=START_MS)
