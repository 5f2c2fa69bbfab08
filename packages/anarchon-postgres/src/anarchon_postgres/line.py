"""
A connection that is opened again after a failure, with one call on it at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon_postgres.driver import Connect, Connection
from anarchon_postgres.session import Session
from anarchon_postgres.trouble import keeps_connection, store_error

__all__ = ["Line"]

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 0.5


class Line:
    """
    The way to the server: calls wait for their turn, and each ends by its deadline.

    A call that is cancelled before its turn is not made. One that is under way goes
    on to its end, so that the connection stays usable and the server is never asked
    to stop in the middle; its caller just does not hear of it.

    Args:
        connect: Opens a connection; see `driver.Connect`.

        dsn: What it is called with; None where it knows by itself.

        place: The server in words, for messages.

        ready: What a new connection goes through before it is used.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        dsn: str | None,
        place: str,
        ready: Callable[[Session], Awaitable[None]],
    ) -> None:
        self._connect = connect
        self._dsn = dsn
        self._place = place
        self._ready = ready
        self._turn = asyncio.Lock()
        self._session: Session | None = None
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        self._closed = False

    async def run(self, work: Callable[[Session], Awaitable[T]], *, timeout_ms: int) -> T:
        """
        Run *work* on the connection.

        Raises:
            BackendStateError: The line was closed.

            StoreUnavailableError: The server did not answer in time, or the connection broke.

            BackendError: What the server refused.
        """
        if self._closed:
            raise _closed()
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[T] = loop.create_future()
        task = _begun(self._call(work, heard, loop.time() + timeout_ms / 1_000, timeout_ms), loop)
        if not task.done():
            self._tasks.setdefault(task, False)

            def ended(_task: asyncio.Task[None]) -> None:
                self._tasks.pop(task, None)
                if not heard.done():
                    # The task was cancelled, maybe before its first step; close() does that.
                    heard.set_exception(_closed())

            task.add_done_callback(ended)
        try:
            return await heard
        except asyncio.CancelledError:
            if not self._tasks.get(task, True):
                task.cancel()
            raise

    async def close(self) -> None:
        """
        End the calls in flight and the connection. Closing twice is no error.
        """
        self._closed = True
        session, self._session = self._session, None
        tasks = list(self._tasks)
        if session is not None:
            if tasks:
                session.connection.terminate()
            else:
                await _close(session.connection)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _call(
        self,
        work: Callable[[Session], Awaitable[T]],
        heard: asyncio.Future[T],
        deadline_s: float,
        timeout_ms: int,
    ) -> None:
        """
        Make the call, and tell its caller in the same step; one that has gone hears nothing.
        """
        task = asyncio.current_task()
        assert task is not None
        try:
            answer = await self._take_turn(task, work, deadline_s, timeout_ms)
        except Exception as error:  # noqa: BLE001 - the caller hears of it, whatever it is.
            if not heard.done():
                heard.set_exception(error)
        else:
            if not heard.done():
                heard.set_result(answer)
        finally:
            self._tasks.pop(task, None)

    async def _take_turn(
        self,
        task: asyncio.Task[Any],
        work: Callable[[Session], Awaitable[T]],
        deadline_s: float,
        timeout_ms: int,
    ) -> T:
        if self._turn.locked():
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._turn.acquire()
            except TimeoutError as error:
                msg = f"{self._place}: the connection was busy with an earlier call for {timeout_ms} ms"
                raise StoreUnavailableError(msg) from error
        else:
            await self._turn.acquire()
        self._tasks[task] = True
        try:
            session = await self._opened(deadline_s, timeout_ms)
            return await self._work(session, work, deadline_s, timeout_ms)
        finally:
            self._turn.release()

    async def _work(
        self,
        session: Session,
        work: Callable[[Session], Awaitable[T]],
        deadline_s: float,
        timeout_ms: int,
    ) -> T:
        """
        Do the work, with the connection's end as the deadline: it also ends what waits on it.
        """
        session.deadline_s = deadline_s
        timer = asyncio.get_running_loop().call_at(deadline_s, session.expire)
        try:
            return await work(session)
        except BaseException as error:
            if not keeps_connection(error):
                self._drop(session)
            if session.expired:
                raise self._silent(timeout_ms) from error
            if isinstance(error, BackendError) or not isinstance(error, Exception):
                raise
            raise store_error(error, self._place) from error
        finally:
            timer.cancel()

    async def _opened(self, deadline_s: float, timeout_ms: int) -> Session:
        """
        Return the connection, a new one if there is none.
        """
        if self._session is not None and not self._session.connection.is_closed():
            return self._session
        self._session = None
        try:
            async with asyncio.timeout_at(deadline_s):
                session = await self._open(deadline_s)
        except TimeoutError as error:
            raise self._silent(timeout_ms) from error
        if self._closed:
            session.connection.terminate()
            raise _closed()
        self._session = session
        return session

    async def _open(self, deadline_s: float) -> Session:
        left_s = max(0.001, deadline_s - asyncio.get_running_loop().time())
        options = {"timeout": left_s, "statement_cache_size": 0}
        try:
            connection: Connection = await (
                self._connect(**options)
                if self._dsn is None
                else self._connect(self._dsn, **options)
            )
        except TimeoutError:
            raise
        except Exception as error:
            raise store_error(error, self._place) from error
        session = Session(connection=connection, place=self._place, prepared={})
        session.deadline_s = deadline_s
        try:
            await self._ready(session)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, BackendError | TimeoutError) or not isinstance(error, Exception):
                raise
            raise store_error(error, self._place) from error
        return session

    def _drop(self, session: Session) -> None:
        session.connection.terminate()
        if self._session is session:
            self._session = None

    def _silent(self, timeout_ms: int) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self._place} did not answer within {timeout_ms} ms; the connection was given up"
        )


def _begun(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[None]:
    """
    Make a task, and take its first step at once where Python can: a turn of the loop less for each call.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)


async def _close(connection: Connection) -> None:
    """
    Say good-bye, to a server that may not listen.
    """
    with contextlib.suppress(Exception):
        await connection.close(timeout=_CLOSE_TIMEOUT_S)
    connection.terminate()


def _closed() -> BackendStateError:
    return BackendStateError("this backend is closed; clone() gives a fresh one")
