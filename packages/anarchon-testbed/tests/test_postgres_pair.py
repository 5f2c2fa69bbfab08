"""
A primary and its standby: what is known after a fail-over, with and without waiting for the standby.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import anarchon_testbed as testbed
from anarchon_testbed import ServerFailedError

pytestmark = pytest.mark.slow

UNANSWERED_MS = 300


@pytest.mark.parametrize("version", ["15", "18"])
def test_a_standby_is_promoted_with_what_was_answered(version: str) -> None:
    """
    The standby takes no write before, and takes writes after; the killed primary is gone.
    """
    with testbed.postgres_pair(version) as pair:
        old, new = pair.servers
        old.ask("CREATE TABLE kept AS SELECT 1 AS n, NULL AS nothing")
        with pytest.raises(ServerFailedError, match="read-only"):
            new.ask("CREATE TABLE refused ()")

        assert pair.fail_over_now() is new
        new.ask("INSERT INTO kept VALUES (2)")
        kept = new.ask("SELECT n, nothing FROM kept ORDER BY n")

        assert [["1", None], ["2", None]] == kept
        assert (None, new, True) == (old.pid, pair.primary, new.version.startswith(f"{version}."))
        assert f"{old.port}," in pair.url
        assert f":{new.port}/" in pair.url


@pytest.mark.parametrize("synchronous", [True, False])
def test_who_waits_for_the_standby_loses_nothing(
    until: Callable[[Callable[[], bool]], bool], *, synchronous: bool
) -> None:
    """
    A write while the standby is away is lost with the primary; it is answered only where nobody waits for the standby.
    """
    with testbed.postgres_pair(synchronous=synchronous) as pair:
        pair.primary.ask("CREATE TABLE kept (n int)")
        assert until(lambda: pair.standby.ask("SELECT to_regclass('kept')") == [["kept"]])
        pair.standby.kill_now()
        answered = True
        try:
            patience = {"timeout_ms": UNANSWERED_MS} if synchronous else {}
            pair.primary.ask("INSERT INTO kept VALUES (1)", **patience)
        except TimeoutError:
            answered = False
        pair.primary.kill_now()
        pair.standby.start_now()
        kept = pair.fail_over_now().ask("SELECT n FROM kept")

        assert (not synchronous, []) == (answered, kept)
