"""
What cannot be promised, shown: nobody has to take our word for what goes wrong then.
"""

from __future__ import annotations

from dataclasses import replace

from anarchon.backend import ClaimRequest, Verdict
from anarchon_simulation.audit import Audit
from anarchon_simulation.clocks import START_MS, MachineClock
from anarchon_simulation.digest import Digest
from anarchon_simulation.store import SimulatedStore
from anarchon_simulation.trace import Trace


def test_store_that_forgets_a_grant_may_grant_it_again() -> None:
    """
    Two instances are granted one attempt, and the audit names both.
    """
    store = SimulatedStore(MachineClock(lambda: 0))
    audit = Audit(store, Trace(Digest()), lambda: 0)
    first = ClaimRequest(
        job="j", slot=START_MS, attempt=1, token="t1", instance_id="a", lease_ms=3_000
    )
    second = replace(first, token="t2", instance_id="b")
    (granted,) = store.serve("claim", [first], "a")
    (refused,) = store.serve("claim", [second], "b")
    store.memory.states.clear()
    (again,) = store.serve("claim", [second], "b")

    assert [Verdict.WON, Verdict.RUNNING, Verdict.WON] == [
        granted.verdict,
        refused.verdict,
        again.verdict,
    ]
    assert any("two winners of j" in rule for rule in audit.broken)
