"""
Servers that die, fall silent, or lose what was sent; and calls that are given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, Verdict
from anarchon.errors import BackendStateError, StoreUnavailableError
from anarchon.records import Status
from anarchon_postgres import PostgresBackend
from anarchon_postgres.session import Session

TIMEOUT_MS = 20_000
RESTARTS = int(os.environ.get("ANARCHON_RESTARTS", "5"))

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]

pytestmark = pytest.mark.slow


async def claimed(
    backend: PostgresBackend, request: ClaimRequest, timeout_ms: int = TIMEOUT_MS
) -> ClaimAnswer:
    """
    Claim one run.
    """
    (answer,) = await backend.claim([request], timeout_ms=timeout_ms)
    assert isinstance(answer, ClaimAnswer)
    return answer


async def store_now_ms(backend: PostgresBackend) -> int:
    """
    Ask for the store's time.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    return now_ms


async def fetch(backend: PostgresBackend, query: str, *args: object) -> list[Any]:
    """
    Run a statement on the backend's own connection.
    """

    async def ask(session: Session) -> list[Any]:
        return list(await session.connection.fetch(query, *args))

    return await backend._opened().run(ask, timeout_ms=TIMEOUT_MS)


def end_of(request: ClaimRequest) -> FinishRequest:
    """
    Write the finish of what a claim has won.
    """
    return FinishRequest(
        job=request.job,
        slot=request.slot,
        attempt=request.attempt,
        token=request.token,
        status=Status.SUCCESS,
    )


@pytest.mark.timeout(240)
def test_a_server_that_is_killed_under_load_costs_time_only(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    Two instances race through slots while the server restarts: each slot is won once, and nobody gives up.
    """

    async def scenario() -> tuple[Counter[int], int, int]:
        wins: Counter[int] = Counter()
        outages = slots = 0
        over, moved = asyncio.Event(), asyncio.Event()

        async def insist(call: Callable[[], Any]) -> Any:
            nonlocal outages
            while True:
                try:
                    return await call()
                except StoreUnavailableError:
                    outages += 1
                    await asyncio.sleep(0.05)

        async def runner(backend: PostgresBackend) -> None:
            nonlocal slots
            number = 0
            while not over.is_set():
                requests = [ask(f"job-{number}-{index}", first) for index in range(5)]
                answers = await insist(partial(backend.claim, requests, timeout_ms=5_000))
                mine = [
                    request
                    for request, answer in zip(requests, answers, strict=True)
                    if answer.verdict is Verdict.WON
                ]
                wins.update(number * 5 + int(each.job.rpartition("-")[2]) for each in mine)
                ends = [end_of(each) for each in mine]
                closed = await insist(partial(backend.finish, ends, timeout_ms=5_000))
                assert all(each.accepted for each in closed)
                number += 1
                slots = max(slots, number * 5)
                moved.set()

        async with opened(server.url) as one, opened(server.url) as two:
            first = await store_now_ms(one)
            runners = [asyncio.ensure_future(runner(backend)) for backend in (one, two)]
            for _ in range(RESTARTS):
                before = slots
                while slots < before + 25:
                    moved.clear()
                    await moved.wait()
                await server.restart()
            over.set()
            await asyncio.gather(*runners)
            records = await one.history(None, limit=100_000, timeout_ms=TIMEOUT_MS)
        assert {Status.SUCCESS} == {record.status for record in records}
        return wins, slots, outages

    wins, slots, outages = asyncio.run(scenario())

    assert dict.fromkeys(range(slots), 1) == dict(sorted(wins.items()))
    assert outages > 0


def test_a_silent_server_ends_calls_at_their_deadline(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    A server that accepts and stays silent: every call and open() end by their deadline, and go on when it thaws.
    """

    async def scenario() -> Verdict:
        async with opened(server.url) as backend:
            request = ask("job", await store_now_ms(backend))
            late = backend.clone()
            server.freeze()
            async with asyncio.timeout(30):
                with pytest.raises(StoreUnavailableError, match="did not answer within 300 ms"):
                    await backend.claim([request], timeout_ms=300)
                with pytest.raises(StoreUnavailableError, match="did not answer within 300 ms"):
                    await backend.claim([request], timeout_ms=300)
                with pytest.raises(StoreUnavailableError, match="did not answer within 300 ms"):
                    await late.open(timeout_ms=300)
            server.thaw()
            await late.open(timeout_ms=TIMEOUT_MS)
            await late.close()
            return (await claimed(backend, request)).verdict

    assert Verdict.WON == asyncio.run(scenario())


def test_close_ends_while_the_server_is_silent(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    close() does not wait for a server that says nothing, and the call in flight hears of it.
    """

    async def scenario() -> None:
        async with opened(server.url) as backend:
            slot = await store_now_ms(backend)
            server.freeze()
            call = asyncio.ensure_future(backend.claim([ask("job", slot)], timeout_ms=600_000))
            await asyncio.sleep(0)
            async with asyncio.timeout(30):
                await backend.close()
                with pytest.raises((StoreUnavailableError, BackendStateError)):
                    await call
            server.thaw()

    asyncio.run(scenario())


class Cutter:
    """
    Carries bytes between a client and a server, and breaks the connection after so many of them.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.left: dict[str, int | None] = {"to": None, "from": None}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry one connection.
        """
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [
            asyncio.ensure_future(self._carry("to", reader, far_writer)),
            asyncio.ensure_future(self._carry("from", far_reader, writer)),
        ]
        with contextlib.suppress(ConnectionError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, far_writer):
            end.close()

    async def _carry(
        self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            left = self.left[way]
            if left is not None and left <= len(data):
                self.left[way] = None
                writer.write(data[:left])
                await writer.drain()
                return
            if left is not None:
                self.left[way] = left - len(data)
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def cutter_before(port: int) -> AsyncIterator[tuple[Cutter, int]]:
    """
    Run a cutter, and give it and its port.
    """
    cutter = Cutter(port)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(cutter.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield cutter, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("way", ["to", "from"])
def test_a_connection_that_is_cut_anywhere_costs_no_claim(
    server: testbed.PostgresServer, opened: Opened, ask: Ask, way: str
) -> None:
    """
    Cut after any number of bytes, a claim asked again with its token is won, with the same previous high, and once.
    """

    async def scenario() -> list[object]:
        wrong: list[object] = []
        async with opened(server.url) as other, cutter_before(server.port) as (cutter, port):
            near = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
            async with opened(near) as backend:
                first = await store_now_ms(backend) - 3_600_000
                high = None
                for number, count in enumerate(range(1, 1_200, 23)):
                    request = ask("job", first + number)
                    cutter.left[way] = count
                    with contextlib.suppress(StoreUnavailableError):
                        await claimed(backend, request)
                    cutter.left[way] = None
                    try:
                        answer = await claimed(backend, request)
                    except StoreUnavailableError:
                        # The reply came whole, and its connection broke right behind it.
                        answer = await claimed(backend, request)
                    stranger = await claimed(other, ask("job", request.slot))
                    told = (answer.verdict, answer.previous_high, stranger.verdict)
                    if told != (Verdict.WON, high, Verdict.RUNNING):
                        wrong.append((count, told))
                    high = request.slot
                    (closed,) = await backend.finish([end_of(request)], timeout_ms=TIMEOUT_MS)
                    if not getattr(closed, "accepted", False):
                        wrong.append((count, closed))
        return wrong

    assert [] == asyncio.run(scenario())


def test_a_cancelled_call_leaves_the_connection_alone(opened: Opened, ask: Ask) -> None:
    """
    A call in flight goes on after its caller was cancelled; one that waits for its turn is not made.
    """

    async def scenario() -> tuple[list[Any], list[Any], Verdict, int]:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            before = await fetch(backend, "SELECT pg_backend_pid() AS pid")
            first = asyncio.ensure_future(claimed(backend, ask("first", slot, token="mine")))
            second = asyncio.ensure_future(claimed(backend, ask("second", slot)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for each in (first, second):
                each.cancel()
            await asyncio.gather(first, second, return_exceptions=True)
            again = await claimed(backend, ask("first", slot, token="stranger"))
            made = await backend.history("second", limit=5, timeout_ms=TIMEOUT_MS)
            after = await fetch(backend, "SELECT pg_backend_pid() AS pid")
            return before, after, again.verdict, len(made)

    before, after, verdict, made = asyncio.run(scenario())

    assert before == after
    assert Verdict.RUNNING == verdict
    assert 0 == made


def test_a_connection_that_an_administrator_ends_is_opened_again(opened: Opened, ask: Ask) -> None:
    """
    The next call goes over a new connection.
    """

    async def scenario() -> tuple[Verdict, bool]:
        async with opened() as backend, opened() as other:
            slot = await store_now_ms(backend)
            (row,) = await fetch(backend, "SELECT pg_backend_pid() AS pid")
            await fetch(other, "SELECT pg_terminate_backend($1, 15000)", row["pid"])
            request = ask("job", slot)
            try:
                answer = await claimed(backend, request)
            except StoreUnavailableError:
                answer = await claimed(backend, request)
            (again,) = await fetch(backend, "SELECT pg_backend_pid() AS pid")
            return answer.verdict, row["pid"] != again["pid"]

    assert (Verdict.WON, True) == asyncio.run(scenario())


def test_a_row_that_somebody_holds_ends_calls_in_time(
    opened: Opened, ask: Ask, schema: str
) -> None:
    """
    A transaction left open by hand is reported as an outage, and the claim that waited for it is never made late.
    """

    async def scenario() -> tuple[str, Verdict, list[Any]]:
        async with opened() as backend, opened() as other:
            slot = await store_now_ms(backend)
            await claimed(backend, ask("job", slot, token="mine"))
            connection = other._opened()._session.connection  # type: ignore[union-attr]  # it is open
            await connection.execute("BEGIN")
            await connection.execute(f"UPDATE {schema}.jobs SET high = high")
            with pytest.raises(StoreUnavailableError) as caught:
                await backend.finish([end_of(ask("job", slot, token="mine"))], timeout_ms=400)
            await connection.execute("ROLLBACK")
            answer = await claimed(backend, ask("job", slot, token="mine"))
            left = await fetch(backend, "SHOW lock_timeout")
            return str(caught.value), answer.verdict, left

    told, verdict, left = asyncio.run(scenario())

    assert "lock timeout" in told or "did not answer" in told
    assert Verdict.WON == verdict
    assert "0" == left[0]["lock_timeout"]


def test_nothing_is_left_on_a_shared_connection(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    Behind a pooler with one connection, the next client finds no setting, no statement, no channel and no lock of ours.
    """

    async def scenario() -> list[Any]:
        with testbed.pgbouncer(server, pool_size=1) as bouncer:
            async with opened(bouncer.url) as backend:
                request = ask("job", await store_now_ms(backend))
                await claimed(backend, request)
                await backend.finish([end_of(request)], timeout_ms=TIMEOUT_MS)
            async with opened(bouncer.url) as client:
                return await fetch(
                    client,
                    "SELECT current_setting('lock_timeout') AS lock_timeout,"
                    " current_setting('statement_timeout') AS statement_timeout,"
                    " (SELECT count(*) FROM pg_prepared_statements WHERE name <> '') AS statements,"
                    " (SELECT count(*) FROM pg_listening_channels()) AS channels,"
                    " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks",
                )

    (row,) = asyncio.run(scenario())

    assert {
        "lock_timeout": "0",
        "statement_timeout": "0",
        "statements": 0,
        "channels": 0,
        "locks": 0,
    } == dict(row)
