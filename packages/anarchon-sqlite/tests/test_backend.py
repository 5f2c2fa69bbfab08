"""
The backend on a real file: its life, its batches, and what it keeps apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError, RequestError
from anarchon.records import Reason, Status, datetime_of
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.batch import PIECE_MAX

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


async def store_now_ms(backend: SqliteBackend) -> int:
    """
    Ask for the store's time.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    return now_ms


async def verdicts(backend: SqliteBackend, *requests: ClaimRequest) -> list[Verdict | None]:
    """
    Claim a batch, and tell the verdicts; None where an error stands.
    """
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    return [answer.verdict if isinstance(answer, ClaimAnswer) else None for answer in answers]


def values(answers: Sequence[ClaimAnswer | BackendError]) -> list[ClaimAnswer]:
    """
    Take the answers of a batch in which no error is expected.
    """
    assert all(isinstance(answer, ClaimAnswer) for answer in answers)
    return [answer for answer in answers if isinstance(answer, ClaimAnswer)]


def remove_all(folder: Path) -> None:
    """
    Delete the file and those beside it.
    """
    for file in list(folder.iterdir()):
        file.unlink()


def finish_of(request: ClaimRequest, **options: object) -> FinishRequest:
    """
    Write the successful finish of a claim.
    """
    return FinishRequest(
        job=request.job,
        slot=request.slot,
        attempt=request.attempt,
        token=request.token,
        status=Status.SUCCESS,
    )


def test_a_batch_is_answered_in_its_order(opened: Opened, ask: Ask) -> None:
    """
    Items of one job are decided by slot, whatever their place, and answered in their place.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            later, earlier, other = ask("a", slot), ask("a", slot - 1_000), ask("b", slot)
            answers = values(await backend.claim([later, other, earlier], timeout_ms=TIMEOUT_MS))

            assert [Verdict.OVERLAP, Verdict.WON, Verdict.WON] == [
                answer.verdict for answer in answers
            ]
            assert (True, slot - 1_000) == (answers[0].recorded, answers[0].previous_high)
            assert [] == await backend.claim([], timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_a_batch_of_many_pieces_is_answered_whole(opened: Opened, ask: Ask) -> None:
    """
    A batch longer than a transaction carries has every answer in its place.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            first = [ask(f"job-{number:04}", slot) for number in range(0, 3 * PIECE_MAX, 2)]
            every = [ask(f"job-{number:04}", slot) for number in reversed(range(3 * PIECE_MAX))]
            won = await verdicts(backend, *first)
            mixed = await verdicts(backend, *every)

            assert [Verdict.WON] * len(first) == won
            expected = [Verdict.WON, Verdict.RUNNING] * (3 * PIECE_MAX // 2)
            assert expected == mixed

    asyncio.run(scenario())


def test_what_cannot_be_kept_is_an_error_of_its_item(opened: Opened, ask: Ask) -> None:
    """
    An item that SQLite could not bind stands for itself; its neighbours are served.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            bad = [
                ask("", slot),
                ask("x" * 256, slot),
                ask("\udc80", slot),
                ask(b"bytes", slot),
                ask("a", slot, token=None),
                ask("a", 2**63),
                ask("a", 1.5),
                ask("a", True),
                ask("a", None),
                ask("a", slot, lease_ms=-1),
                ask("a", slot, lease_ms=2**62),
                ask("a", slot, instance_id="\ud800"),
                ask("a", slot, fingerprint=7),
                ask("a", slot, attempt=0),
            ]
            answers = await backend.claim(
                [ask("good", slot), *bad, ask("x" * 255, slot)], timeout_ms=TIMEOUT_MS
            )
            errors = answers[1:-1]

            assert all(isinstance(answer, RequestError) for answer in errors), answers
            assert "job must be 1 to 255 bytes of UTF-8, not 256" in str(errors[1])
            assert [Verdict.WON] * 2 == [
                answer.verdict for answer in values([answers[0], answers[-1]])
            ]

    asyncio.run(scenario())


def test_an_unusable_start_is_an_error_of_its_item(opened: Opened, ask: Ask) -> None:
    """
    A start that no date can hold would spoil every later reading of the history.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            claim = ask("job", slot)
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            renewals = [
                RenewRequest(
                    job="job",
                    slot=slot,
                    attempt=1,
                    token=claim.token,
                    lease_ms=1_000,
                    started_ago_ms=started_ago_ms,
                )
                for started_ago_ms in (10**18, -1, 50)
            ]
            answers = await backend.renew(renewals, timeout_ms=TIMEOUT_MS)
            (record,) = await backend.history("job", limit=5, timeout_ms=TIMEOUT_MS)

            assert [RequestError, RequestError, RenewAnswer] == [type(answer) for answer in answers]
            renewed = answers[-1]
            assert isinstance(renewed, RenewAnswer)
            assert datetime_of(renewed.store_now_ms - 50) == record.started_at

    asyncio.run(scenario())


def test_a_run_from_its_claim_to_its_history(opened: Opened, ask: Ask) -> None:
    """
    Claim, renew, release, takeover and finish leave two records, each with how it ended.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            first, second = ask("job", slot), ask("job", slot, attempt=2, instance_id="host:2")
            await backend.claim([first], timeout_ms=TIMEOUT_MS)
            release = ReleaseRequest(
                job="job", slot=slot, attempt=1, token=first.token, started_ago_ms=5
            )
            closed = await backend.release([release, release], timeout_ms=TIMEOUT_MS)
            taken = await verdicts(backend, second)
            finished = await backend.finish(
                [finish_of(first), finish_of(second), finish_of(second)], timeout_ms=TIMEOUT_MS
            )
            records = await backend.history("job", limit=5, timeout_ms=TIMEOUT_MS)

            assert [True, True] == [
                answer.accepted for answer in closed if isinstance(answer, CloseAnswer)
            ]
            assert [Verdict.WON] == taken
            assert [False, True, True] == [
                answer.accepted for answer in finished if isinstance(answer, CloseAnswer)
            ]
            assert [(2, Status.SUCCESS, None), (1, Status.INTERRUPTED, Reason.HANDED_OVER)] == [
                (record.attempt, record.status, record.reason) for record in records
            ]
            assert ["host:2", "host:1"] == [record.instance_id for record in records]
            assert records[1].started_at is not None

    asyncio.run(scenario())


def test_a_status_that_nobody_may_finish_with_is_refused(opened: Opened, ask: Ask) -> None:
    """
    A finish as interrupted is an error of its item, and changes nothing.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            claim = ask("job", slot)
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            finish = FinishRequest(
                job="job", slot=slot, attempt=1, token=claim.token, status=Status.INTERRUPTED
            )
            strange = replace(finish, token="another")
            answers = await backend.finish([finish, strange], timeout_ms=TIMEOUT_MS)

            assert [RequestError, RequestError] == [type(answer) for answer in answers]
            assert [Verdict.RUNNING] == await verdicts(backend, ask("job", slot))

    asyncio.run(scenario())


def test_registration(opened: Opened) -> None:
    """
    A job is new once, and a slot ahead of the store's clock is an error of its item.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            requests = [
                RegisterRequest(job="ahead", slot=slot + 60_000),
                RegisterRequest(job="job", slot=slot - 1_000, fingerprint="one"),
                RegisterRequest(job="once", slot=None),
            ]
            first = await backend.register(requests, timeout_ms=TIMEOUT_MS)
            again = await backend.register(
                [
                    RegisterRequest(job="job", slot=slot, fingerprint="two"),
                    RegisterRequest(job="once", slot=None),
                ],
                timeout_ms=TIMEOUT_MS,
            )

            assert isinstance(first[0], RequestError)
            assert [True, True] == [
                answer.new for answer in first[1:] if isinstance(answer, RegisterAnswer)
            ]
            known, once = again
            assert isinstance(known, RegisterAnswer)
            assert isinstance(once, RegisterAnswer)
            assert (False, slot - 1_000, "one") == (known.new, known.high, known.fingerprint)
            assert known.since_ms is not None
            assert (False, None) == (once.new, once.high)

    asyncio.run(scenario())


def test_prefixes_share_nothing(opened: Opened, ask: Ask) -> None:
    """
    Two services with a prefix each have one file and two schedules.
    """

    async def scenario() -> None:
        async with opened(prefix="one") as one, opened(prefix="two") as two:
            slot = await store_now_ms(one)

            assert [Verdict.WON] == await verdicts(one, ask("job", slot))
            assert [Verdict.WON] == await verdicts(two, ask("job", slot))
            assert 1 == len(await two.history(None, limit=9, timeout_ms=TIMEOUT_MS))

    asyncio.run(scenario())


def test_the_state_outlives_everybody(opened: Opened, ask: Ask) -> None:
    """
    A slot that was finished stays finished for whoever opens the file next.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal") as backend:
            slot = await store_now_ms(backend)
            claim = ask("job", slot)
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            await backend.finish([finish_of(claim)], timeout_ms=TIMEOUT_MS)
        async with opened() as backend:
            (answer,) = values(await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS))

            assert (Verdict.DONE, AnswerReason.ENDED) == (answer.verdict, answer.reason)

    asyncio.run(scenario())


def test_a_file_that_is_deleted_splits_nobody(path: Path, opened: Opened, ask: Ask) -> None:
    """
    After somebody has deleted the file, old and new instances meet in the new one.
    """

    async def scenario() -> None:
        async with opened() as old:
            slot = await store_now_ms(old)
            await old.history(None, limit=1, timeout_ms=TIMEOUT_MS)
            remove_all(path.parent)
            async with opened() as new:
                both = await verdicts(new, ask("job", slot)), await verdicts(old, ask("job", slot))
                records = await old.history(None, limit=5, timeout_ms=TIMEOUT_MS)

                assert ([Verdict.WON], [Verdict.RUNNING]) == both
                assert 1 == len(records)

    asyncio.run(scenario())


def test_history_is_bounded(opened: Opened, ask: Ask) -> None:
    """
    No limit below one gives a record, and none is too great.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            await backend.claim(
                [ask("b", slot), ask("a", slot), ask("a", slot + 1)], timeout_ms=TIMEOUT_MS
            )
            every = await backend.history(None, limit=2**80, timeout_ms=TIMEOUT_MS)

            assert [("a", slot + 1), ("a", slot), ("b", slot)] == [
                (record.job, record.slot) for record in every
            ]
            assert [] == await backend.history(None, limit=0, timeout_ms=TIMEOUT_MS)
            assert [] == await backend.history("a", limit=-1, timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())
