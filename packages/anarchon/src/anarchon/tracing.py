"""
Traces for OpenTelemetry, fed from a scheduler's events: `pip install "anarchon[opentelemetry]"`.

Nothing else of anarchon imports this module, so that whoever wants no traces needs
no API for them.
"""

from __future__ import annotations

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from anarchon._version import __version__
from anarchon.events import (
    FinishEvent,
    HandoverEvent,
    LostEvent,
    RunEvent,
    SchedulerStoppedEvent,
    StartEvent,
    TakeoverEvent,
)
from anarchon.records import Status as RunStatus
from anarchon.scheduler import Scheduler

__all__ = ["OpenTelemetryTracing"]

_Key = tuple[str, int, int]


class OpenTelemetryTracing:
    """
    Makes a span of each attempt; what a handler traces itself lies within it.

    The span lasts from the call of the handler to the store's word that its end is
    recorded. It is the root of a trace: no request asked for the run.

    Args:
        schedulers: Those to be watched; watch() takes more.

        tracer_provider: Where spans go; None takes the global one.
    """

    def __init__(
        self, *schedulers: Scheduler, tracer_provider: TracerProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer("anarchon", __version__, tracer_provider)
        for scheduler in schedulers:
            self.watch(scheduler)

    def watch(self, scheduler: Scheduler) -> None:
        """
        Trace the runs of this scheduler as well.
        """
        # Schedulers of one process may share an instance id, so their spans are kept apart.
        spans = _Spans(self._tracer)
        scheduler.on("takeover", spans.taken_over)
        scheduler.on("start", spans.start)
        scheduler.on("finish", spans.finish)
        scheduler.on("handover", spans.hand_over)
        scheduler.on("lost", spans.lose)
        scheduler.on("scheduler_stopped", spans.stop)


class _Spans:
    """
    The spans of one scheduler's attempts.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[_Key, Span] = {}
        self._before: dict[_Key, str] = {}

    def taken_over(self, event: TakeoverEvent) -> None:
        """
        Keep who had the run before.
        """
        self._before[_key(event)] = event.from_instance

    def start(self, event: StartEvent) -> None:
        """
        Begin the attempt's span, and make it the parent of what the handler traces.
        """
        key = _key(event)
        attributes: dict[str, str | int] = {
            "anarchon.job": event.job,
            "anarchon.slot": event.slot,
            "anarchon.attempt": event.attempt,
            "anarchon.instance_id": event.instance,
            "anarchon.late_ms": event.late_ms,
        }
        before = self._before.pop(key, None)
        if before is not None:
            attributes["anarchon.taken_over_from"] = before
        span = self._tracer.start_span(
            f"run {event.job}",
            context=otel_context.Context(),
            kind=SpanKind.INTERNAL,
            attributes=attributes,
        )
        self._open[key] = span
        # The event is told in the task that then calls the handler, and a thread of the pool takes that
        # task's context along. The context ends with the task, so nothing needs to be put back.
        otel_context.attach(trace.set_span_in_context(span))

    def finish(self, event: FinishEvent) -> None:
        """
        End the span with how the handler ended.
        """
        span = self._ended(event, event.status.value, event.reason)
        if span is None:
            return
        if event.error is not None:
            span.record_exception(event.error)
        if event.status is RunStatus.FAILED:
            span.set_status(Status(StatusCode.ERROR, str(event.error or event.reason or "")))
        span.end()

    def hand_over(self, event: HandoverEvent) -> None:
        """
        End the span of a run that was released.
        """
        span = self._ended(event, RunStatus.INTERRUPTED.value, "handed_over")
        if span is not None:
            span.end()

    def lose(self, event: LostEvent) -> None:
        """
        End the span of a run that is no longer this instance's.
        """
        span = self._ended(event, "lost", event.reason)
        if span is not None:
            span.set_status(Status(StatusCode.ERROR, f"the run was lost ({event.reason})"))
            span.end()

    def stop(self, _event: SchedulerStoppedEvent) -> None:
        """
        End what nobody will tell any more: a thread that outlasts the scheduler ends unheard.
        """
        while self._open:
            _, span = self._open.popitem()
            span.set_attribute("anarchon.outcome", "unfinished")
            span.end()

    def _ended(self, event: RunEvent, outcome: str, reason: str | None) -> Span | None:
        """
        Take the span of an attempt; None if it has ended before, or its handler was never called.
        """
        key = _key(event)
        self._before.pop(key, None)
        span = self._open.pop(key, None)
        if span is not None:
            span.set_attribute("anarchon.outcome", outcome)
            if reason is not None:
                span.set_attribute("anarchon.reason", reason)
        return span


def _key(event: RunEvent) -> _Key:
    return event.job, event.slot, event.attempt
