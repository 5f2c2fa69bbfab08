"""
A week of a hundred jobs: what stays in the server is bounded, and what nobody has ended stays.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest, Verdict
from anarchon.errors import BackendError
from anarchon.records import Retention, Status
from anarchon_nats import NatsBackend
from anarchon_nats.options import DEFAULT_MEMORY_MS

SOAK = bool(os.environ.get("ANARCHON_SOAK"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800 if SOAK else 300)]

TIMEOUT_MS = 30_000
JOBS = 100
STEP_MS = 600_000 if SOAK else 3_600_000
"""
How far apart the slots of a job are: `make soak` takes ten minutes, else it is an hour.
"""

WEEK_MS = 7 * 86_400_000
RECORDS = 10
TURN = 64
"""
After how many runs of a job an instance looks for what can go, at the least.
"""

End = Callable[..., FinishRequest]
Ask = Callable[..., ClaimRequest]


class Hand:
    """
    The server's clock as a week's test needs it: it stands where the test has put it.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def heard(self, _text: str, _connection: int) -> None:
        """
        Hear nothing.
        """

    def stale(self, _connection: int) -> bool:
        """
        Ask for no other look.
        """
        return False

    def now_ms(self) -> int:
        """
        Tell what was set.
        """
        return self._now_ms

    def pass_to(self, now_ms: int) -> None:
        """
        Set it.
        """
        self._now_ms = now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """
    What the server has at one time.
    """

    messages: int
    stream_bytes: int
    disk_bytes: int
    memory_bytes: int


def sizes(folder: Path) -> Iterator[int]:
    """
    Tell the size of each file. The server writes some of them anew when it likes, also while they are looked at.
    """
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.stat().st_size


def look(server: testbed.NatsServer, stream: str) -> Figures:
    """
    Ask the server for its stream, and the system for the rest.
    """
    state = server.request(f"$JS.API.STREAM.INFO.{stream}")["state"]
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8").splitlines()
    (resident,) = [line.split()[1] for line in status if line.startswith("VmRSS")]
    return Figures(
        messages=state["messages"],
        stream_bytes=state["bytes"],
        disk_bytes=sum(sizes(server.folder / "store")),
        memory_bytes=int(resident) * 1_024,
    )


async def live(
    server: testbed.NatsServer, prefix: str, ask: Ask, end: End
) -> tuple[list[Figures], list[Any], Verdict]:
    """
    Let a week pass; look at its beginning, in its middle and at its end.
    """
    hand = Hand(time.time_ns() // 1_000_000)
    begun_ms = hand.now_ms()
    backend = NatsBackend(server.url, prefix=prefix, retention=Retention(records_per_job=RECORDS))
    backend._time = hand  # type: ignore[assignment]  # a clock that the test moves
    await backend.open(timeout_ms=TIMEOUT_MS)
    dead = [ask(f"job {number}", begun_ms) for number in range(JOBS)]
    await backend.claim(dead, timeout_ms=TIMEOUT_MS)
    seen = [look(server, prefix)]
    for slot in range(begun_ms + STEP_MS, begun_ms + WEEK_MS, STEP_MS):
        hand.pass_to(slot)
        claims = [ask(f"job {number}", slot) for number in range(JOBS)]
        answers = await backend.claim(claims, timeout_ms=TIMEOUT_MS)
        assert {Verdict.WON} == {
            each.verdict for each in answers if not isinstance(each, BackendError)
        }
        await backend.finish([end(each) for each in claims], timeout_ms=TIMEOUT_MS)
        if slot - STEP_MS < begun_ms + WEEK_MS // 2 <= slot:
            await backend._opened().pruner.idle()
            seen.append(look(server, prefix))
    await backend._opened().pruner.idle()
    seen.append(look(server, prefix))
    records = await backend.history("job 7", limit=1_000, timeout_ms=TIMEOUT_MS)
    (again,) = await backend.claim([ask("job 7", begun_ms + STEP_MS)], timeout_ms=TIMEOUT_MS)
    await backend.close()
    assert not isinstance(again, BackendError)
    return seen, list(records), again.verdict


def test_a_week_leaves_bounded_state(
    prefix: str, ask: Ask, end: End, record_property: Callable[[str, object], None]
) -> None:
    """
    Messages, bytes, disk and memory are those of a few days, whatever has passed; a dead run is still told.
    """
    # The server writes half-empty blocks anew when it syncs: every two minutes, unless it is told.
    with testbed.nats(config={"jetstream": {"sync_interval": "1s"}}) as server:
        seen, records, again = asyncio.run(live(server, prefix, ask, end))
    for name, figures in zip(("begin", "middle", "end"), seen, strict=True):
        record_property(f"nats week {name}", json.dumps(asdict(figures)))
    _begin, middle, last = seen
    runs = WEEK_MS // STEP_MS
    in_memory = DEFAULT_MEMORY_MS // STEP_MS + 2
    bound = JOBS * 2 * (RECORDS + in_memory + max(TURN, in_memory) + 1)

    assert last.messages <= bound < JOBS * 2 * runs
    assert middle.messages <= bound
    # Half a week more costs a few blocks of two megabytes, and room that the server's collector has not freed yet.
    assert last.disk_bytes < middle.disk_bytes + 8_000_000
    assert last.memory_bytes < middle.memory_bytes + 48_000_000
    assert [Status.SUCCESS] * RECORDS + [Status.RUNNING] == [each.status for each in records]
    assert Verdict.LATE == again
