"""
While the server is down: instances cost next to nothing, and go on by themselves when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from store_fixtures import OUTAGE_SHARE_MAX, cost_of_an_outage

import anarchon_testbed as testbed
from anarchon_postgres import PostgresBackend

pytestmark = pytest.mark.slow


def test_an_outage_costs_next_to_nothing(
    schema: str, record_property: Callable[[str, object], None]
) -> None:
    """
    20 jobs of every second wait for the server at less than two hundredths of a core, as the docs say; then they run.
    """
    with testbed.postgres(own=True) as server:
        share = asyncio.run(cost_of_an_outage(server, PostgresBackend(server.url, schema=schema)))
    record_property("outage CPU share", share)

    assert share < OUTAGE_SHARE_MAX
