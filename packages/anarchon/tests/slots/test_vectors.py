"""
The project's vectors, as specs/slots.md says how they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anarchon.errors import DefinitionError
from anarchon.slots import Schedule
from anarchon.slots.facts import count_between

Make = Callable[[dict[str, Any]], Schedule]


def test_vector_forwards(vector: dict[str, Any], make_schedule: Make) -> None:
    """
    Asking for the next slot again and again gives the list.
    """
    schedule = make_schedule(vector["schedule"])
    found: list[int] = []
    slot: int | None = vector["from_ms"]
    while len(found) < max(1, len(vector["slots_ms"])):
        assert slot is not None
        slot = schedule.next_slot(slot)
        if slot is None:
            break
        found.append(slot)

    assert vector["slots_ms"] == found


def test_vector_backwards(vector: dict[str, Any], make_schedule: Make) -> None:
    """
    Asking for the last slot, from the list's end, gives the list the other way round.
    """
    schedule = make_schedule(vector["schedule"])
    found: list[int] = []
    at_ms = max(vector["slots_ms"], default=vector["from_ms"])
    while (slot := schedule.last_slot(at_ms)) is not None and slot > vector["from_ms"]:
        found.append(slot)
        at_ms = slot - 1

    assert vector["slots_ms"] == found[::-1]


def test_vector_counted(vector: dict[str, Any], make_schedule: Make) -> None:
    """
    The slots of the list are as many as are counted over its length.
    """
    schedule = make_schedule(vector["schedule"])
    end_ms = max(vector["slots_ms"], default=vector["from_ms"]) + 1

    assert (len(vector["slots_ms"]), True) == count_between(schedule, vector["from_ms"], end_ms)


def test_invalid_is_refused(invalid: dict[str, Any], make_schedule: Make) -> None:
    """
    What may not be written is refused by the constructor, with the culprit and what is allowed.
    """
    described = invalid["schedule"]
    with pytest.raises(DefinitionError) as caught:
        make_schedule(described)

    message = str(caught.value)
    culprits = [repr(described.get(name)) for name in ("expr", "every", "timezone")]
    assert any(culprit in message for culprit in culprits)
    assert any(word in message for word in ("Allowed are", "must", "Write", "Name a day"))
