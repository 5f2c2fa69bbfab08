"""
Tasks that must not be lost: runs that stop() waits for, and internal tasks kept alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from anarchon.errors import BackendError, InternalError
from anarchon.events import ErrorEvent, Event
from anarchon.scheduler.store_line import Backoff

__all__ = ["Supervisor"]

logger = logging.getLogger("anarchon")


class Supervisor:
    """
    Holds the tasks of one life of a scheduler, and tells when one fails.

    Args:
        emit: Tells an event.

        random: Draws the pauses before a task is started again.

        instance_id: The label of this instance.
    """

    def __init__(self, emit: Callable[[Event], None], random: Random, instance_id: str) -> None:
        self._emit = emit
        self._random = random
        self._instance_id = instance_id
        self._kept: set[asyncio.Task[None]] = set()
        self.works: set[asyncio.Task[None]] = set()

    def work(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """
        Run something that ends by itself, and that stop() waits for.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self.works.add(task)
        task.add_done_callback(self._work_ended)

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """
        Run an internal task, and start it again should it ever fail.
        """
        task = asyncio.get_running_loop().create_task(
            self._supervise(work, name), name=f"anarchon-{name}"
        )
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task

    async def stop(self) -> None:
        """
        Cancel what is kept, and wait for its end.
        """
        kept = tuple(self._kept)
        for task in kept:
            task.cancel()
        await asyncio.gather(*kept, return_exceptions=True)

    async def _supervise(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        backoff = Backoff(self._random)
        while True:
            try:
                await work()
            except BackendError as error:
                logger.debug("the task %r could not reach the store: %s", name, error)
            except Exception as error:
                message = f"the task {name!r} failed, and is started again: {error}"
                logger.exception("%s. This is a bug in anarchon: please report it", message)
                bug = InternalError(message)
                bug.__cause__ = error
                self._emit(ErrorEvent(instance=self._instance_id, message=message, error=bug))
            else:
                return
            await asyncio.sleep(backoff.next_s())

    def _work_ended(self, task: asyncio.Task[None]) -> None:
        self.works.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        message = f"the task {task.get_name()!r} failed: {error}"
        logger.error("%s. This is a bug in anarchon: please report it", message, exc_info=error)
        self._emit(ErrorEvent(instance=self._instance_id, message=message, error=error))
