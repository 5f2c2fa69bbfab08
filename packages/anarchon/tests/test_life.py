"""
The life of a backend: what opens it, what ends it, and what it says of itself meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anarchon.errors import BackendStateError, StoreUnavailableError
from anarchon.life import Life


class Opened:
    """
    Something with a life, that waits while it is being opened, and counts how often it was undone.
    """

    def __init__(self) -> None:
        self.life = Life()
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.undone = 0

    async def open(self, then: Callable[[], Awaitable[None]] | None = None) -> None:
        """
        Wait to be let go on, and do something more.
        """
        async with self.life.opening(self.undo):
            self.entered.set()
            await self.go_on.wait()
            if then is not None:
                await then()

    async def undo(self) -> None:
        """
        Count, and let others run, as whoever closes a connection does.
        """
        self.undone += 1
        await asyncio.sleep(0)


async def unavailable() -> None:
    """
    Find no store.
    """
    raise StoreUnavailableError("nobody answers")


def test_a_life_that_goes_well() -> None:
    """
    Unopened, opening, open, closed: it can be used in between, and nothing is undone.
    """

    async def scenario() -> None:
        opened = Opened()
        life = opened.life
        told = [(life.is_opening, life.is_open, life.is_closed)]
        with pytest.raises(BackendStateError, match="is unopened; open"):
            life.check_open()
        opening = asyncio.ensure_future(opened.open())
        await opened.entered.wait()
        told.append((life.is_opening, life.is_open, life.is_closed))
        with pytest.raises(BackendStateError, match="is opening"):
            life.check_open()
        opened.go_on.set()
        await opening
        told.append((life.is_opening, life.is_open, life.is_closed))
        life.check_open()
        life.close()
        life.close()
        told.append((life.is_opening, life.is_open, life.is_closed))
        with pytest.raises(BackendStateError, match="is closed"):
            life.check_open()

        nothing = (False, False, False)
        assert [nothing, (True, False, False), (False, True, False), (False, False, True)] == told
        assert 0 == opened.undone

    asyncio.run(scenario())


def test_it_is_opened_once() -> None:
    """
    While it is being opened, when it is open and when it is closed, open() is refused, and nothing is undone by that.
    """

    async def scenario() -> None:
        opened = Opened()
        opening = asyncio.ensure_future(opened.open())
        await opened.entered.wait()
        with pytest.raises(BackendStateError, match="opened before and is opening"):
            await opened.open()
        opened.go_on.set()
        await opening
        with pytest.raises(BackendStateError, match="opened before and is open"):
            await opened.open()
        opened.life.close()
        with pytest.raises(BackendStateError, match="is closed; clone"):
            await opened.open()

        assert 0 == opened.undone

    asyncio.run(scenario())


def test_what_failed_may_be_opened_again() -> None:
    """
    What was begun is undone, and the next open() finds it as new.
    """

    async def scenario() -> None:
        opened = Opened()
        opened.go_on.set()
        with pytest.raises(StoreUnavailableError, match="nobody answers"):
            await opened.open(unavailable)
        undone = opened.undone
        await opened.open()

        assert 1 == undone
        assert opened.life.is_open

    asyncio.run(scenario())


def test_what_was_cancelled_may_be_opened_again() -> None:
    """
    Whoever gives up leaves it unopened, also when that happens twice, the second time while it is being undone.
    """

    async def scenario() -> None:
        opened = Opened()
        opening = asyncio.ensure_future(opened.open())
        await opened.entered.wait()
        opening.cancel()
        while not opened.undone:  # noqa: ASYNC110 - the backend under test sets no event for it
            await asyncio.sleep(0)  # Until it is being undone.
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        opened.go_on.set()
        await opened.open()

        assert opened.life.is_open

    asyncio.run(scenario())


@pytest.mark.parametrize("then", [None, unavailable], ids=["went-well", "failed"])
def test_it_is_closed_while_it_is_being_opened(
    then: Callable[[], Awaitable[None]] | None,
) -> None:
    """
    What was begun is undone, and open() says why, whatever became of it; it stays closed.
    """

    async def scenario() -> None:
        opened = Opened()
        opening = asyncio.ensure_future(opened.open(then))
        await opened.entered.wait()
        opened.life.close()
        opened.go_on.set()
        with pytest.raises(BackendStateError, match="closed while it was being opened") as told:
            await opening
        cause = None if then is None else StoreUnavailableError

        assert opened.life.is_closed
        assert 1 == opened.undone
        assert cause is (told.value.__cause__ and type(told.value.__cause__))

    asyncio.run(scenario())


def test_who_gave_up_is_told_nothing_of_the_closing() -> None:
    """
    A cancelled open() ends as cancelled, also where it was closed as well.
    """

    async def scenario() -> None:
        opened = Opened()
        opening = asyncio.ensure_future(opened.open())
        await opened.entered.wait()
        opened.life.close()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

        assert opened.life.is_closed

    asyncio.run(scenario())


def test_nothing_may_have_to_be_undone() -> None:
    """
    Where open() begins nothing that outlives it there is nothing to end.
    """

    async def scenario() -> None:
        life = Life()
        with pytest.raises(StoreUnavailableError):
            async with life.opening():
                await unavailable()
        async with life.opening():
            pass

        assert life.is_open

    asyncio.run(scenario())
