"""
A claim that is answered at a glance is answered as by the whole table.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import count, groupby, islice
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anarchon.backend import ClaimRequest, FinishRequest, RegisterRequest, ReleaseRequest
from anarchon.errors import BackendError
from anarchon.records import Status
from anarchon_redis import RedisBackend
from anarchon_redis.scripts import Script

pytestmark = pytest.mark.slow

TIMEOUT_MS = 10_000
HOUR_MS = 3_600_000

GLANCE = "pcall(glance,"

# Each is one condition of the glance, and what stands there when somebody has forgotten it.
FAULTS = {
    "token": ("remaining > 0 and (state[3] ~= attempt or state[4] ~= token)", "remaining > 0"),
    "lease": ("if remaining > 0 and", "if"),
    "newest slot": ("and (high == '' or tonumber(slot) > tonumber(high))", ""),
    "live run": ("elseif live == '' and attempt == '1'", "elseif attempt == '1'"),
    "attempt": ("elseif live == '' and attempt == '1'", "elseif live == ''"),
    "end of the claim": ("if high and (not_after == '' or NOW <= tonumber(not_after)) then", "if high then"),
    "lateness": ("(max_lateness == '' or NOW - slot <= tonumber(max_lateness))", "true"),
    "early slot": ("slot - NOW <= EARLY_TOLERANCE", "true"),
    "skipped slot": ("if state[8] ~= slot then", "if true then"),
    "schedule": ("(fingerprint == '' or (fingerprint == state[9] and digests == (state[10] or '')))", "true"),
    "digests": ("and digests == (state[10] or '')", ""),
}  # fmt: skip


class Changed(RedisBackend):
    """
    A backend with other words in its scripts.
    """

    change: ClassVar[tuple[str, str]] = ("", "")

    def _script(self, script: Script) -> Script:
        old, new = self.change
        if script.name == "lease_claim":
            assert old in script.source
        return Script(script.name, script.source.replace(old, new))


class Table(Changed):
    """
    Answers each claim by the whole table.
    """

    change = (GLANCE, "pcall(error,")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One request about the job, written down without times so that two stores can be asked the same.
    """

    kind: str
    slot: int
    attempt: int
    token: str
    options: dict[str, Any]

    def request(self, job: str, now_ms: int) -> Any:
        """
        Write the request for a store whose clock stands there.
        """
        slot = now_ms + (self.slot - 4) * HOUR_MS
        key: dict[str, Any] = {
            "job": job, "slot": slot, "attempt": self.attempt, "token": self.token,
        }  # fmt: skip
        if self.kind == "register":
            return RegisterRequest(job=job, slot=None, fingerprint=self.options["fingerprint"])
        if self.kind == "finish":
            return FinishRequest(**key, status=Status.SUCCESS)
        if self.kind == "release":
            return ReleaseRequest(**key, takeover=self.options["takeover"])
        options = dict(self.options)
        options["not_after_ms"] = now_ms + options.pop("left_ms")
        return ClaimRequest(**key, instance_id=f"of {self.token}", **options)


STEPS = st.builds(
    Step,
    kind=st.sampled_from(["claim"] * 7 + ["finish"] * 2 + ["release", "register"]),
    slot=st.sampled_from([1, 2, 2, 3, 3, 4, 5]),
    attempt=st.sampled_from([1, 1, 1, 2]),
    token=st.sampled_from("xy"),
    options=st.fixed_dictionaries(
        {
            "lease_ms": st.sampled_from([0, 60_000, 60_000]),
            "left_ms": st.sampled_from([-60_000, HOUR_MS, HOUR_MS, HOUR_MS]),
            "overlap": st.sampled_from(["skip", "wait"]),
            "max_lateness_ms": st.sampled_from([None, None, 90 * 60_000]),
            "takeover": st.booleans(),
            "fingerprint": st.sampled_from([None, "f", "f", "g"]),
            "zone_digests": st.sampled_from([None, None, "d"]),
        }
    ),
)


def timeless(answer: Any, began_ms: int) -> object:
    """
    Take out of an answer what differs from one moment to the next: the clock's time, and how long a lease has left.
    """
    told = replace(answer, store_now_ms=None)
    if getattr(answer, "run", None) is not None:
        told = replace(told, run=replace(answer.run, remaining_ms=int(answer.run.remaining_ms > 0)))
    if getattr(answer, "wait_ms", 0):
        told = replace(told, wait_ms=1)
    if getattr(answer, "since_ms", None) is not None:
        told = replace(told, since_ms=int(answer.since_ms >= began_ms))
    return told


async def played(
    backend: RedisBackend, job: str, plan: list[Step], now_ms: int, together: int
) -> list[object]:
    """
    Ask one request after the other, or up to so many of a kind in one call, and return the answers and the history.
    """
    found: list[object] = []
    known = RegisterRequest(job=job, slot=None, fingerprint="f")
    await backend.register([known], timeout_ms=TIMEOUT_MS)
    for kind, steps in groupby(plan, key=lambda step: step.kind):
        ask = getattr(backend, kind)
        for some in iter(lambda: list(islice(steps, together)), []):  # noqa: B023 - it is used up in this turn
            requests = [step.request(job, now_ms) for step in some]
            answers = await ask(requests, timeout_ms=TIMEOUT_MS)
            found += [timeless(answer, now_ms) for answer in answers]
    records = await backend.history(job, limit=100, timeout_ms=TIMEOUT_MS)
    found += [(record.slot, record.attempt, record.status, record.reason) for record in records]
    return found


def compare(
    url: str, prefix: str, kind: type[RedisBackend], examples: int, *, together: int = 1
) -> None:
    """
    Play plans on a backend of some kind and on one that asks the table; end at the first difference.
    """
    number = count()
    backends = [Table(url, prefix=f"{prefix}-table"), kind(url, prefix=f"{prefix}-glance")]

    async def both(plan: list[Step]) -> list[list[object]]:
        now_ms = await backends[0].time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        job = f"job-{next(number)}"
        return [await played(backend, job, plan, now_ms, together) for backend in backends]

    with asyncio.Runner() as runner:

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(plan=st.lists(STEPS, min_size=15, max_size=30))
        def same(plan: list[Step]) -> None:
            expected, actual = runner.run(both(plan))

            assert expected == actual

        for backend in backends:
            runner.run(backend.open(timeout_ms=TIMEOUT_MS))
        try:
            same()
        finally:
            for backend in backends:
                runner.run(backend.close())


def test_a_glance_says_what_the_table_says(url: str, prefix: str) -> None:
    """
    Whatever has happened to a job, a claim of it has one answer, and leaves one history.
    """
    compare(url, prefix, RedisBackend, 60)


def test_a_batch_is_answered_in_its_order(url: str, prefix: str) -> None:
    """
    Claims of one job in one call: those that the glance answers do not overtake those that the table does.
    """
    compare(url, prefix, RedisBackend, 40, together=4)


def test_a_glance_that_goes_on_behind_the_table_is_found(url: str, prefix: str) -> None:
    """
    The comparison fails where items behind one that the table must answer are answered before it.
    """
    forgotten = "if not served or not answer then\n    "
    faulty = type(
        "Faulty", (Changed,), {"change": (f"{forgotten}break", f"{forgotten}answer = nil")}
    )

    with pytest.raises((AssertionError, BackendError)):
        compare(url, prefix, faulty, 100, together=4)


@pytest.mark.parametrize("forgotten", FAULTS)
def test_a_condition_that_the_glance_forgets_is_found(
    forgotten: str, url: str, prefix: str
) -> None:
    """
    The comparison fails for each condition that could be left out.
    """
    faulty = type("Faulty", (Changed,), {"change": FAULTS[forgotten]})

    with pytest.raises(AssertionError):
        compare(url, prefix, faulty, 300)
