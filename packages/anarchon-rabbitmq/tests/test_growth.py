"""
A week of slots for a hundred jobs leaves a bounded stream, and nothing else.

Every run has a slot an hour for each job, `make soak` one every ten minutes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, CloseAnswer, FinishRequest, Verdict
from anarchon.records import Retention, Status
from anarchon_rabbitmq import RabbitMQBackend

SOAK = bool(os.environ.get("ANARCHON_SOAK"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800 if SOAK else 120)]

TIMEOUT_MS = 60_000
JOBS = 100
GAP_MS = 600_000 if SOAK else 3_600_000
WEEK_MS = 7 * 24 * 3_600_000
LOG_BYTES_MAX = 10_000_000
SEGMENT_BYTES = LOG_BYTES_MAX // 4
BATCH_BYTES_MAX = 60_000
BYTES_MAX = LOG_BYTES_MAX + SEGMENT_BYTES + 2 * BATCH_BYTES_MAX
LABEL = "an instance with a name that is long enough to fill a stream in a week of hours".ljust(
    300, "."
)

Property = Callable[[str, object], None]


class Later:
    """
    A clock that is moved by hand.
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        """
        Tell the time.
        """
        return self.now_ms

    def suspend_ms(self) -> int:
        """
        Tell the time, which does not step here.
        """
        return self.now_ms


def stream_bytes(broker: testbed.RabbitMQServer, prefix: str) -> int:
    """
    Add up the files of a stream. The broker removes the oldest when it likes, also while they are looked at.
    """
    found = 0
    for path in broker.folder.glob(f"mnesia/*/stream/__{prefix}_runs_*/*"):
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


async def settled(broker: testbed.RabbitMQServer, prefix: str) -> None:
    """
    Wait until the stream keeps its limit: the broker cuts it off after it has answered, and tells nobody.
    """
    async with asyncio.timeout(TIMEOUT_MS / 1_000):
        while stream_bytes(broker, prefix) > BYTES_MAX:  # noqa: ASYNC110 - files tell nobody that they are gone
            await asyncio.sleep(0.05)  # Until they are looked at again.


def figures(broker: testbed.RabbitMQServer, prefix: str) -> dict[str, int]:
    """
    Look at the broker: what lies on its disk, and what it has in memory.
    """
    return {
        "stream_bytes": stream_bytes(broker, prefix),
        "queues": int(broker.evaluate("length(rabbit_amqqueue:list())")),
        "exchanges": int(broker.evaluate('length(rabbit_exchange:list(<<"/">>))')),
        "processes": int(broker.evaluate("erlang:system_info(process_count)")),
        "memory_bytes": int(
            broker.evaluate(
                "begin [garbage_collect(P) || P <- processes()], erlang:memory(total) end"
            )
        ),
    }


async def run_a_slot(backend: RabbitMQBackend, slot: int, number: int) -> int:
    """
    Claim one slot of every job, and end the runs.
    """
    requests = [
        ClaimRequest(job=f"job-{job}", slot=slot, token=f"{number}-{job}", instance_id=LABEL)
        for job in range(JOBS)
    ]
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    finishes = [
        FinishRequest(
            job=request.job, slot=slot, attempt=1, token=request.token, status=Status.SUCCESS
        )
        for request in requests
    ]
    closed = await backend.finish(finishes, timeout_ms=TIMEOUT_MS)

    assert [True] * JOBS == [isinstance(each, CloseAnswer) and each.accepted for each in closed]
    return sum(
        isinstance(answer, ClaimAnswer) and answer.verdict is Verdict.WON for answer in answers
    )


def test_a_week_of_a_hundred_jobs(
    broker: testbed.RabbitMQServer, prefix: str, now_ms: int, record_property: Property
) -> None:
    """
    The stream keeps its limit, instances forget, the history is the newest part, and a late joiner wins nothing old.
    """
    start = now_ms - now_ms % GAP_MS + GAP_MS
    clock = Later(start + 500)

    def instance() -> RabbitMQBackend:
        return RabbitMQBackend(
            broker.url,
            prefix=prefix,
            log_bytes_max=LOG_BYTES_MAX,
            retention=Retention(records_per_job=50),
            clock=clock,
        )

    async def scenario() -> tuple[int, dict[str, int], dict[str, int], int, int, set[Verdict]]:
        backend = instance()
        await backend.open(timeout_ms=TIMEOUT_MS)
        won = await run_a_slot(backend, start, 0)
        before = figures(broker, prefix)
        for number in range(1, WEEK_MS // GAP_MS):
            clock.now_ms = start + number * GAP_MS + 500
            won += await run_a_slot(backend, start + number * GAP_MS, number)
        await settled(broker, prefix)
        after = figures(broker, prefix)
        in_mind = len(backend._ledger)
        records = await backend.history("job-7", limit=1_000, timeout_ms=TIMEOUT_MS)
        late = instance()
        await late.open(timeout_ms=TIMEOUT_MS)
        answers = await late.claim(
            [
                ClaimRequest(job="job-7", slot=record.slot, token="late", instance_id="late")
                for record in records
            ],
            timeout_ms=TIMEOUT_MS,
        )
        await late.close()
        await backend.close()
        verdicts = {answer.verdict for answer in answers if isinstance(answer, ClaimAnswer)}
        return won, before, after, in_mind, len(records), verdicts

    won, before, after, in_mind, kept, verdicts = asyncio.run(scenario())
    for name, value in after.items():
        record_property(f"rabbitmq_week_{name}", f"{before[name]} before, {value} after")

    assert JOBS * (WEEK_MS // GAP_MS) == won
    assert after["stream_bytes"] <= BYTES_MAX
    assert before["queues"] == after["queues"]
    assert before["exchanges"] == after["exchanges"]
    assert after["processes"] <= before["processes"] + 20
    assert after["memory_bytes"] <= before["memory_bytes"] + 50_000_000
    # What is older than the claims' memory is out of mind.
    assert in_mind <= 2 * JOBS * (1 + 720_000 // GAP_MS)
    assert 5 < kept <= 50
    assert verdicts <= {Verdict.LATE, Verdict.TAKEN}
