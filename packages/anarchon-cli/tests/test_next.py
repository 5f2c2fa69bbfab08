"""
`anarchon next` tells slots to come, of a scheduler or of a schedule written on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

Anarchon = Callable[..., Result]
Written = Callable[[str], str]

JOBS = """
from anarchon import Scheduler

scheduler = Scheduler("memory:", timezone="Asia/Tokyo")
scheduler.every("sync", "10s", lambda: None)
scheduler.cron("report", "0 8 * * *", lambda: None)
scheduler.once("past", 1_000, lambda: None)


class Mine:
    def next_slot(self, after_ms):
        raise LookupError("the calendar is closed")

    def last_slot(self, at_ms):
        return None


def with_a_broken_one():
    scheduler.job("mine", Mine(), lambda: None)
    return scheduler
"""


def test_a_change_of_the_clocks_is_shown(anarchon: Anarchon) -> None:
    """
    A cron expression is read in its zone: the slot in UTC moves when the clocks there do.
    """
    after = ("--after", "2026-03-28T00:00:00Z", "--count", "2")
    result = anarchon("next", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", *after)

    lines = [line.split() for line in result.stdout.splitlines()[1:]]

    assert ["01:30:00", "01:00:00"] == [line[-5] for line in lines]
    assert [["02:30:00", "+01:00"], ["03:00:00", "+02:00"]] == [line[-3:-1] for line in lines]
    assert ["Europe/Berlin"] * 2 == [line[-1] for line in lines]


def test_the_slot_is_the_store_s_number(anarchon: Anarchon) -> None:
    """
    As JSON, a slot is the integer that the store and the history know.
    """
    after = ("--after", "1970-01-01T00:00:25+00:00")
    result = anarchon(
        "next", "--every", "10s", "--count", "2", "--timezone", "UTC", "--json", *after
    )

    told = [json.loads(line) for line in result.stdout.splitlines()]

    assert [30_000, 40_000] == [entry["slot"] for entry in told]
    assert "1970-01-01T00:00:30.000+00:00" == told[0]["utc"]
    assert "1970-01-01 00:00:30 +00:00 UTC" == told[0]["local"]


def test_each_job_is_shown(anarchon: Anarchon, written: Written) -> None:
    """
    A cron job is shown by its own clocks, and a job without a slot to come says so.
    """
    result = anarchon("next", f"{written(JOBS)}:scheduler", "--count", "1")

    _, sync, report, past = result.stdout.splitlines()

    assert 0 == result.exit_code
    assert sync.startswith("sync ")
    assert report.endswith("08:00:00 +09:00 Asia/Tokyo")
    assert past.endswith("no slot to come")


def test_one_job_is_chosen(anarchon: Anarchon, written: Written) -> None:
    """
    --job keeps one job; a name that is not there gets the names that are.
    """
    target = f"{written(JOBS)}:scheduler"

    chosen = anarchon("next", target, "--job", "report", "--count", "4")
    unknown = anarchon("next", target, "--job", "rapport")

    assert [5, 4] == [len(chosen.stdout.splitlines()), chosen.stdout.count("report")]
    assert 2 == unknown.exit_code
    assert "no job 'rapport'; jobs there: sync, report, past" in unknown.stderr


def test_a_schedule_that_raises_hides_no_other(anarchon: Anarchon, written: Written) -> None:
    """
    The error of a user's own schedule stands in its row, and in the exit status.
    """
    result = anarchon("next", f"{written(JOBS)}:with_a_broken_one", "--count", "1")

    assert 1 == result.exit_code
    assert result.stdout.splitlines()[1].startswith("sync ")
    assert result.stdout.splitlines()[-1].endswith("error: LookupError: the calendar is closed")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "needs one of MODULE:SCHEDULER, --cron EXPRESSION and --every INTERVAL"),
        (("--cron", "* * * * *", "--every", "1s"), 2, "needs one of"),
        (("--every", "1s", "--job", "x"), 2, "--job names a job of a scheduler"),
        (("--every", "1s", "--after", "tomorrow"), 2, "--after 'tomorrow' is no instant"),
        (
            ("--every", "1s", "--after", "2027-01-01T00:00:00"),
            2,
            "write it as 2027-01-31T08:00:00Z",
        ),
        (("--every", "1ms"), 1, "must be at least 100ms"),
        (("--cron", "0 0 31 2 *"), 1, "31"),
        (("--cron", "* * * * *", "--timezone", "Europe/Berln"), 1, "Did you mean 'Europe/Berlin'"),
    ],
)
def test_what_cannot_be_is_said(
    anarchon: Anarchon, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """
    One line names what is wrong and what to write.
    """
    result = anarchon("next", *arguments)

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_a_wrong_zone_for_times_is_said_once(anarchon: Anarchon, written: Written) -> None:
    """
    A zone that only shows times is checked too, before any row is printed.
    """
    result = anarchon("next", f"{written(JOBS)}:scheduler", "--timezone", "Mars/Olympus")

    assert (1, "") == (result.exit_code, result.stdout)
    assert "Mars/Olympus" in result.stderr


def test_a_name_cannot_move_the_cursor(anarchon: Anarchon, written: Written) -> None:
    """
    Control characters are shown as escapes, and brackets stand as they are: a name is no markup.
    """
    code = "from anarchon import Scheduler\ns = Scheduler('memory:')\ns.every('[red]\\x1b[2J', '1s', print)\n"

    result = anarchon("next", f"{written(code)}:s", "--count", "1")

    assert r"[red]\x1b[2J  every 1s" in result.stdout
    assert "\x1b" not in result.stdout
