"""
What clocks and jobs say about an installation.
"""

from __future__ import annotations

import dataclasses
import json

import pytest

from anarchon import Scheduler
from anarchon.backend import RunView
from anarchon.job import Job
from anarchon.operating import Finding, KnownJob, Severity
from anarchon.slots.facts import zone_digests_of
from anarchon_cli.checks import ClockSample, check_clock, check_jobs, check_runs, check_zones

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def job(name: str = "hourly", *, timezone: str = "Europe/Berlin") -> Job:
    """
    Make a job with a slot every hour.
    """
    scheduler = Scheduler("memory:")
    scheduler.cron(name, "0 * * * *", lambda: None, timezone=timezone, jitter=0)
    return scheduler.jobs[0]


def known(defined: Job, **options: object) -> KnownJob:
    """
    Say what a store keeps of a job that ran in time.
    """
    stored = KnownJob(
        job=defined.name,
        high=defined.schedule.last_slot(NOW_MS),
        fingerprint=defined.fingerprint,
        zone_digests=json.dumps(zone_digests_of(defined.schedule, NOW_MS)),
    )
    return dataclasses.replace(stored, **options)  # type: ignore[arg-type]  # options of several types


def compared(jobs: list[Job], stored: list[KnownJob], *, leases: bool = True) -> list[Finding]:
    """
    Compare jobs with what a store keeps of them.
    """
    by_name = {each.job: each for each in stored}
    return [
        *check_jobs(jobs, by_name, leases=leases, now_ms=NOW_MS),
        *check_zones(jobs, by_name, rules="tzdata 1", now_ms=NOW_MS),
    ]


@pytest.mark.parametrize(
    ("ahead_ms", "trip_ms", "severity", "said"),
    [
        (0, 2, Severity.FINE, "0 ms apart (within 1 ms)"),
        (499, 0, Severity.FINE, "499 ms apart"),
        (
            501,
            0,
            Severity.WARNING,
            "501 ms ahead of the store's (within 0 ms): an instance here claims too early",
        ),
        (
            -90_000,
            4,
            Severity.WARNING,
            "90000 ms behind the store's (within 2 ms): an instance here starts slots late",
        ),
        (700, 600, Severity.FINE, "within 300 ms"),
    ],
)
def test_clock_is_compared_within_what_is_sure(
    ahead_ms: int, trip_ms: int, severity: Severity, said: str
) -> None:
    """
    A difference counts by as much as the way to the store cannot explain.
    """
    sample = ClockSample(
        sent_ms=NOW_MS + ahead_ms, received_ms=NOW_MS + ahead_ms + trip_ms, store_ms=NOW_MS
    )
    middle = dataclasses.replace(sample, store_ms=NOW_MS + trip_ms // 2)
    (finding,) = check_clock([middle])

    assert severity is finding.severity
    assert said in finding.message


def test_quickest_answer_is_the_one_to_go_by() -> None:
    """
    A slow answer says little about the clocks, and nothing about the store if others were quick.
    """
    slow = ClockSample(sent_ms=NOW_MS, received_ms=NOW_MS + 8_000, store_ms=NOW_MS)
    quick = ClockSample(sent_ms=NOW_MS, received_ms=NOW_MS + 2, store_ms=NOW_MS + 1)

    (finding,) = check_clock([slow, quick, slow])
    alone = {each.check: each for each in check_clock([slow])}

    assert Severity.FINE is finding.severity
    assert Severity.WARNING is alone["latency"].severity
    assert "8000 ms" in alone["latency"].message


def test_store_without_a_clock_is_a_note() -> None:
    """
    Then only the instances' own clocks decide, and it is said.
    """
    (finding,) = check_clock([])

    assert Severity.NOTE is finding.severity
    assert "NTP" in finding.advice


def test_equal_jobs_are_fine() -> None:
    """
    The same jobs, schedules and rules, claimed in time: one finding, and a fine one.
    """
    jobs = [job("a"), job("b")]
    (finding,) = compared(jobs, [known(each) for each in jobs])

    assert (Severity.FINE, "The store knows all 2 jobs of this code.") == (
        finding.severity,
        finding.message,
    )


@pytest.mark.parametrize(("leases", "said"), [(True, "next slot"), (False, "first claim")])
def test_new_job_is_a_note(*, leases: bool, said: str) -> None:
    """
    A job that the store has never seen has missed nothing.
    """
    (finding,) = compared([job("new")], [], leases=leases)

    assert ("jobs", Severity.NOTE) == (finding.check, finding.severity)
    assert "does not know job 'new' yet" in finding.message
    assert said in finding.advice


@pytest.mark.parametrize(
    ("stored", "check", "severity"),
    [
        (KnownJob(job="x", high=NOW_MS - HOUR_MS), "other-jobs", Severity.WARNING),
        (
            KnownJob(
                job="x", run=RunView(slot=1, attempt=1, remaining_ms=5, instance_id="other:1")
            ),
            "other-jobs",
            Severity.WARNING,
        ),
        (KnownJob(job="x", high=NOW_MS - 100 * HOUR_MS), "old-jobs", Severity.NOTE),
        (KnownJob(job="x"), "old-jobs", Severity.NOTE),
    ],
)
def test_job_that_the_code_lacks_is_told_by_its_use(
    stored: KnownJob, check: str, severity: Severity
) -> None:
    """
    One that is in use belongs to another release or service; one that is not was removed.
    """
    here = job()
    findings = {each.check: each for each in compared([here], [known(here), stored])}

    assert severity is findings[check].severity
    assert "job 'x'" in findings[check].message
    assert findings[check].advice


def test_other_schedule_is_found_and_not_called_overdue() -> None:
    """
    Which slots are due is not known where instances may disagree about them.
    """
    here = job()
    stored = known(here, fingerprint="another", high=NOW_MS - 90 * HOUR_MS)
    (finding,) = compared([here], [stored])

    assert ("schedules", Severity.WARNING) == (finding.check, finding.severity)


def test_other_rules_of_a_zone_are_found_by_year() -> None:
    """
    Instances whose tzdata differ where it matters may run a job twice; the year says when.
    """
    here = job()
    digests = {**zone_digests_of(here.schedule, NOW_MS), "2027": "another"}
    (finding,) = [
        each
        for each in compared(
            [here, job("utc", timezone="UTC")], [known(here, zone_digests=json.dumps(digests))]
        )
        if each.check == "zones"
    ]

    assert Severity.WARNING is finding.severity
    assert "job 'hourly' in 2027 (here: tzdata 1)" in finding.message
    assert "tzdata everywhere" in finding.advice


@pytest.mark.parametrize(
    ("options", "overdue"),
    [
        ({"high": NOW_MS - 3 * HOUR_MS}, True),
        ({"high": NOW_MS - 3 * HOUR_MS, "since_ms": NOW_MS}, False),
        ({"high": None}, False),
        (
            {
                "high": NOW_MS - 3 * HOUR_MS,
                "run": RunView(slot=1, attempt=1, remaining_ms=5, instance_id="x"),
            },
            False,
        ),
    ],
)
def test_unclaimed_slot_is_found(*, options: dict[str, object], overdue: bool) -> None:
    """
    A slot well past that nobody claimed says that nobody runs; a changed schedule or a long run explains it.
    """
    here = job()
    found = {each.check: each for each in compared([here], [known(here, **options)])}

    assert overdue is ("overdue" in found)
    if overdue:
        assert Severity.WARNING is found["overdue"].severity
        assert "No instance seems to be running" in found["overdue"].advice


def test_one_job_of_several_that_is_overdue_is_another_matter() -> None:
    """
    Where others are claimed, instances are running, perhaps without this job.
    """
    jobs = [job("a"), job("b")]
    stored = [known(jobs[0]), known(jobs[1], high=NOW_MS - 9 * HOUR_MS)]
    (finding,) = [each for each in compared(jobs, stored) if each.check == "overdue"]

    assert "job 'b', due up to" in finding.message
    assert "into its log" in finding.advice


def test_schedule_that_raises_is_passed_over() -> None:
    """
    A schedule of the user's own that fails must not keep the others from being looked at.
    """

    class Broken:
        def next_slot(self, after_ms: int) -> int | None:
            return None

        def last_slot(self, at_ms: int) -> int | None:
            raise RuntimeError

    scheduler = Scheduler("memory:")
    scheduler.job("broken", Broken())(lambda: None)
    here = scheduler.jobs[0]

    assert ["jobs"] == [each.check for each in compared([here], [KnownJob(job="broken", high=1)])]


def test_many_names_are_counted() -> None:
    """
    A thousand jobs are not written out.
    """
    jobs = [job(f"job {number}") for number in range(12)]
    (finding,) = compared(jobs, [])

    assert "'job 9' and 2 more" in finding.message


@pytest.mark.parametrize(("remaining_ms", "found"), [(0, 1), (1, 0)])
def test_run_without_a_runner_is_found(remaining_ms: int, found: int) -> None:
    """
    A lease that is over and that nobody takes over is told, with the run and its last runner.
    """
    run = RunView(slot=0, attempt=2, remaining_ms=remaining_ms, instance_id="gone:1")
    findings = list(check_runs([KnownJob(job="x", run=run), KnownJob(job="y")]))

    assert found == len(findings)
    assert all("'x'" in each.message and "gone:1" in each.message for each in findings)
