"""
The backend: each call is one transaction, on a thread of its own, and ends by its deadline.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Self, TypeVar
from urllib.parse import unquote, urlsplit

import lmdb

from anarchon import (
    PROTOCOL_VERSION,
    BackendError,
    Capabilities,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    InvalidOptionError,
    Reach,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Retention,
    RunRecord,
    StoreRefusedError,
    StoreUnavailableError,
    SystemClock,
)
from anarchon.life import Life
from anarchon.protocol import (
    Change,
    Now,
    decide_claim,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.registry import url_options
from anarchon_lmdb.keeping import Book

__all__ = ["LmdbBackend"]

_MAP_BYTES = 1 << 30
_FILE_CLOCK_MS = 10
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Request = TypeVar(
    "Request", ClaimRequest, RegisterRequest, RenewRequest, FinishRequest, ReleaseRequest
)
Answer = TypeVar("Answer")

# LMDB allows one environment a file and process, so that clients of one process share it.
_ENVIRONMENTS: dict[tuple[int, str], lmdb.Environment] = {}
_LOCK = threading.Lock()


class LmdbBackend:
    """
    Keep leases in an LMDB file, for the processes of one host.

    Args:
        path: The folder of the file. It is made when it is missing.

        prefix: The front of every key; services that share a file use different ones.

        retention: How long records are kept.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    def __init__(
        self, path: str | Path, *, prefix: str = "anarchon", retention: Retention | None = None
    ) -> None:
        if not prefix.isascii() or not prefix.isprintable() or not 1 <= len(prefix) <= 64:
            msg = f"prefix is 1 to 64 printable ASCII characters; got {prefix!r}"
            raise InvalidOptionError(msg)
        self._path = Path(path).absolute()
        self._prefix = prefix
        self._retention = retention or Retention()
        self._life = Life()
        self._closing: asyncio.Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from ``lmdb:///relative/folder`` or ``lmdb:////absolute/folder``.
        """
        return cls(unquote(urlsplit(url).path)[1:], **url_options(url, {"prefix": str}))

    @property
    def capabilities(self) -> Capabilities:
        """
        Leases by this machine's clock, for the processes of one host; no hints.
        """
        return Capabilities(
            leases=True, store_clock=True, reach=Reach.HOST, time_resolution_ms=_FILE_CLOCK_MS
        )

    @property
    def service(self) -> str:
        """
        The store in words.
        """
        return f"LMDB {'.'.join(map(str, lmdb.version()))}, {self._path}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same file.
        """
        return type(self)(self._path, prefix=self._prefix, retention=self._retention)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Open the file, and see that it answers.
        """
        async with self._life.opening(self._end):
            self._closing = asyncio.get_running_loop().create_future()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="anarchon-lmdb")
            await self._on_thread(self._look, timeout_ms)

    async def close(self) -> None:
        """
        End calls in flight; what has begun in the file is wholly done, and heard by nobody.
        """
        self._life.close()
        await self._end()

    async def _end(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Tell the file system's clock, having asked the file.
        """
        return await self._call(self._look, timeout_ms)

    def _look(self) -> int:
        with _environment(self._path).begin():
            return self._wall_ms()

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Answer claims by the table.
        """

        def decide(book: Book, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
            return decide_claim(book.state(request.job), request, now)

        return await self._each(requests, decide, timeout_ms)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """

        def decide(book: Book, request: RegisterRequest, now: Now) -> Change[RegisterAnswer]:
            return decide_register(book.state(request.job), request, now)

        return await self._each(requests, decide, timeout_ms)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward, and date the beginning of their handlers.
        """

        def decide(book: Book, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
            change = decide_renewal(book.state(request.job), request, now)
            if change.answer.held and request.started_ago_ms is not None:
                started_ms = now.wall_ms - request.started_ago_ms
                book.started(request.job, request.slot, request.attempt, started_ms)
            return change

        return await self._each(requests, decide, timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs whose handlers have ended.
        """

        def decide(book: Book, request: FinishRequest, now: Now) -> Change[CloseAnswer]:
            record = book.view(request.job, request.slot, request.attempt)
            return decide_finish(book.state(request.job), record, request, now)

        return await self._each(requests, decide, timeout_ms)

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """

        def decide(book: Book, request: ReleaseRequest, now: Now) -> Change[CloseAnswer]:
            record = book.view(request.job, request.slot, request.attempt)
            return decide_release(book.state(request.job), record, request, now)

        return await self._each(requests, decide, timeout_ms)

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first.
        """

        def read() -> list[RunRecord]:
            with _environment(self._path).begin() as transaction:
                found = list(self._book(transaction).records(job))
            found.sort(key=lambda record: (-record.slot, record.job, -record.attempt))
            return found[:limit]

        return await self._call(read, timeout_ms)

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Tell nothing: this backend declares no hints, so nobody calls it.
        """
        del runs, timeout_ms
        return frozenset()

    async def _each(
        self,
        requests: Sequence[Request],
        decide: Callable[[Book, Request, Now], Change[Answer]],
        timeout_ms: int,
    ) -> list[Answer | BackendError]:
        """
        Serve a batch in one transaction: decide each item, then keep what its decision says.
        """
        self._life.check_open()
        if not requests:
            return []

        def serve() -> list[Answer | BackendError]:
            answers: list[Answer | BackendError] = []
            with _environment(self._path).begin(write=True) as transaction:
                book = self._book(transaction)
                now = self._now()
                for request in requests:
                    try:
                        change = decide(book, request, now)
                    except BackendError as error:
                        answers.append(error)
                        continue
                    if change.state is not None:
                        book.keep(request.job, change.state)
                    book.write(request.job, change.records, now)
                    answers.append(change.answer)
            return answers

        return await self._call(serve, timeout_ms)

    async def _call(self, work: Callable[[], Answer], timeout_ms: int) -> Answer:
        """
        Serve a call of a backend that is open.
        """
        self._life.check_open()
        return await self._on_thread(work, timeout_ms)

    async def _on_thread(self, work: Callable[[], Answer], timeout_ms: int) -> Answer:
        """
        Let the thread work, until the deadline. Who stops waiting leaves the transaction to its end.
        """
        assert self._thread is not None
        assert self._closing is not None
        call = asyncio.get_running_loop().run_in_executor(self._thread, work)
        call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        waiting: set[asyncio.Future[Answer] | asyncio.Future[None]] = {call, self._closing}
        await asyncio.wait(waiting, timeout=timeout_ms / 1_000, return_when="FIRST_COMPLETED")
        if self._closing.done():
            msg = "this backend was closed during the call, whose outcome is unknown"
            raise StoreUnavailableError(msg)
        if not call.done():
            msg = f"{self.service} did not answer within {timeout_ms} ms: somebody holds the file"
            raise StoreUnavailableError(msg)
        try:
            return call.result()
        except lmdb.Error as error:
            msg = f"{self.service}: {error}"
            raise StoreRefusedError(msg) from error

    def _book(self, transaction: lmdb.Transaction) -> Book:
        return Book(transaction, self._prefix.encode(), self._retention)

    def _now(self) -> Now:
        """
        Read the clocks inside the transaction: leases by the one that counts from this boot.
        """
        boot = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""
        return Now(self._wall_ms(), SystemClock().suspend_ms(), boot)

    def _wall_ms(self) -> int:
        """
        Ask the file system for the time: it dates files by its own clock, whatever a process believes.
        """
        dated = self._path / "clock"
        dated.touch()
        return dated.stat().st_mtime_ns // 1_000_000


def _environment(path: Path) -> lmdb.Environment:
    """
    Return this process's environment for a file. A forked child opens one of its own.
    """
    with _LOCK:
        key = (os.getpid(), str(path))
        if key not in _ENVIRONMENTS:
            path.mkdir(parents=True, exist_ok=True)
            _ENVIRONMENTS[key] = lmdb.open(str(path), map_size=_MAP_BYTES, max_readers=1_024)
        return _ENVIRONMENTS[key]
