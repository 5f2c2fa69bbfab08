"""
The history's vocabulary: one record an attempt, and how it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

__all__ = [
    "ERROR_CHARS_MAX",
    "Reason",
    "Retention",
    "RunRecord",
    "Status",
    "datetime_of",
    "storable_error",
]

ERROR_CHARS_MAX = 16_384
"""
How many characters of an error's text a record keeps; the rest is cut visibly.
"""


class Status(StrEnum):
    """
    How far an attempt has come. Only RUNNING ever changes.
    """

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class Reason(StrEnum):
    """
    Why an attempt ended as it did, where the status alone does not say it.
    """

    ERROR = "error"
    TIMEOUT = "timeout"
    LEASE_EXPIRED = "lease_expired"
    HANDED_OVER = "handed_over"
    SUPERSEDED = "superseded"
    MAX_CRASHES = "max_crashes"
    TAKEOVER_OFF = "takeover_off"
    STOPPED = "stopped"
    OVERLAP = "overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """
    One attempt of one run, as the history tells it.

    Times are aware datetimes in UTC with whole milliseconds, taken from the
    store's clock. ``started_at`` is None until the store has heard that the
    handler began; ``finished_at`` is None while the attempt is running.
    """

    job: str
    slot: int
    attempt: int
    instance_id: str
    status: Status
    reason: Reason | None = None
    claimed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """
    How long a store keeps records. What protects a slot is never pruned.

    ``age_ms`` is counted from the end of an attempt; ``records_per_job`` keeps
    the newest ones. Records of unfinished attempts are never pruned.
    """

    age_ms: int | None = 30 * 24 * 3_600_000
    records_per_job: int = 1_000


def datetime_of(instant_ms: int) -> datetime:
    """
    Turn milliseconds since 1970 into an aware datetime in UTC, exactly.
    """
    seconds, rest_ms = divmod(instant_ms, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest_ms * 1_000)


def storable_error(text: str) -> str:
    """
    Make any text one that every store can keep, and bound its length.

    A store may refuse NUL and lone surrogates; a finish must never fail
    because of an error's text. Both are written as escapes, and a text that
    is too long says how much of it was cut.
    """
    safe = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(safe) <= ERROR_CHARS_MAX:
        return safe
    note = f"… [cut: {len(safe)} characters in all]"
    return safe[: ERROR_CHARS_MAX - len(note)] + note
