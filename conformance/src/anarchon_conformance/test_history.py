"""
History: one record an attempt, true to the millisecond, and never more than is kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from anarchon.records import Retention, RunRecord, Status, storable_error
from anarchon_conformance.harness import JOB, Bench, new_token
from anarchon_conformance.marking import clause

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _ms(instant: datetime) -> float:
    return (instant - _EPOCH) / timedelta(milliseconds=1)


@clause("HIS-1")
async def test_each_attempt_has_one_record(bench: Bench) -> None:
    """
    Who ran what, and how far it came, also for an attempt that goes on.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        running = await reader.history()
        expected = [(JOB, slot, 1, runner.label, Status.RUNNING)]
        if bench.capabilities.leases:
            await runner.release(slot, token)
            token = await reader.win(slot, attempt=2)
        attempt = 2 if bench.capabilities.leases else 1
        await reader.finish(slot, token, attempt=attempt)
        after = await runner.history()
        ended = [(JOB, slot, 1, runner.label, Status.SUCCESS)]
        if bench.capabilities.leases:
            ended = [
                (JOB, slot, 2, reader.label, Status.SUCCESS),
                (JOB, slot, 1, runner.label, Status.INTERRUPTED),
            ]

        assert expected == [_key(record) for record in running]
        assert (None, None) == (running[0].finished_at, running[0].started_at)
        assert ended == [_key(record) for record in after]


def _key(record: RunRecord) -> tuple[str, int, int, str, Status]:
    return record.job, record.slot, record.attempt, record.instance_id, record.status


@clause("HIS-2")
async def test_times_are_exact(bench: Bench) -> None:
    """
    Times come from the store's clock, in UTC, in whole milliseconds, and in order.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        slack_ms = bench.capabilities.time_resolution_ms
        begun_ms = await runner.now_ms()
        token = await runner.win(slot)
        await runner.finish(slot, token, started_ago_ms=0)
        ended_ms = await runner.now_ms()
        record = await reader.record(slot)
        times = [record.claimed_at, record.started_at, record.finished_at]
        told = [each for each in times if each is not None]

        assert 3 == len(told)
        assert {timedelta(0)} == {each.utcoffset() for each in told}
        assert {0} == {each.microsecond % 1_000 for each in told}
        assert sorted(told) == told
        if bench.capabilities.store_clock:
            assert begun_ms - slack_ms <= _ms(told[0])
            assert _ms(told[2]) <= ended_ms + slack_ms


@clause("HIS-3")
async def test_start_is_dated_by_the_finish(bench: Bench) -> None:
    """
    How long ago the handler began is turned into an instant of the clock that dates its end.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.finish(slot, token, started_ago_ms=40)
        record = await reader.record(slot)
        slack_ms = bench.capabilities.time_resolution_ms

        assert record.started_at is not None
        assert record.finished_at is not None
        assert abs(_ms(record.finished_at) - _ms(record.started_at) - 40) <= slack_ms


@clause("HIS-3")
async def test_start_is_dated_while_the_run_goes_on(bench: Bench) -> None:
    """
    Where there are renewals the first one that tells of the start dates it, and no later one moves it.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        starts = []
        for ago_ms in (40, 4_000):
            if bench.capabilities.leases:
                await runner.renew(slot, token, started_ago_ms=ago_ms)
                starts.append((await reader.record(slot)).started_at)
        await runner.finish(slot, token, started_ago_ms=40)
        starts.append((await reader.record(slot)).started_at)

        assert None not in starts
        assert 1 == len(set(starts))


@clause("HIS-4")
async def test_newest_come_first(bench: Bench) -> None:
    """
    The order is that of slots, not of claims or ends; the limit takes the newest.
    """
    leases, rising = bench.capabilities.leases, bench.capabilities.rising_slots
    async with bench.world() as world:
        instance = await world.join()
        for index, job in ((2, "b"), (1, "a"), (3, "a"), (2, "a"), (1, "c")):
            if (leases or rising) and (index, job) == (2, "a"):
                continue
            token = await instance.win(world.slot(index), job=job)
            if leases and index == 3:
                await instance.release(world.slot(index), token, job=job)
                token = await instance.win(world.slot(index), attempt=2, job=job)
                await instance.finish(world.slot(index), token, attempt=2, job=job)
            else:
                await instance.finish(world.slot(index), token, job=job)
        records = await instance.history(None)
        ordered = sorted(records, key=lambda each: (-each.slot, each.job, -each.attempt))
        newest = await instance.history(None, limit=2)
        own = await instance.history("a")

        assert (4 if rising else 5) == len(records)
        assert list(ordered) == list(records)
        assert list(ordered[:2]) == list(newest)
        assert [each for each in ordered if each.job == "a"] == list(own)
        assert [] == list(await instance.history(None, limit=0))


@clause("HIS-5")
async def test_any_error_is_kept(bench: Bench) -> None:
    """
    No text makes a finish fail, and none is cut without a word.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        texts = [
            'it\'s "quoted"; -- `here`\\ %s {} $1',
            "before\x00after",
            "emoji \U0001f4a5 and accents \u00e9e\u0301",
            "lone surrogate \ud83d",
            "line\r\nline\u2028line\ttab",
            "",
            "long " * 200_000,
        ]
        wrong = []
        for index, text in enumerate(texts):
            slot = world.slot(index)
            token = await runner.win(slot)
            answer = await runner.finish(slot, token, status=Status.FAILED, error=text)
            kept = (await reader.record(slot)).error
            if not answer.accepted or kept not in {text, storable_error(text)}:
                wrong.append((text[:40], answer.accepted, None if kept is None else kept[-80:]))

        assert [] == wrong


@clause("HIS-6")
async def test_ended_record_never_changes(bench: Bench) -> None:
    """
    Whatever arrives afterwards, from the owner or from a stranger, the record stays.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.finish(slot, token, status=Status.FAILED, error="first")
        before = await other.history()
        await runner.finish(slot, token, error="second", started_ago_ms=1_000)
        await other.finish(slot, new_token(), error="third")
        await other.claim(slot)
        await runner.claim(slot, token=token)
        if bench.capabilities.leases:
            await runner.renew(slot, token, started_ago_ms=1_000)
            await runner.release(slot, token)

        assert before == await other.history()


@clause("HIS-7")
async def test_oldest_records_go_first(bench: Bench) -> None:
    """
    What is left are the newest slots without a gap, at least as many as the retention says.
    """
    kept = 5
    async with bench.world(retention=Retention(records_per_job=kept)) as world:
        instance = await world.join()
        await instance.win(world.base_ms)
        count = 2 * kept + bench.capabilities.batch_max + 100
        slots = [world.base_ms + 1 + index for index in range(count)]
        await instance.let_pass(slots)
        left = [each.slot for each in await instance.history() if each.slot != world.base_ms]

        assert kept <= len(left) + 1 < count
        assert slots[-len(left) :][::-1] == left


@clause("HIS-8")
async def test_unfinished_record_is_never_pruned(bench: Bench) -> None:
    """
    A run that goes on stays in the history, however much comes after it.
    """
    kept = 5
    async with bench.world(retention=Retention(records_per_job=kept)) as world:
        instance = await world.join()
        await instance.win(world.base_ms)
        count = 2 * kept + bench.capabilities.batch_max + 100
        await instance.let_pass([world.base_ms + 1 + index for index in range(count)])
        record = await instance.record(world.base_ms)

        assert Status.RUNNING == record.status


@clause("HIS-9")
async def test_unknown_job_has_no_history(bench: Bench) -> None:
    """
    Reading needs no registration, and finds nothing where nothing is.
    """
    async with bench.world() as world:
        instance = await world.join()
        histories = [await instance.history("nobody"), await instance.history(None)]

        assert [[], []] == [list(each) for each in histories]


@clause("HIS-10")
async def test_old_records_go(bench: Bench) -> None:
    """
    What ended longer ago than the retention's age goes while the job goes on, beside a run that does not end.
    """
    async with bench.world(retention=Retention(age_ms=1, records_per_job=100_000)) as world:
        instance = await world.join()
        await instance.win(world.base_ms)
        old = world.base_ms + 1
        await instance.let_pass([old])
        count = bench.capabilities.batch_max
        turns = 0
        while old in {each.slot for each in await instance.history(limit=100_000)}:
            first = old + 1 + turns * count
            await instance.let_pass(range(first, first + count))
            turns += 1

            assert turns < 20, "twenty batches later the old record is still there"
        assert Status.RUNNING == (await instance.record(world.base_ms)).status
