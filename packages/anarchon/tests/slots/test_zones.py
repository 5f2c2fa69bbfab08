"""
Time zones: which keys are allowed, where their rules come from, and how they are digested.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots import Cron, search
from anarchon.slots.digests import zone_digest, zone_digests
from anarchon.slots.parse import parse
from anarchon.slots.segments import DAY_S, Segment, Zone
from anarchon.slots.zones import UTC_KEYS, check_key, zone, zone_keys, zone_rules

NOW_MS = 1_796_083_185_000

# Prints what decides slots: next and last slots of some schedules in zones with different histories, and the digests.
PROGRAM = """
import json
from anarchon.slots import Cron, search
from anarchon.slots.zones import zone_rules
found = []
for key in ["UTC", "Europe/Berlin", "America/Vancouver", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia"]:
    for expression in ["0 8 * * *", "*/20 * * * *", "30 2 * * 0", "0 0 29 2 *"]:
        cron = Cron(expression, key)
        for at in range(0, 2_100_000_000_000, 9_000_000_000):
            found += [cron.next_slot(at), cron.last_slot(at)]
        found += sorted(cron.zone_digests(1_796_083_185_000).items())
print(json.dumps([zone_rules(), found]))
"""


def run_with(**environment: str) -> tuple[str, list[object]]:
    """
    Run the program in a process of its own.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    rules, found = json.loads(done.stdout)
    return rules, found


def test_all_listed_places_are_allowed_and_no_others() -> None:
    """
    The keys are those of the tzdata distribution, less those that mean no place.
    """
    keys = zone_keys()

    assert 590 < len(keys)
    assert {"UTC", "Europe/Berlin", "America/New_York", "Etc/GMT+5"} <= keys
    assert not {"Factory", "localtime", "posixrules"} & keys
    assert all("Europe/Berlin" == check_key(key) for key in ["Europe/Berlin"])


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("europe/berlin", "Did you mean 'Europe/Berlin'"),
        ("Europe/Berlln", "Did you mean 'Europe/Berlin'"),
        ("Mars/Olympus", "not 'Mars/Olympus'. Allowed"),
        ("../Europe/Berlin", "not '../Europe/Berlin'"),
    ],
)
def test_unknown_key_is_refused_with_a_near_one(key: str, near: str) -> None:
    """
    A slip of the pen gets the key that was meant.
    """
    with pytest.raises(InvalidScheduleError, match="spelled exactly") as caught:
        Cron("0 8 * * *", key)

    assert near in str(caught.value)


def test_every_zone_loads() -> None:
    """
    No listed key lacks its rules.
    """
    for key in sorted(zone_keys()):
        segment = zone(key).at(NOW_MS // 1000)

        assert -DAY_S < segment.offset < DAY_S


@pytest.mark.slow
def test_system_path_changes_nothing_by_default(tmp_path: object) -> None:
    """
    Whatever PYTHONTZPATH says, the zones come from the tzdata distribution.
    """
    usual, empty, elsewhere = (
        run_with(),
        run_with(PYTHONTZPATH=""),
        run_with(PYTHONTZPATH=str(tmp_path)),
    )

    assert f"tzdata {importlib.metadata.version('tzdata')}" == usual[0]
    assert usual == empty
    assert usual == elsewhere


@pytest.mark.slow
def test_system_files_are_used_where_they_are_chosen() -> None:
    """
    ANARCHON_TZ=system follows PYTHONTZPATH, and equal rules give equal slots.
    """
    path = str(importlib.resources.files("tzdata").joinpath("zoneinfo"))
    rules, found = run_with(ANARCHON_TZ="system", PYTHONTZPATH=path)

    assert "system" == rules
    assert run_with()[1] == found


@pytest.mark.slow
def test_other_rules_on_the_system_path_are_seen(tmp_path_factory: pytest.TempPathFactory) -> None:
    """
    The choice is real: with other files, other slots and other digests come out.
    """
    folder = tmp_path_factory.mktemp("zoneinfo")
    for key in ["Europe/Berlin", "America/Vancouver"]:
        target = folder / key
        target.parent.mkdir(parents=True)
        target.write_bytes(
            importlib.resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
        )

    assert run_with()[1] != run_with(ANARCHON_TZ="system", PYTHONTZPATH=str(folder))[1]


def test_unknown_choice_is_refused() -> None:
    """
    A wrong value of the variable is an error, not a silent default.
    """
    done = subprocess.run(
        [sys.executable, "-c", "from anarchon.slots import Cron; Cron('0 8 * * *')"],
        env={**os.environ, "ANARCHON_TZ": "sytem"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.returncode
    assert "ANARCHON_TZ must be 'package'" in done.stderr
    assert "not 'sytem'" in done.stderr


def test_choice_is_read_where_a_zone_is_first_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Both values, and a wrong one, do the same within one process that starts afresh.
    """
    from anarchon.slots import zones  # noqa: PLC0415 - the module itself is under test, its caches too

    for choice, expected in [("system", "system"), ("package", zone_rules())]:
        zones._from_system.cache_clear()
        zones.zone.cache_clear()
        monkeypatch.setenv("ANARCHON_TZ", choice)

        assert expected == zone_rules()
        assert 7_200 == zone("Europe/Berlin").at(1_780_272_000).offset
    zones._from_system.cache_clear()
    monkeypatch.setenv("ANARCHON_TZ", "")
    with pytest.raises(InvalidScheduleError, match="must be 'package'"):
        zone_rules()
    monkeypatch.undo()
    zones.zone.cache_clear()


@pytest.mark.parametrize("key", sorted(UTC_KEYS))
def test_utc_needs_no_digest(key: str, rules_of: Callable[[str], ZoneInfo]) -> None:
    """
    UTC is UTC under any rules, and its other names are as well.
    """
    assert {} == Cron("0 8 * * *", key).zone_digests(NOW_MS)
    assert datetime.fromtimestamp(NOW_MS / 1000, UTC).replace(
        tzinfo=None
    ) == datetime.fromtimestamp(NOW_MS / 1000, rules_of(key)).replace(tzinfo=None)


def test_digests_are_of_this_year_and_the_next() -> None:
    """
    The years are those of UTC, and a digest says which year it is of.
    """
    cron = Cron("0 8 * * *", "Europe/Berlin")
    digests = cron.zone_digests(1_798_761_599_999)

    assert ["2026", "2027"] == list(digests)
    assert digests["2026"] != digests["2027"]
    assert ["2027", "2028"] == list(cron.zone_digests(1_798_761_600_000))
    assert digests["2027"] == cron.zone_digests(1_798_761_600_000)["2027"]
    assert ["1970", "1971"] == list(cron.zone_digests(-(10**20)))
    assert ["9999"] == list(cron.zone_digests(10**20))


def test_digest_is_what_the_specification_says() -> None:
    """
    Any language can compute it: the offset at the year's start, then each change with the offset from then on.
    """
    text = '{"changes":[[1774746000,7200],[1792890000,3600]],"offset":3600,"year":2026}'

    assert sha256(text.encode()).hexdigest() == zone_digest(zone("Europe/Berlin"), 2026)


def test_digest_differs_where_slots_differ() -> None:
    """
    Equal rules have equal digests under any key; other rules have others.
    """
    berlin, vienna = (
        zone_digest(zone("Europe/Berlin"), 2026),
        zone_digest(zone("Europe/Vienna"), 2026),
    )

    assert berlin == vienna
    assert berlin != zone_digest(zone("Europe/London"), 2026)
    assert zone_digests("Europe/Berlin", zone("Europe/Berlin"), NOW_MS)["2026"] == berlin


def test_segments_around_a_change() -> None:
    """
    A segment ends at the second of the change; the next one knows what was shown before.
    """
    berlin = zone("Europe/Berlin")
    gap, fold = 1_774_746_000, 1_792_890_000

    assert (gap, 3_600) == (berlin.at(gap - 1).end, berlin.at(gap - 1).offset)
    assert (gap, 7_200, gap + 3_600) == berlin.at(gap)[:1] + berlin.at(gap)[2:]
    assert (fold, 3_600, fold + 7_200) == berlin.at(fold)[:1] + berlin.at(fold)[2:]
    assert [(gap, 7_200), (fold, 3_600)] == list(berlin.changes(gap, fold + 1))


def test_block_that_begins_soon_after_a_change() -> None:
    """
    What was shown before a change is known on the other side of the grid's edge, until the clocks have passed it.
    """
    edge = 400 << 22
    back, further = edge - 1_800, edge + 50_000

    def offset_at(instant: int) -> int:
        return 3_600 * ((instant < back) + (instant < further))

    moved = Zone(offset_at)

    assert Segment(back, edge, 3_600, back + 7_200) == moved.at(edge - 1)
    assert Segment(edge, further, 3_600, back + 7_200) == moved.at(edge)
    assert Segment(further, 401 << 22, 0, further + 3_600) == moved.at(further)


def test_rare_hours_do_not_scan_the_years_between() -> None:
    """
    The search for a day that is forty years away looks at the zone near both ends only, forwards and backwards.
    """
    asked: list[int] = []

    def offset_at(instant: int) -> int:
        asked.append(instant)
        return 3_600

    pattern = parse("0 * * 2 1#5")
    found = search.first_slot(pattern, Zone(offset_at), 3_300_000_000)
    before = search.last_slot(pattern, Zone(offset_at), 4_400_000_000)

    assert 4_486_143_600 == found
    assert 3_224_008_800 == before
    assert len(asked) < 1_000


def test_change_at_the_first_second_of_a_year() -> None:
    """
    Such a change is in the year's first offset, and not among its changes besides.
    """
    start = 1_767_225_600
    text = '{"changes":[],"offset":3600,"year":2026}'

    assert sha256(text.encode()).hexdigest() == zone_digest(Zone(shifted_from(start, 3_600)), 2026)


def test_memory_of_a_zone_is_bounded() -> None:
    """
    Asking about thousands of years does not keep thousands of years.
    """
    asked: list[int] = []

    def offset_at(instant: int) -> int:
        asked.append(instant)
        return 0

    endless = Zone(offset_at)
    for block in range(2_100):
        endless.at(block << 22)

    assert len(endless._blocks) <= 1_024
    before = len(asked)
    assert Segment(2_099 << 22, 2_100 << 22, 0, 2_099 << 22) == endless.at((2_099 << 22) + 5)
    assert before == len(asked)


def test_change_at_the_first_second_of_a_block() -> None:
    """
    A change where the grid of the scan has an edge is one like any other.
    """
    edge = 400 << 22
    for shift in (-3_600, 3_600):
        moved = Zone(shifted_from(edge, shift))

        assert Segment(edge, 401 << 22, shift, edge) == moved.at(edge)
        assert (edge, 0) == (moved.at(edge - 1).end, moved.at(edge - 1).offset)
        assert [(edge, shift)] == list(moved.changes(edge, edge + 1))


def shifted_from(edge: int, shift: int) -> Callable[[int], int]:
    """
    Make the rules of a zone that leaves UTC at an instant.
    """
    return lambda instant: shift if instant >= edge else 0
