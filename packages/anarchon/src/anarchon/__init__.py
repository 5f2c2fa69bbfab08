"""
Schedule jobs on every instance of a service, and run each slot once.

Every instance defines the same jobs and computes the same slots. When a slot is
due, the instances race one atomic claim in the store that they share; one wins
and runs the handler.
"""

from __future__ import annotations

from anarchon._version import __version__
from anarchon.backend import (
    PROTOCOL_VERSION,
    AnswerReason,
    Backend,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    LeaseBackend,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    RunView,
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.clock import Clock, SystemClock
from anarchon.context import RunContext
from anarchon.errors import (
    AnarchonError,
    BackendError,
    BackendStateError,
    DefinitionError,
    DuplicateJobError,
    HandOver,
    InternalError,
    InvalidDurationError,
    InvalidJobError,
    InvalidOptionError,
    InvalidScheduleError,
    LeaseLostError,
    ProtocolVersionError,
    RequestError,
    SchedulerStateError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
    UnknownBackendError,
    UnsupportedByBackendError,
)
from anarchon.job import Job
from anarchon.jobs import Jobs
from anarchon.memory import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.records import Reason, Retention, RunRecord, Status
from anarchon.registry import backend_from_url
from anarchon.runtime import Runtime
from anarchon.scheduler import Scheduler
from anarchon.slots import Cron, Every, Once, Schedule

__all__ = [
    "PROTOCOL_VERSION",
    "AnarchonError",
    "AnswerReason",
    "Backend",
    "BackendError",
    "BackendStateError",
    "Capabilities",
    "ClaimAnswer",
    "ClaimRequest",
    "Clock",
    "CloseAnswer",
    "Cron",
    "DefinitionError",
    "DuplicateJobError",
    "Every",
    "FinishRequest",
    "HandOver",
    "InternalError",
    "InvalidDurationError",
    "InvalidJobError",
    "InvalidOptionError",
    "InvalidScheduleError",
    "Job",
    "Jobs",
    "LeaseBackend",
    "LeaseLostError",
    "MemoryBackend",
    "MemoryClaimBackend",
    "MemoryStore",
    "Once",
    "ProtocolVersionError",
    "Reach",
    "Reason",
    "RegisterAnswer",
    "RegisterRequest",
    "ReleaseRequest",
    "RenewAnswer",
    "RenewRequest",
    "RequestError",
    "Retention",
    "RunContext",
    "RunRecord",
    "RunView",
    "Runtime",
    "Schedule",
    "Scheduler",
    "SchedulerStateError",
    "ServerTooOldError",
    "Status",
    "StoreRefusedError",
    "StoreUnavailableError",
    "SystemClock",
    "UnknownBackendError",
    "UnsupportedByBackendError",
    "Verdict",
    "__version__",
    "backend_from_url",
]
