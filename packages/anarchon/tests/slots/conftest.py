"""
What the tests of slots share: the project's vectors and freshly made zones.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anarchon.slots import Cron, Every, Once, Schedule

VECTORS = Path(__file__).parents[4] / "specs" / "vectors" / "slot-vectors.json"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Give each vector a test of its own.
    """
    document = json.loads(VECTORS.read_text(encoding="utf-8"))
    if "vector" in metafunc.fixturenames:
        vectors = document["vectors"]
        metafunc.parametrize("vector", vectors, ids=[vector["id"] for vector in vectors])
    if "invalid" in metafunc.fixturenames:
        metafunc.parametrize("invalid", document["invalid"], ids=str)


@pytest.fixture
def make_schedule() -> Callable[[dict[str, Any]], Schedule]:
    """
    Build the schedule that a vector describes.
    """

    def make(described: dict[str, Any]) -> Schedule:
        match described["kind"]:
            case "every":
                return Every(described["every"])
            case "once":
                return Once(described["at"])
            case "cron":
                return Cron(described["expr"], described["timezone"])
            case kind:
                raise AssertionError(kind)

    return make


@pytest.fixture(scope="session")
def rules_of() -> Callable[[str], ZoneInfo]:
    """
    Read a zone's rules from the tzdata distribution, past the code under test.
    """

    def read(key: str) -> ZoneInfo:
        resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *key.split("/"))
        with resource.open("rb") as file:
            return ZoneInfo.from_file(file, key=key)

    return read


@pytest.fixture(scope="session")
def ms_of() -> Callable[[str], int]:
    """
    Turn an ISO time with its offset into milliseconds since 1970.
    """
    return lambda text: int(datetime.fromisoformat(text).timestamp()) * 1000
