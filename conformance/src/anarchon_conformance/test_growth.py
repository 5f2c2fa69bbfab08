"""
Growth: a job that runs for years leaves no more than its retention.
"""

from __future__ import annotations

from anarchon.records import Retention
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause

_RUNS = 10_000
_KEPT = 50


@clause("GRW-1")
async def test_many_runs_leave_bounded_state(bench: Bench) -> None:
    """
    Ten thousand slots later the history is as long as the retention allows, and high is right.
    """
    async with bench.world(retention=Retention(records_per_job=_KEPT)) as world:
        instance = await world.join()
        await instance.win(world.base_ms)
        await instance.let_pass(range(world.base_ms + 1, world.base_ms + 1 + _RUNS))
        records = await instance.history(limit=2 * _RUNS)

        assert len(records) <= 2 * _KEPT + bench.capabilities.batch_max
        assert world.base_ms + _RUNS == records[0].slot
