"""
The distributions fit together: one version, pins that admit it, and what a stranger needs in each wheel.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points, version

import pytest
import repository
from repository import Distribution

ALL = repository.distributions()
NAMES = {distribution.name for distribution in ALL}


@pytest.fixture(params=ALL, ids=lambda distribution: distribution.name)
def distribution(request: pytest.FixtureRequest) -> Distribution:
    """
    Give each distribution in turn.
    """
    found = request.param
    assert isinstance(found, Distribution)
    return found


def current_version() -> str:
    """
    Read the version from its one file, as text.
    """
    match = re.search(
        r'^__version__ = "([^"]+)"$',
        repository.VERSION_FILE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert match is not None
    return match[1]


def test_installed_version_is_the_source_version(distribution: Distribution) -> None:
    """
    What is installed is what stands in the one version file. After a bump, `make` installs anew.
    """
    assert current_version() == version(distribution.name)


def test_version_source_is_shared(distribution: Distribution) -> None:
    """
    No distribution has a version of its own.
    """
    table = distribution.project
    source = (distribution.folder / table["tool"]["hatch"]["version"]["path"]).resolve()

    assert repository.VERSION_FILE == source
    assert ["version"] == table["project"]["dynamic"]


def test_sibling_pins_admit_the_version(distribution: Distribution) -> None:
    """
    Siblings are pinned to this minor version: they are released together.
    """
    project = distribution.project["project"]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    major, minor, *_ = current_version().split(".")
    expected = f">={major}.{minor},<{major}.{int(minor) + 1}"
    pins = {
        match[1]: match[2]
        for line in [*project["dependencies"], *extras]
        if (match := re.fullmatch(r"([a-z0-9-]+)(?:\[[a-z,]+\])?(.*)", line)) and match[1] in NAMES
    }

    assert dict.fromkeys(pins, expected) == pins
    assert pins


def test_core_offers_every_other_distribution_as_an_extra() -> None:
    """
    `anarchon[sqlite]` installs what it names. Two extras bring what anarchon.metrics and anarchon.tracing import.
    """
    extras = dict(ALL[0].project["project"]["optional-dependencies"])

    assert extras.pop("prometheus")[0].startswith("prometheus-client>=")
    assert extras.pop("opentelemetry")[0].startswith("opentelemetry-api>=")
    assert {name.removeprefix("anarchon-") for name in NAMES - {"anarchon"}} == set(extras)
    assert all(lines[0].startswith(f"anarchon-{extra}") for extra, lines in extras.items())


def test_core_depends_on_no_store() -> None:
    """
    The core needs a cron parser and time zones, nothing else.
    """
    needed = {re.split(r"[<>=]", line)[0] for line in ALL[0].project["project"]["dependencies"]}

    assert {"croniter", "tzdata"} == needed


def test_every_distribution_is_complete(distribution: Distribution) -> None:
    """
    Each has its own page, its licence and its types.
    """
    licence = (repository.ROOT / "LICENSE").read_text(encoding="utf-8")
    page = (distribution.folder / "README.md").read_text(encoding="utf-8")

    assert licence == (distribution.folder / "LICENSE").read_text(encoding="utf-8")
    assert page.startswith(f"# {distribution.name}\n")
    assert len(page.split()) > 40
    assert (distribution.source / "py.typed").is_file()


def test_metadata_names_the_systems_that_are_supported(distribution: Distribution) -> None:
    """
    Linux and macOS, Python 3.11 and up; Windows is not promised.
    """
    project = distribution.project["project"]
    systems = {line for line in project["classifiers"] if line.startswith("Operating System")}

    assert {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"} == systems
    assert ">=3.11" == project["requires-python"]
    assert "Typing :: Typed" in project["classifiers"]


@pytest.mark.parametrize("group", ["anarchon.backends", "anarchon.conformance"])
def test_entry_points_load(group: str) -> None:
    """
    Whatever is registered is there, and every backend that we register has a profile for the kit.
    """
    points = [
        point
        for point in entry_points(group=group)
        if point.dist is not None and point.dist.name in NAMES
    ]

    named = {
        name
        for distribution in ALL
        for name in distribution.project["project"].get("entry-points", {}).get(group, {})
    }

    assert named == {point.name for point in points}
    assert all(point.load() is not None for point in points)


def test_command_is_installed() -> None:
    """
    `anarchon` on a shell is the command line's main function.
    """
    (point,) = entry_points(group="console_scripts", name="anarchon")

    assert callable(point.load())


def test_plugin_has_the_name_that_its_page_gives() -> None:
    """
    `-p anarchon_conformance` works where plug-ins do not load by themselves, so the entry point has that very name.
    """
    (point,) = entry_points(group="pytest11", name="anarchon_conformance")

    assert "anarchon_conformance.plugin" == point.value
