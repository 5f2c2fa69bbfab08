"""
Options, handlers and backends that cannot be are refused where they are given; and what the defaults are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anarchon import (
    AnarchonError,
    DuplicateJobError,
    InvalidJobError,
    InvalidOptionError,
    Jobs,
    MemoryBackend,
    MemoryClaimBackend,
    ProtocolVersionError,
    Scheduler,
    UnknownBackendError,
)
from anarchon.capabilities import Capabilities

Case = tuple[str, Callable[[], object], type[AnarchonError], list[str]]


def scheduler(**options: Any) -> Scheduler:
    """
    Make a scheduler on memory.
    """
    return Scheduler(MemoryBackend(), **options)


def define(
    name: Any = "job", interval: Any = "10s", handler: Any = print, **options: Any
) -> object:
    """
    Define a job on a fresh scheduler.
    """
    return scheduler().every(name, interval, handler, **options)


class OldBackend(MemoryBackend):
    """
    A backend of another protocol version.
    """

    protocol_version = 99


async def async_generator(ctx: object) -> Any:
    """
    Yield: no handler.
    """
    yield ctx


def generator(ctx: object) -> Any:
    """
    Yield: no handler.
    """
    yield ctx


def needs_two(ctx: object, other: object) -> None:
    """
    Require more than a scheduler can give.
    """


def needs_keyword(ctx: object, *, key: object) -> None:
    """
    Require a keyword.
    """


CASES: list[Case] = [
    # Options.
    (
        "a lease under three heartbeats",
        lambda: scheduler(heartbeat="10s", lease="29s"),
        InvalidOptionError,
        ["a lease of 29s", "three heartbeats of 10s", "at least 30s"],
    ),
    (
        "a lease that the store cannot keep",
        lambda: scheduler(heartbeat="50ms"),
        InvalidOptionError,
        ["a lease of 150ms", "MemoryBackend", "at least 300ms"],
    ),
    (
        "a jitter above half of the gap",
        lambda: define(jitter="6s"),
        InvalidOptionError,
        ["job 'job'", "a jitter of 6s", "shortest gap", "(10s)", "at most 5s"],
    ),
    (
        "an unknown option",
        lambda: define(jiter=1),
        InvalidOptionError,
        ["job 'job'", "'jiter'", "jitter", "takeover"],
    ),
    (
        "retries",
        lambda: define(retries=3),
        InvalidOptionError,
        ["job 'job'", "'retries'", "final", "stamina"],
    ),
    (
        "an unknown policy",
        lambda: define(catch_up="some"),
        InvalidOptionError,
        ["job 'job'", "'latest', 'none', 'all'", "'some'"],
    ),
    (
        "no crashes at all",
        lambda: define(max_crashes=0),
        InvalidOptionError,
        ["job 'job'", "max_crashes", "from 1", "0"],
    ),
    (
        "crashes that are no number",
        lambda: define(max_crashes=True),
        InvalidOptionError,
        ["job 'job'", "max_crashes", "True"],
    ),
    (
        "a takeover that is no bool",
        lambda: define(takeover="yes"),
        InvalidOptionError,
        ["job 'job'", "takeover is True or False", "'yes'"],
    ),
    (
        "an empty instance id",
        lambda: scheduler(instance_id=""),
        InvalidOptionError,
        ["instance_id", "at least one character"],
    ),
    (
        "an instance id that is no text",
        lambda: scheduler(instance_id=7),
        InvalidOptionError,
        ["instance_id", "7"],
    ),
    # Handlers.
    (
        "a handler that is not callable",
        lambda: define(handler="print"),
        InvalidJobError,
        ["job 'job'", "must be callable", "'print'"],
    ),
    (
        "a handler of two parameters",
        lambda: define(handler=needs_two),
        InvalidJobError,
        ["job 'job'", "needs_two", "ctx, other", "one RunContext, or nothing"],
    ),
    (
        "a handler of a keyword",
        lambda: define(handler=needs_keyword),
        InvalidJobError,
        ["job 'job'", "needs_keyword", "key"],
    ),
    (
        "a generator",
        lambda: define(handler=generator),
        InvalidJobError,
        ["job 'job'", "generator", "never run"],
    ),
    (
        "an async generator",
        lambda: define(handler=async_generator),
        InvalidJobError,
        ["job 'job'", "async_generator", "never run"],
    ),
    # Backends.
    (
        "a backend of another version",
        lambda: Scheduler(OldBackend()),
        ProtocolVersionError,
        ["OldBackend speaks version 99", "speaks version 1"],
    ),
    (
        "no backend",
        lambda: Scheduler(object()),  # type: ignore[arg-type]  # that is what fails
        InvalidOptionError,
        ["a backend or its URL"],
    ),
    (
        "a backend's class",
        lambda: Scheduler(MemoryBackend),  # type: ignore[arg-type]  # that is what fails
        InvalidOptionError,
        ["a backend or its URL"],
    ),
    (
        "an unknown scheme",
        lambda: Scheduler("nowhere://host"),
        UnknownBackendError,
        ["'nowhere://host'", "installed schemes: ", "memory"],
    ),
    (
        "an unknown parameter",
        lambda: Scheduler("memory:?shards=2"),
        InvalidOptionError,
        ["memory:?shards=2", "unknown parameter 'shards'"],
    ),
    (
        "a collection of another kind",
        lambda: scheduler().include([]),  # type: ignore[arg-type]  # that is what fails
        InvalidOptionError,
        ["include() takes a Jobs() collection", "[]"],
    ),
]


@pytest.mark.parametrize(
    ("action", "error", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_wrong_option_is_refused_with_a_sentence(
    action: Callable[[], object], error: type[AnarchonError], words: list[str]
) -> None:
    """
    The error is the type that the reference names, and its message says what is wrong and what is allowed.
    """
    with pytest.raises(error) as raised:
        action()
    message = str(raised.value)

    assert [] == [word for word in words if word not in message], message
    assert isinstance(raised.value, AnarchonError)


@pytest.mark.parametrize(
    ("options", "jitter_ms"),
    [({}, 2_000), ({"jitter": 0}, 0), ({"jitter": "5s"}, 5_000), ({"jitter": "250ms"}, 250)],
)
def test_jitter_of_zero_and_of_half_the_gap_are_fine(
    options: dict[str, Any], jitter_ms: int
) -> None:
    """
    The default is a fifth of the gap, and two seconds at most.
    """
    allowed = scheduler()
    allowed.every("job", "10s", print, **options)

    assert jitter_ms == allowed.jobs[0].jitter_ms


@pytest.mark.parametrize(
    ("interval", "jitter", "expected"),
    [
        ("1s", None, 200),
        ("1h", None, 2_000),
        ("1s", "10s", 500),
        ("1h", "10s", 10_000),
        ("1s", 0, 0),
    ],
)
def test_default_jitter_of_a_scheduler_is_bounded_by_each_jobs_gap(
    interval: str, jitter: Any, expected: int
) -> None:
    """
    One default for all jobs cannot fit each, so it is cut where a job's own would be an error.
    """
    allowed = scheduler(jitter=jitter)
    allowed.every("job", interval, print)

    assert expected == allowed.jobs[0].jitter_ms


def test_once_has_no_gap_and_no_jitter_of_its_own() -> None:
    """
    A single slot has no successor that a late claim could collide with.
    """
    allowed = scheduler()
    allowed.once("plain", 0, print)
    allowed.once("own", 0, print, jitter="1h")
    defaulted = scheduler(jitter="3s")
    defaulted.once("default", 0, print)

    assert [0, 3_600_000] == [job.jitter_ms for job in allowed.jobs]
    assert [3_000] == [job.jitter_ms for job in defaulted.jobs]


def test_defaults_of_a_job() -> None:
    """
    The table of job options, its defaults on a lease backend and on a claim-only one.
    """
    leases, claims = scheduler(), Scheduler(MemoryClaimBackend())
    for each in (leases, claims):
        each.every("job", "10s", print)
    (job,), (bare,) = leases.jobs, claims.jobs

    assert ("latest", None, None, 3, True, None) == (
        job.catch_up,
        job.catch_up_window_ms,
        job.max_lateness_ms,
        job.max_crashes,
        job.takeover,
        job.timeout_ms,
    )
    assert "none" == bare.catch_up


class Forgetful(MemoryClaimBackend):
    """
    A backend that forgets claims after an hour.
    """

    @property
    def capabilities(self) -> Capabilities:
        """
        Say so.
        """
        return replace(super().capabilities, claim_memory_ms=3_600_000)


def test_lateness_is_held_against_the_memory_of_claims() -> None:
    """
    A slot that the store may have forgotten is refused anyway, so that a job may not ask for it.
    """
    forgetful = Scheduler(Forgetful())
    forgetful.every("fits", "10s", print, max_lateness="1h")
    Scheduler(MemoryClaimBackend()).every("any", "10s", print, max_lateness="1w")
    with pytest.raises(InvalidOptionError) as raised:
        forgetful.every("late", "10s", print, max_lateness="2h")
    missing = [
        word
        for word in ("job 'late'", "max_lateness of 2h", "Forgetful", "at most 1h")
        if word not in str(raised.value)
    ]

    assert [] == missing
    assert [3_600_000] == [job.max_lateness_ms for job in forgetful.jobs]


def test_failed_include_takes_nothing() -> None:
    """
    All jobs of a collection or none.
    """
    jobs = Jobs()
    jobs.every("good", "10s", print)
    jobs.every("bad", "10s", print, jitter="9s")
    taking = scheduler()
    with pytest.raises(InvalidOptionError, match="job 'bad'"):
        taking.include(jobs)

    assert () == taking.jobs
    other = Jobs()
    other.every("good", "10s", print)
    taking.include(other)
    with pytest.raises(DuplicateJobError, match="job 'good' is defined twice"):
        taking.include(other)
    with pytest.raises(DuplicateJobError, match="job 'good' is defined twice"):
        other.every("good", "1s", print)


class Claims:
    """
    Something that can claim, and nothing else.
    """

    protocol_version = 1

    async def claim(self, requests: object, *, timeout_ms: int) -> list[object]:
        """
        Answer nothing.
        """
        return []


class Bare(MemoryClaimBackend):
    """
    A backend that says that it keeps leases, and does not.
    """

    @property
    def capabilities(self) -> Any:
        """
        Too much.
        """
        return MemoryBackend().capabilities


def test_backend_that_lacks_members_is_told_which() -> None:
    """
    Whoever writes a backend sees at once what is missing.
    """
    with pytest.raises(
        InvalidOptionError, match="Claims lacks members of the protocol Backend: capabilities, c"
    ):
        Scheduler(Claims())  # type: ignore[arg-type]  # that is what fails
    with pytest.raises(
        InvalidOptionError,
        match="Bare declares leases but lacks members of LeaseBackend: next_hint, register, release, renew",
    ):
        Scheduler(Bare())
