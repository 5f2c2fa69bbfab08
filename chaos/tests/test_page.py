"""
The page needs nothing but itself, shows what the histories hold, and is seen in a real browser as it is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from anarchon_chaos.checker import Finding, judge
from anarchon_chaos.history import History
from anarchon_chaos.page import page
from anarchon_chaos.report import as_data, verdict
from anarchon_chaos.running import Case, Result
from anarchon_chaos.scenarios import scenario
from anarchon_chaos.stores import named
from anarchon_chaos.summary import percentile, pooled, summarise
from anarchon_testbed.browser import obtain_browser

MEASURE = """
<script>
const bars = [...document.querySelectorAll('rect.bar')].map(bar => {
  const box = bar.getBoundingClientRect(), around = bar.ownerSVGElement.getBoundingClientRect();
  return {width: box.width, inside: box.left >= around.left && box.right <= around.right && box.bottom <= around.bottom,
          fill: getComputedStyle(bar).fill};
});
const bands = [...document.querySelectorAll('rect.band')].map(band => band.getBoundingClientRect().width);
document.title = 'measured ' + JSON.stringify({bars, bands, overflow: document.documentElement.scrollWidth > innerWidth,
  loaded: performance.getEntriesByType('resource').length});
</script>
"""


def result_of(history: History | None, name: str = "crash", **more: Any) -> Result:
    """
    Make a result of a history, as if it had been played.
    """
    findings = judge(history) if history is not None else ()
    case = Case(scenario=scenario(name), store=named("redis-lease"))
    return Result(**{"case": case, "history": history, "findings": findings, **more})


@pytest.fixture
def results(history: Callable[..., History]) -> list[Result]:
    """
    Give one result that held, one that did not, and one that was not played.
    """
    wrong = Finding(rule="one_winner", problem="<b>two</b> & more")
    return [
        result_of(history()),
        result_of(history(), "freeze", findings=(wrong,)),
        result_of(None, "deploy", trouble="no server"),
    ]


class Balance(HTMLParser):
    """
    Finds tags that are not closed in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """
        A tag opens, unless it never closes.
        """
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """
        A tag that closes itself is balanced.
        """

    def handle_endtag(self, tag: str) -> None:
        """
        A tag closes: it has to be the last one that has opened.
        """
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_needs_nothing_else(results: list[Result]) -> None:
    """
    It loads nothing and runs no script, every tag is closed, and what handlers and servers say is escaped.
    """
    text = page(results, title="a <title>")
    balance = Balance()
    balance.feed(text)

    assert ([], []) == (balance.open, balance.wrong)
    assert not re.search(r"<script|https?://|@import|url\(|src=", text)
    assert "<b>two</b>" not in text
    assert "&lt;b&gt;two&lt;/b&gt; &amp; more" in text


def test_the_page_has_a_picture_of_each_scenario_that_was_played(results: list[Result]) -> None:
    """
    Two bodies and one fault in each of two histories; and the one that was not played says why.
    """
    text = page(results, title="chaos")

    assert 2 == text.count("<svg")
    assert 4 == text.count('class="bar ')
    assert 2 == text.count('class="band"')
    assert "no server" in text
    assert "1 of 3 scenarios held." in text


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_browser_shows_the_page(results: list[Result], tmp_path: Path) -> None:
    """
    In headless Chromium every bar is inside of its picture, with its outcome's colour, and nothing sticks out.
    """
    shown, measured = tmp_path / "page.html", tmp_path / "measured.html"
    text = page(results, title="chaos")
    shown.write_text(text, encoding="utf-8")
    measured.write_text(text.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    browser = obtain_browser()

    found = re.search(r"<title>measured (.*?)</title>", browser.read(measured), re.DOTALL)
    browser.shoot(shown, tmp_path / "page.png")
    assert found is not None
    seen = json.loads(found[1].replace("&gt;", ">"))

    assert 4 == len(seen["bars"])
    assert all(bar["inside"] and bar["width"] >= 1 for bar in seen["bars"])
    assert 2 == len({bar["fill"] for bar in seen["bars"]})
    assert all(width >= 1 for width in seen["bands"])
    assert (False, 0) == (seen["overflow"], seen["loaded"])
    assert b"\x89PNG" == (tmp_path / "page.png").read_bytes()[:4]


def test_the_summary_counts_what_the_history_shows(history: Callable[..., History]) -> None:
    """
    One run, executed twice, taken over 2.5 s after the kill, with nothing missed.
    """
    summary = summarise(result_of(history()))

    assert (1, {2: 1}, 0.0) == (summary.runs, summary.executions, summary.overlap_ms)
    assert ((2_500,), 5_000) == (summary.takeover_ms, summary.bound_ms)
    assert ({"kill": 1}, 0, True) == (summary.faults, summary.missed, summary.held)


def test_the_json_has_every_scenario_and_the_verdict(results: list[Result]) -> None:
    """
    A failure is named, and so is what could not be played.
    """
    data = json.loads(as_data(results, seed=7))

    assert 7 == data["seed"]
    assert "FAILS: freeze on redis-lease, deploy on redis-lease" == data["verdict"]
    assert ["crash", "freeze", "deploy"] == [each["scenario"] for each in data["scenarios"]]
    expected = {"takeovers": 2, "p50_ms": 2_500, "p99_ms": 2_500, "bound_ms": 5_000}
    assert {"redis-lease": {"runs": 2, "overlap_ms": 0.0, **expected}} == data["stores"]


def test_nothing_played_is_no_success() -> None:
    """
    An empty run does not end green.
    """
    assert "NOTHING PLAYED" == verdict([])
    assert {} == pooled([])


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_a_value_that_was_there(percent: int, expected: int) -> None:
    """
    The nearest rank, of values in any order.
    """
    assert expected == percentile(list(range(100, 0, -1)), percent)
    assert percentile([], percent) is None
