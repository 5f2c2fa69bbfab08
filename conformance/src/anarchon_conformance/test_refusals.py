"""
What a backend does not declare is refused when a job is defined, with a sentence that says so.
"""

from __future__ import annotations

import pytest

from anarchon import Scheduler
from anarchon.errors import UnsupportedByBackendError
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause


async def _nothing() -> None:
    """
    Be a handler that is never called.
    """


@clause("LIF-7")
async def test_leases_are_offered_only_where_they_are_declared(bench: Bench) -> None:
    """
    Catching up needs leases: such a job is defined where there are some, and refused elsewhere.
    """
    async with bench.world() as world:
        instance = await world.join()
        scheduler = Scheduler(instance.backend.clone())
        if bench.capabilities.leases:
            scheduler.every("job", "10s", _nothing, catch_up="all")
        else:
            with pytest.raises(UnsupportedByBackendError, match="catch_up"):
                scheduler.every("job", "10s", _nothing, catch_up="all")
