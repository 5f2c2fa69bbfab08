"""
The kinds of request: which function answers them, from which arrays, with which rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError, RequestError
from anarchon.records import storable_error
from anarchon_postgres.driver import Row
from anarchon_postgres.rows import DURATION_MS_MAX, AnyRequest, view_of
from anarchon_postgres.schema import quoted

__all__ = ["CLAIM", "FINISH", "REGISTER", "RELEASE", "RENEW", "Alone", "Operation"]

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(Generic[Request, Answer]):
    """
    A statement for one request: it takes the values themselves, then how many records a job keeps, then the time left.

    Args:
        part: The file that holds it.

        answer: Reads its row.
    """

    part: str
    answer: Callable[[Request, Row], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Request, Answer]):
    """
    One kind of request.

    Args:
        function: The function of the schema that answers a batch.

        types: The element types of its arrays.

        values: What a request puts into each array, in the order of the types.

        answer: Reads the row of a request.

        prunes: Whether the function also takes what it needs to forget old records.

        alone: How one request is asked, where that is cheaper than a batch of one.
    """

    function: str
    types: tuple[str, ...]
    values: Callable[[Request], tuple[Any, ...]]
    answer: Callable[[Request, Row], Answer | BackendError]
    prunes: bool = False
    alone: Alone[Request, Answer] | None = None

    def statement(self, schema: str) -> str:
        """
        Write the statement that asks for a batch.
        """
        types = [f"{name}[]" for name in self.types] + ["bigint"] * (3 if self.prunes else 1)
        marks = ", ".join(f"${place}::{name}" for place, name in enumerate(types, 1))
        return f"SELECT * FROM {quoted(schema)}.{self.function}({marks})"

    def arrays(self, requests: Sequence[Request]) -> list[tuple[Any, ...]]:
        """
        Lay a batch out, one array a value.
        """
        return list(zip(*(self.values(request) for request in requests), strict=True))


def _claimed(request: ClaimRequest, row: Row) -> ClaimAnswer:
    verdict = Verdict(row["verdict"])
    now_ms: int = row["now_ms"]
    return ClaimAnswer(
        verdict=verdict,
        reason=None if row["why"] is None else AnswerReason(row["why"]),
        store_now_ms=now_ms,
        high=row["top"],
        previous_high=row["prior"],
        since_ms=row["since"],
        recorded=row["recorded"],
        run=view_of(row),
        wait_ms=request.slot - now_ms if verdict is Verdict.EARLY else 0,
    )


def _claimed_alone(request: ClaimRequest, row: Row) -> ClaimAnswer:
    told: list[str | None] | None = row["told"]
    if told is not None:
        return _claimed(request, _row_of(told))
    top: int = row["top"]
    reason = None
    if row["run_slot"] == request.slot:
        verdict = Verdict.RUNNING
    elif request.slot < top:
        verdict, reason = Verdict.LATE, AnswerReason.SUPERSEDED
    else:
        verdict, reason = Verdict.DONE, AnswerReason.ENDED
    return ClaimAnswer(
        verdict=verdict,
        reason=reason,
        store_now_ms=row["now_ms"],
        high=top,
        since_ms=row["since"],
        run=view_of(row),
    )


def _row_of(told: Sequence[str | None]) -> Row:
    """
    Name the texts that a function has put into one array.
    """
    row: dict[str, Any] = dict(zip(_TOLD, told, strict=True))
    for name in _TOLD_INTEGERS:
        row[name] = None if row[name] is None else int(row[name])
    row["recorded"] = row["recorded"] == "true"
    return row


def _registered(request: RegisterRequest, row: Row) -> RegisterAnswer | BackendError:
    now_ms: int = row["now_ms"]
    if row["fresh"] is None:
        ahead_ms = (request.slot or 0) - now_ms
        return RequestError(
            f"job {request.job!r}: slot {request.slot} is {ahead_ms} ms ahead of the store's clock;"
            " a registration takes the last slot at the store's own time"
        )
    return RegisterAnswer(
        new=row["fresh"],
        store_now_ms=now_ms,
        high=row["top"],
        since_ms=row["since"],
        fingerprint=row["old_fingerprint"],
        zone_digests=row["old_zone_digests"],
        run=view_of(row),
    )


def _renewed(_request: RenewRequest, row: Row) -> RenewAnswer:
    return RenewAnswer(held=row["held"], store_now_ms=row["now_ms"], high=row["top"])


def _closed(_request: FinishRequest | ReleaseRequest, row: Row) -> CloseAnswer:
    return CloseAnswer(accepted=row["accepted"], store_now_ms=row["now_ms"], high=row["top"])


def _claim_values(request: ClaimRequest) -> tuple[Any, ...]:
    lateness_ms = request.max_lateness_ms
    return (
        request.job,
        request.slot,
        request.attempt,
        request.token,
        request.instance_id,
        request.lease_ms,
        request.not_after_ms,
        request.overlap == "wait",
        None if lateness_ms is None else min(lateness_ms, DURATION_MS_MAX),
        request.max_crashes,
        request.takeover,
        request.fingerprint,
        request.zone_digests,
    )


def _finish_values(request: FinishRequest) -> tuple[Any, ...]:
    return (
        request.job,
        request.slot,
        request.attempt,
        request.token,
        request.status.value,
        None if request.reason is None else request.reason.value,
        None if request.error is None else storable_error(request.error),
        request.started_ago_ms,
    )


_TOLD_INTEGERS = ("now_ms", "top", "prior", "since", "run_slot", "run_attempt", "run_remaining_ms")
_TOLD = (
    "verdict",
    "why",
    *_TOLD_INTEGERS[:4],
    "recorded",
    *_TOLD_INTEGERS[4:],
    "run_instance_id",
)

_KEY = ("text", "bigint", "bigint", "text")

CLAIM: Operation[ClaimRequest, ClaimAnswer] = Operation(
    function="claim_v1",
    types=(
        *_KEY,
        "text",
        "bigint",
        "bigint",
        "boolean",
        "bigint",
        "bigint",
        "boolean",
        "text",
        "text",
    ),
    values=_claim_values,
    answer=_claimed,
    prunes=True,
    alone=Alone(part="look", answer=_claimed_alone),
)
REGISTER: Operation[RegisterRequest, RegisterAnswer] = Operation(
    function="register_v1",
    types=("text", "bigint", "text", "text"),
    values=lambda asked: (asked.job, asked.slot, asked.fingerprint, asked.zone_digests),
    answer=_registered,
)
RENEW: Operation[RenewRequest, RenewAnswer] = Operation(
    function="renew_v1",
    types=(*_KEY, "bigint", "bigint"),
    values=lambda asked: (
        asked.job,
        asked.slot,
        asked.attempt,
        asked.token,
        asked.lease_ms,
        asked.started_ago_ms,
    ),
    answer=_renewed,
)
FINISH: Operation[FinishRequest, CloseAnswer] = Operation(
    function="finish_v1",
    types=(*_KEY, "text", "text", "text", "bigint"),
    values=_finish_values,
    answer=_closed,
)
RELEASE: Operation[ReleaseRequest, CloseAnswer] = Operation(
    function="release_v1",
    types=(*_KEY, "boolean", "bigint"),
    values=lambda asked: (
        asked.job,
        asked.slot,
        asked.attempt,
        asked.token,
        asked.takeover,
        asked.started_ago_ms,
    ),
    answer=_closed,
)
