"""
How jobs are written down: decorators and calls, on a scheduler or on a collection.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, Unpack, overload

from anarchon.durations import Duration
from anarchon.errors import DuplicateJobError
from anarchon.handler import Handler
from anarchon.job import JobOptions, JobSpec, check_name, make_spec
from anarchon.slots import Cron, Every, Once, Schedule
from anarchon.slots.facts import check_schedule

__all__ = ["JobDefinitions", "Jobs", "duplicate"]

HandlerT = TypeVar("HandlerT", bound=Handler)


class JobDefinitions:
    """
    The calls that define jobs. Each also works as a decorator, which returns the very function.
    """

    def _add(self, spec: JobSpec) -> None:
        """
        Take a job in.
        """
        msg = f"{type(self).__name__} takes no jobs in: {spec.name!r}"
        raise TypeError(msg)

    @overload
    def every(
        self,
        name: str,
        interval: Duration,
        *,
        offset: Duration = ...,
        **options: Unpack[JobOptions],
    ) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def every(
        self,
        name: str,
        interval: Duration,
        handler: HandlerT,
        *,
        offset: Duration = ...,
        **options: Unpack[JobOptions],
    ) -> HandlerT: ...

    def every(
        self,
        name: str,
        interval: Duration,
        handler: Any = None,
        *,
        offset: Duration = 0,
        **options: Any,
    ) -> Any:
        """
        Run a job on a grid counted from 1970-01-01 UTC.

        Args:
            name: Identifies the job in the store; the same on every instance.

            interval: The distance between two slots, 100 ms or more.

            handler: What to run; left out, a decorator is returned.

            offset: Shifts the grid; less than the interval.

            options: See JobOptions.

        Raises:
            DefinitionError: Something about the job cannot be.
        """
        schedule = Every(interval, offset=offset)
        return self._define(name, lambda _timezone: schedule, handler, options)

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        *,
        timezone: str | None = ...,
        **options: Unpack[JobOptions],
    ) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: HandlerT,
        *,
        timezone: str | None = ...,
        **options: Unpack[JobOptions],
    ) -> HandlerT: ...

    def cron(
        self,
        name: str,
        expression: str,
        handler: Any = None,
        *,
        timezone: str | None = None,
        **options: Any,
    ) -> Any:
        """
        Run a job by a cron expression: five fields, or six with the seconds first.

        Args:
            name: Identifies the job in the store; the same on every instance.

            expression: The cron expression.

            handler: What to run; left out, a decorator is returned.

            timezone: An IANA key; None takes the scheduler's.

            options: See JobOptions.

        Raises:
            DefinitionError: Something about the job cannot be.
        """
        if timezone is not None:
            fixed = Cron(expression, timezone)
            return self._define(name, lambda _timezone: fixed, handler, options)
        Cron(
            expression
        )  # An expression that cannot be read is an error here, not where the job is included.
        return self._define(name, lambda default: Cron(expression, default), handler, options)

    @overload
    def once(
        self, name: str, at: datetime | int, **options: Unpack[JobOptions]
    ) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def once(
        self, name: str, at: datetime | int, handler: HandlerT, **options: Unpack[JobOptions]
    ) -> HandlerT: ...

    def once(self, name: str, at: datetime | int, handler: Any = None, **options: Any) -> Any:
        """
        Run a job at one instant.

        Args:
            name: Identifies the job in the store; the same on every instance.

            at: An aware datetime, or milliseconds since 1970.

            handler: What to run; left out, a decorator is returned.

            options: See JobOptions.

        Raises:
            DefinitionError: Something about the job cannot be.
        """
        schedule = Once(at)
        return self._define(name, lambda _timezone: schedule, handler, options)

    @overload
    def job(
        self, name: str, schedule: Schedule, **options: Unpack[JobOptions]
    ) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def job(
        self, name: str, schedule: Schedule, handler: HandlerT, **options: Unpack[JobOptions]
    ) -> HandlerT: ...

    def job(self, name: str, schedule: Schedule, handler: Any = None, **options: Any) -> Any:
        """
        Run a job by any schedule: whatever has next_slot and last_slot.

        Args:
            name: Identifies the job in the store; the same on every instance.

            schedule: Computes the slots, the same ones on every instance.

            handler: What to run; left out, a decorator is returned.

            options: See JobOptions.

        Raises:
            DefinitionError: Something about the job cannot be.
        """
        check_schedule(schedule)
        return self._define(name, lambda _timezone: schedule, handler, options)

    def _define(
        self, name: str, schedule: Callable[[str], Schedule], handler: Any, options: dict[str, Any]
    ) -> Any:
        check_name(name)
        if handler is not None:
            self._add(make_spec(name, schedule, handler, options))
            return handler

        def decorate(function: Any) -> Any:
            self._add(make_spec(name, schedule, function, options))
            return function

        return decorate


class Jobs(JobDefinitions):
    """
    Jobs of a module that has no scheduler: collected here, and included there.
    """

    def __init__(self) -> None:
        self._specs: dict[str, JobSpec] = {}

    @property
    def specs(self) -> tuple[JobSpec, ...]:
        """
        The jobs in the order in which they were written.
        """
        return tuple(self._specs.values())

    def _add(self, spec: JobSpec) -> None:
        if spec.name in self._specs:
            raise duplicate(spec.name)
        self._specs[spec.name] = spec


def duplicate(name: str) -> DuplicateJobError:
    """
    Say that a name is taken.
    """
    msg = f"job {name!r} is defined twice; a name identifies one job in the store"
    return DuplicateJobError(msg)
