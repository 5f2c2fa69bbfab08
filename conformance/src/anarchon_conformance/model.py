"""
A backend's answers beside those of the core's table, step by step.

Leases are the difficulty: no clock goes into a backend. Every lease here is either far
longer than the test or was released, so that the two clocks cannot disagree on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from anarchon.backend import (
    ClaimAnswer,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    RunView,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.protocol import (
    Change,
    JobState,
    Now,
    RecordOpen,
    RecordView,
    check_finish_status,
    decide_claim,
    decide_claim_only,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.records import Reason, Status
from anarchon_conformance.harness import Bench, Instance, World

__all__ = ["ClaimOnlyModel", "LeaseModel", "Model", "Rows", "Step", "replay"]

_HOUR_MS = 3_600_000
_SLACK_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One request, in terms that do not depend on the clock.

    ``aim`` says how it relates to the newest attempt of its job: that attempt's own, the
    next one, a later slot, or any. Else nearly all requests would be strangers'. A token
    is made of slot, attempt and letter, so that none ever belongs to two attempts.
    """

    kind: str
    job: str
    aim: str
    slot: int
    attempt: int
    letter: str
    options: Mapping[str, Any]

    def key(self, world: World, rows: Rows) -> dict[str, Any]:
        """
        Say which attempt the request is about, and with which token.
        """
        newest = max((key for key in rows if key[0] == self.job), default=None)
        slot, attempt = world.slot(self.slot), self.attempt
        if newest is not None and self.aim == "own":
            token = rows[newest].token
            return {"job": self.job, "slot": newest[1], "attempt": newest[2], "token": token}
        if newest is not None and self.aim == "next":
            slot, attempt = newest[1], newest[2] + 1
        if newest is not None and self.aim == "later":
            slot, attempt = newest[1] + 1_000, 1
        token = f"{self.job}-{slot}-{attempt}-{self.letter}"
        return {"job": self.job, "slot": slot, "attempt": attempt, "token": token}


@dataclass(slots=True)
class _Row:
    """
    A record as the model keeps it.
    """

    token: str
    instance_id: str
    status: Status
    reason: Reason | None
    error: str | None = None


Rows = dict[tuple[str, int, int], _Row]


class Model(Protocol):
    """
    Answers a request as the backend must.
    """

    rows: Rows

    def answer(self, kind: str, request: Any, now: Now) -> Any:
        """
        Answer, or raise the BackendError that the backend must put in the answer's place.
        """


@dataclass(slots=True)
class LeaseModel:
    """
    The core's table, with the state that it works on.
    """

    states: dict[str, JobState] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)

    def answer(self, kind: str, request: Any, now: Now) -> Any:
        """
        Decide by the table, and keep what it says.
        """
        state = self.states.get(request.job)
        change: Change[Any]
        if kind == "claim":
            change = decide_claim(state, request, now)
        elif kind == "register":
            change = decide_register(state, request, now)
        elif kind == "renew":
            change = decide_renewal(state, request, now)
        elif kind == "finish":
            change = decide_finish(state, self._view(request), request, now)
        else:
            change = decide_release(state, self._view(request), request, now)
        if change.state is not None:
            self.states[request.job] = change.state
        for record in change.records:
            key = (request.job, record.slot, record.attempt)
            if isinstance(record, RecordOpen):
                row = _Row(record.token, record.instance_id, record.status, record.reason)
                self.rows[key] = row
            elif self.rows[key].status is Status.RUNNING:
                row = self.rows[key]
                row.status, row.reason, row.error = record.status, record.reason, record.error
        return change.answer

    def _view(self, request: RenewRequest) -> RecordView | None:
        row = self.rows.get((request.job, request.slot, request.attempt))
        return (
            None
            if row is None
            else RecordView(token=row.token, status=row.status, reason=row.reason)
        )


@dataclass(slots=True)
class ClaimOnlyModel:
    """
    The rules of a claim-only store.

    With `rising`, one that grants the slots of a job in rising order alone.
    """

    rising: bool = False
    rows: Rows = field(default_factory=dict)

    def answer(self, kind: str, request: Any, now: Now) -> Any:
        """
        Decide by the rules, and keep what they say.
        """
        if kind == "claim":
            held = self.rows.get((request.job, request.slot, 1))
            now_ms = now.wall_ms or None
            passed = [slot for job, slot, _ in self.rows if job == request.job]
            floor = max(passed, default=None) if self.rising else None
            answer = decide_claim_only(held.token if held else None, floor, request, now_ms)
            if answer.verdict is Verdict.WON and held is None:
                row = _Row(request.token, request.instance_id, Status.RUNNING, None)
                self.rows[request.job, request.slot, 1] = row
            return answer
        check_finish_status(request, leases=False)
        own = self.rows.get((request.job, request.slot, request.attempt))
        if own is None or own.token != request.token:
            return CloseAnswer(accepted=False)
        if own.status is Status.RUNNING:
            interrupted = request.status is Status.INTERRUPTED
            own.status, own.error = request.status, request.error
            own.reason = Reason.STOPPED if interrupted else request.reason
        return CloseAnswer(accepted=True)


async def replay(bench: Bench, model: Model, plan: list[Step]) -> None:
    """
    Send every step to the backend and to the model, and compare.

    Raises:
        AssertionError: An answer, or the history in the end, differs.
    """
    async with bench.world() as world:
        instances = await world.two()
        for place, step in enumerate(plan):
            instance = instances[place % 2]
            request = await _request(instance, step, step.key(world, model.rows))
            call = getattr(instance.backend, step.kind)
            (told,) = await call([request], timeout_ms=bench.timeout_ms)
            now = await _now(instance, told)
            try:
                expected = model.answer(step.kind, request, now)
            except BackendError:
                assert isinstance(told, BackendError), f"step {place}, {request!r}: {told!r}"
                continue
            difference = _difference(expected, told)

            assert not difference, f"step {place}, {request!r}: {difference}"
        await _compare_history(instances[0], model)


async def _now(instance: Instance, told: Any) -> Now:
    """
    Take the store's clock at the decision from its answer.
    """
    now_ms = getattr(told, "store_now_ms", None)
    if now_ms is None and instance.bench.capabilities.store_clock:
        now_ms = await instance.now_ms()
    return Now(now_ms or 0, now_ms or 0)


async def _request(instance: Instance, step: Step, key: dict[str, Any]) -> Any:
    """
    Write the request of a step; what lies in the past or the future does so by hours.
    """
    options = dict(step.options)
    if step.kind == "renew":
        return RenewRequest(**key, lease_ms=instance.bench.long_ms)
    if step.kind == "release":
        return ReleaseRequest(**key, **options)
    if step.kind == "finish":
        return FinishRequest(**key, status=Status(options.pop("status")), **options)
    now_ms = await instance.now_ms()
    if options.pop("ahead"):
        key["slot"] = now_ms + _HOUR_MS + step.slot
    if step.kind == "register":
        slot = None if options.pop("empty") else key["slot"]
        return RegisterRequest(job=step.job, slot=slot, **options)
    if options.pop("expired"):
        options["not_after_ms"] = now_ms - _HOUR_MS
    if options.pop("too_old"):
        options["max_lateness_ms"] = _SLACK_MS
    return instance.claim_request(**key, **options)


def _difference(expected: Any, told: Any) -> str:
    """
    Say in which fields two answers differ; instants and durations may by a little.
    """
    if type(expected) is not type(told):
        return f"expected {expected!r}, got {told!r}"
    kinds: dict[type, tuple[str, ...]] = {
        ClaimAnswer: ("verdict", "reason", "high", "previous_high", "recorded"),
        CloseAnswer: ("accepted", "high"),
        RegisterAnswer: ("new", "high", "fingerprint", "zone_digests"),
        RenewAnswer: ("held", "high"),
    }
    wrong = [
        f"{name}: expected {getattr(expected, name)!r}, got {getattr(told, name)!r}"
        for name in kinds[type(expected)]
        if getattr(expected, name) != getattr(told, name)
    ]
    for name in ("since_ms", "wait_ms"):
        wrong += _far(name, getattr(expected, name, None), getattr(told, name, None))
    wrong += _run_difference(getattr(expected, "run", None), getattr(told, "run", None))
    return "; ".join(wrong)


def _far(name: str, expected: int | None, told: int | None) -> list[str]:
    if expected is None or told is None:
        return [] if expected is told else [f"{name}: expected {expected!r}, got {told!r}"]
    return [] if abs(expected - told) <= _SLACK_MS else [f"{name}: expected {expected}, got {told}"]


def _run_difference(expected: RunView | None, told: RunView | None) -> list[str]:
    if expected is None or told is None:
        return [] if expected is told else [f"run: expected {expected!r}, got {told!r}"]
    same = (expected.slot, expected.attempt, expected.instance_id) == (
        told.slot,
        told.attempt,
        told.instance_id,
    )
    if same and (expected.remaining_ms > 0) == (told.remaining_ms > 0):
        return _far("remaining_ms", expected.remaining_ms, told.remaining_ms)
    return [f"run: expected {expected!r}, got {told!r}"]


async def _compare_history(instance: Instance, model: Model) -> None:
    told = {
        (record.job, record.slot, record.attempt): _Row(
            "", record.instance_id, record.status, record.reason, record.error
        )
        for record in await instance.history(None)
    }
    expected = {
        key: _Row("", row.instance_id, row.status, row.reason, row.error)
        for key, row in model.rows.items()
    }

    assert expected == told
