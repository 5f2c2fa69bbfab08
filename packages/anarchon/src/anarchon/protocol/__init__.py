"""
The table of answers as pure functions: (state, request, now) → (answer, state, records).

The memory backends are built on it, a store whose transactions run in Python can
be, and the conformance kit compares every backend with it.
"""

from __future__ import annotations

from anarchon.protocol.claim_only import decide_claim_only
from anarchon.protocol.claims import decide_claim
from anarchon.protocol.closing import (
    check_finish_status,
    decide_finish,
    decide_release,
    decide_renewal,
)
from anarchon.protocol.registration import decide_register
from anarchon.protocol.state import (
    Change,
    JobState,
    Live,
    Now,
    RecordClose,
    RecordOpen,
    RecordView,
    Skip,
)

__all__ = [
    "Change",
    "JobState",
    "Live",
    "Now",
    "RecordClose",
    "RecordOpen",
    "RecordView",
    "Skip",
    "check_finish_status",
    "decide_claim",
    "decide_claim_only",
    "decide_finish",
    "decide_register",
    "decide_release",
    "decide_renewal",
]
