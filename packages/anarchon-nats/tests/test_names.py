"""
Names: every job has subjects of its own, whatever stands in its name.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.errors import RequestError
from anarchon_nats.subjects import NAME_BYTES_MAX, Subjects

_NAMES = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(".*> =\t\r\n_-/"),
    min_size=1,
    max_size=60,
)
_SUBJECT = re.compile(r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*")


@given(name=_NAMES, slot=st.integers(-(2**53), 2**53))
def test_a_subject_says_whose_it_is(name: str, slot: int) -> None:
    """
    Job and slot come back as they were: no two runs share a subject. It has four tokens of plain letters.
    """
    subjects = Subjects("acme.billing")
    both = [subjects.claim(name, slot), subjects.end(name, slot)]

    assert [("claim", name, slot), ("end", name, slot)] == [subjects.parsed(each) for each in both]
    assert all(_SUBJECT.fullmatch(each) and each.count(".") == 4 for each in both)


@given(first=_NAMES, second=_NAMES)
def test_two_jobs_have_two_subjects(first: str, second: str) -> None:
    """
    Names that differ are written differently.
    """
    subjects = Subjects("p")

    assert (first == second) == (subjects.claim(first, 1) == subjects.claim(second, 1))


def test_prefixes_have_streams_that_do_not_overlap() -> None:
    """
    A prefix of a prefix, and one that reads like our own tokens, is another stream with other subjects.
    """
    prefixes = ["a", "a.b", "a.claim", "a.claim.x", "a_b", "a-b", "claim"]
    streams = {Subjects(prefix).stream for prefix in prefixes}
    subjects = [(prefix, each) for prefix in prefixes for each in Subjects(prefix).all_of_stream]
    overlapping = [
        (one, other)
        for prefix, one in subjects
        for another, other in subjects
        if prefix != another and _overlap(one, other)
    ]

    assert len(prefixes) == len(streams)
    assert not any("." in stream for stream in streams)
    assert [] == overlapping


def _overlap(one: str, other: str) -> bool:
    tokens = one.split("."), other.split(".")
    return len(tokens[0]) == len(tokens[1]) and all(
        a == b or "*" in (a, b) for a, b in zip(*tokens, strict=True)
    )


@pytest.mark.parametrize(
    "subject", ["p.claim.a.b", "p.end.=ZZ.1", "p.end.=FF.1", "p.claim.=.1", "p.claim.a.01"]
)
def test_a_subject_that_is_not_ours_is_none(subject: str) -> None:
    """
    Somebody else may have published under our prefix: that hides nothing of ours.
    """
    assert Subjects("p").parsed(subject) is None


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1), "\u00e9" * 128, "half \ud83d"])
def test_a_name_that_cannot_be_kept_is_an_error(name: str) -> None:
    """
    Too long is refused and never cut.
    """
    with pytest.raises(RequestError, match="name"):
        Subjects("p").claim(name, 1)
