"""
Each attempt is a span; what its handler traces lies within it.
"""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from virtual import START_MS, World

from anarchon import RunContext, Scheduler
from anarchon.events import (
    FinishEvent,
    HandoverEvent,
    LostEvent,
    SchedulerStoppedEvent,
    StartEvent,
    TakeoverEvent,
)
from anarchon.records import Reason, Status
from anarchon.tracing import OpenTelemetryTracing

WHERE: dict[str, Any] = {"instance": "me", "job": "job", "slot": START_MS, "attempt": 2}


class Traces:
    """
    A provider that keeps what ended.
    """

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("the user's")

    @property
    def ended(self) -> list[ReadableSpan]:
        """
        The spans that ended, in that order.
        """
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def traces() -> Traces:
    """
    A provider of the test's own.
    """
    return Traces()


def told_by(traces: Traces) -> Scheduler:
    """
    Make a scheduler whose events a test tells.
    """
    scheduler = Scheduler("memory:")
    OpenTelemetryTracing(scheduler, tracer_provider=traces.provider)
    return scheduler


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_handlers_spans_lie_within_the_attempts(
    world: World, traces: Traces, kind: str
) -> None:
    """
    The attempt's span is the parent of what an async handler traces, and of what a thread does; it is a root itself.
    """
    node = world.node("me")
    OpenTelemetryTracing(node.scheduler, tracer_provider=traces.provider)

    def plain(ctx: RunContext) -> None:
        with traces.tracer.start_as_current_span("work"):
            pass

    async def asynchronous(ctx: RunContext) -> None:
        plain(ctx)

    node.scheduler.every(
        "job", "1h", asynchronous if kind == "async" else plain, offset="10s", jitter=0
    )
    with traces.tracer.start_as_current_span("the service starts"):
        await node.start()
    await node.hears("finish")
    _, work, run = traces.ended

    assert ("work", "run job") == (work.name, run.name)
    assert work.parent is not None
    assert run.context is not None
    assert (run.context.span_id, run.context.trace_id) == (
        work.parent.span_id,
        work.parent.trace_id,
    )
    assert None is run.parent
    assert {
        "anarchon.job": "job",
        "anarchon.slot": START_MS + 10_000,
        "anarchon.attempt": 1,
        "anarchon.instance_id": "me",
        "anarchon.late_ms": 0,
        "anarchon.outcome": "success",
    } == dict(run.attributes or {})
    assert StatusCode.UNSET is run.status.status_code


async def test_runs_of_one_instance_are_traces_of_their_own(world: World, traces: Traces) -> None:
    """
    A run's span does not lie within an earlier run's.
    """
    node = world.node()
    OpenTelemetryTracing(node.scheduler, tracer_provider=traces.provider)

    @node.scheduler.every("job", "1m", jitter=0)
    async def job(ctx: RunContext) -> None: ...

    await node.start()
    await node.hears("finish", count=2, within_ms=180_000)
    first, second, *_ = traces.ended

    assert [None, None] == [first.parent, second.parent]
    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id != second.context.trace_id


async def test_failure_is_an_error_with_its_exception(world: World, traces: Traces) -> None:
    """
    What the handler raised stands in the span.
    """
    node = world.node()
    OpenTelemetryTracing(node.scheduler, tracer_provider=traces.provider)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        message = "no paper"
        raise ValueError(message)

    await node.start()
    await node.hears("finish")
    (run,) = traces.ended
    (event,) = run.events

    assert (StatusCode.ERROR, "no paper") == (run.status.status_code, run.status.description)
    assert "exception" == event.name
    assert "no paper" == (event.attributes or {})["exception.message"]


@pytest.mark.parametrize(
    ("event", "outcome", "reason", "code"),
    [
        (HandoverEvent(**WHERE), "interrupted", "handed_over", StatusCode.UNSET),
        (LostEvent(**WHERE, reason="lease"), "lost", "lease", StatusCode.ERROR),
        (
            FinishEvent(**WHERE, status=Status.FAILED, reason=Reason.TIMEOUT, duration_ms=1),
            "failed",
            "timeout",
            StatusCode.ERROR,
        ),
        (
            SchedulerStoppedEvent(instance="me", unfinished=1),
            "unfinished",
            None,
            StatusCode.UNSET,
        ),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_span_ends_with_the_run(
    traces: Traces, event: Any, outcome: str, reason: str | None, code: StatusCode
) -> None:
    """
    However a run ends here, its span ends once, and says so; a takeover names the runner before.
    """
    scheduler = told_by(traces)
    scheduler._tell(TakeoverEvent(**WHERE, from_instance="other"))
    scheduler._tell(StartEvent(**WHERE, late_ms=7))
    scheduler._tell(event)
    scheduler._tell(HandoverEvent(**WHERE))
    scheduler._tell(SchedulerStoppedEvent(instance="me"))
    (run,) = traces.ended
    attributes = run.attributes or {}

    assert "other" == attributes["anarchon.taken_over_from"]
    assert (outcome, reason) == (
        attributes["anarchon.outcome"],
        attributes.get("anarchon.reason"),
    )
    assert code is run.status.status_code


@pytest.mark.parametrize(
    "event",
    [
        HandoverEvent(**WHERE),
        LostEvent(**WHERE, reason="token"),
        FinishEvent(**WHERE, status=Status.SUCCESS, duration_ms=1),
    ],
    ids=lambda event: event.type,
)
def test_run_whose_handler_was_never_called_has_no_span(traces: Traces, event: Any) -> None:
    """
    A run that was taken over and released at once leaves nothing behind.
    """
    scheduler = told_by(traces)
    scheduler._tell(TakeoverEvent(**WHERE, from_instance="other"))
    scheduler._tell(event)
    scheduler._tell(StartEvent(**WHERE, late_ms=0))
    scheduler._tell(SchedulerStoppedEvent(instance="me"))
    (run,) = traces.ended

    assert "anarchon.taken_over_from" not in (run.attributes or {})
