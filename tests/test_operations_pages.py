"""
The pages on operations name what there is: each series, each check of the doctor, and nothing else.
"""

from __future__ import annotations

import re

import repository
from prometheus_client import CollectorRegistry

from anarchon import Scheduler
from anarchon.events import SchedulerStartedEvent
from anarchon.metrics import PrometheusMetrics

PAGES = repository.ROOT / "docs/operations"


def named(page: str, pattern: str) -> set[str]:
    """
    Find what the first columns of a page's tables name.
    """
    text = (PAGES / page).read_text(encoding="utf-8")
    firsts = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for first in firsts for name in re.findall(pattern, first)}


def test_every_series_stands_on_its_page() -> None:
    """
    The table of metrics has the names and labels that are registered.
    """
    registry, scheduler = CollectorRegistry(), Scheduler("memory:")
    PrometheusMetrics(scheduler, registry=registry)
    scheduler._tell(SchedulerStartedEvent(instance="me", jobs=(), service=""))
    series = set()
    for metric in registry.collect():
        series.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)

    assert series == named("metrics.md", r"`(anarchon_[a-z_]+)`")


def test_every_check_stands_on_its_page() -> None:
    """
    Whoever meets a finding of ours finds its check on the page.
    """
    sources = [
        path
        for distribution in repository.distributions()
        for path in distribution.source.rglob("*.py")
        if "conformance" not in distribution.name
    ]
    checks = {
        check
        for path in sources
        for check in re.findall(
            r'(?:check=|_unknown\()"([a-z-]+)"', path.read_text(encoding="utf-8")
        )
    }
    severities = {"fine", "note", "warning", "problem"}

    assert len(checks) > 20
    assert checks == named("doctor.md", r"`([a-z-]+)`") - severities
