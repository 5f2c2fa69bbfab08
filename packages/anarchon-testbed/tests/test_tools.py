"""
A browser and a server's clock are had as servers are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import anarchon_testbed as testbed
from anarchon_testbed.browser import obtain_browser
from anarchon_testbed.faketime import FakeClock

HOUR_S = 3_600


def is_off(server: testbed.RedisServer, hours: int) -> bool:
    """
    Ask a server for its time, and say whether it is off by so many hours.
    """
    return hours == round((int(server.command("TIME")[0]) - time.time()) / HOUR_S)


@pytest.mark.slow
def test_a_servers_clock_is_put_wrong_while_it_runs(
    until: Callable[[Callable[[], bool]], bool],
) -> None:
    """
    It leaps as often as it is told to, and nothing is left of the clock afterwards.

    A server that is awake answers with the time that it read when it woke, so that it is looked at again.
    """
    with FakeClock() as clock:
        folder = Path(clock.environment["FAKETIME_TIMESTAMP_FILE"]).parent
        with testbed.valkey(own=True, environment=clock.environment) as server:
            leaps = [is_off(server, 0)]
            for hours in (1, -1, 0):
                clock.set(hours * HOUR_S)
                leaps.append(until(partial(is_off, server, hours)))

    assert [True] * 4 == leaps
    assert not folder.exists()


def test_a_clock_that_was_not_entered_says_so() -> None:
    """
    It has no file to write.
    """
    with pytest.raises(testbed.ServerFailedError, match="enter it first"):
        FakeClock().set(1)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_browser_runs_a_pages_script(tmp_path: Path) -> None:
    """
    What is read is the document after its scripts have run, and a picture of it is a picture.
    """
    page = tmp_path / "page.html"
    page.write_text("<p id=a></p><script>a.textContent = 6 * 7</script>", encoding="utf-8")
    browser = obtain_browser()

    text = browser.read(page)
    browser.shoot(page, tmp_path / "page.png")

    assert '<p id="a">42</p>' in text
    assert b"\x89PNG" == (tmp_path / "page.png").read_bytes()[:4]


def test_a_browser_that_cannot_be_had_is_explained(bare: Path) -> None:
    """
    Neither in PATH nor to be unpacked: the message names both.
    """
    with pytest.raises(testbed.ServerUnavailableError, match=r"no browser is here.*apt-get"):
        obtain_browser()


@pytest.mark.parametrize("body", ["exit 3", "echo trouble >&2; exit 3"])
def test_a_browser_that_fails_is_quoted(bare: Path, tmp_path: Path, body: str) -> None:
    """
    One in PATH is taken; what it says when it fails is passed on.
    """
    program = tmp_path / "bin/chromium"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)

    with pytest.raises(testbed.ServerFailedError, match="failed, in its own words"):
        obtain_browser().read(tmp_path / "page.html")
