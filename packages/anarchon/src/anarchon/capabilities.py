"""
What a backend can do beyond one winner per run, as data: ask, or demand.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from anarchon.errors import UnsupportedByBackendError

__all__ = ["Capabilities", "Reach"]


class Reach(StrEnum):
    """
    How far apart two instances may be and still share the store.
    """

    PROCESS = "process"
    HOST = "host"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """
    What a backend promises, and the limits within which it does.

    Args:
        leases: It implements LeaseBackend: takeover, no overlap, catch-up, hand-over.

        hints: next_hint() wakes a watcher early when a run changes.

        store_clock: time() tells the store's own clock, and every answer carries it.

        reach: Whether instances may live in one process, on one host, or anywhere.

        batch_max: How many requests one call may carry; the core cuts longer ones.

        name_bytes_max: The longest job name, in bytes of UTF-8.

        lease_ms_min: The shortest lease that the store can keep, in milliseconds.

        time_resolution_ms: The coarsest step of the store's clock, in milliseconds.

        claim_memory_ms: For how long a claim-only store remembers a claim, in
            milliseconds; a slot that is older may have run, and is refused. None: a
            claim is remembered as long as its record, however old its slot is.

        rising_slots: A claim-only store that grants the slots of a job in rising
            order alone: one that is not newer than a granted one is refused.
    """

    leases: bool = False
    hints: bool = False
    store_clock: bool = False
    reach: Reach = Reach.NETWORK
    batch_max: int = 256
    name_bytes_max: int = 255
    lease_ms_min: int = 300
    time_resolution_ms: int = 1
    claim_memory_ms: int | None = None
    rising_slots: bool = False

    def offers(self, name: str) -> bool:
        """
        Say whether the yes-or-no capability *name* is declared.

        Raises:
            KeyError: There is no capability of that name.
        """
        if name not in {field.name for field in fields(self)}:
            raise KeyError(name)
        return bool(getattr(self, name))

    def require(self, name: str, *, needed_for: str, backend: str, alternatives: str) -> None:
        """
        Demand the capability *name*.

        Raises:
            UnsupportedByBackendError: It is not declared. The message says what
                needs it, what this backend is, and which backends have it.
        """
        if not self.offers(name):
            msg = f"{needed_for} needs a backend with {name}; {backend} has none. {alternatives}"
            raise UnsupportedByBackendError(msg)
