"""
What is written by hand, instead of by redis-py or rule by rule, says the same.
"""

from __future__ import annotations

import json
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection

from anarchon.backend import ClaimRequest
from anarchon_redis import requests
from anarchon_redis.answers import packed
from anarchon_redis.commands import packed_command
from anarchon_redis.keys import Keys
from anarchon_redis.requests import check_request

TEXT = st.text(st.characters(exclude_categories=["Cs"]))

PLAIN = ClaimRequest(
    job="job", slot=1_791_633_610_000, token="token", instance_id="host:1", lease_ms=30_000
)


@given(st.lists(TEXT, max_size=6))
def test_a_command_is_written_as_the_client_would(words: list[str]) -> None:
    """
    Every word arrives as it is, whatever characters are in it.
    """
    expected = b"".join(Connection().pack_command("EVALSHA", *words))

    assert expected == packed_command(["EVALSHA", *words])


@given(st.lists(TEXT, max_size=6))
def test_the_fields_of_an_item_are_a_json_array(fields: list[str]) -> None:
    """
    Every field is read back as it was, control characters and quotes too.
    """
    assert fields == json.loads(packed(fields))


@given(st.text(st.sampled_from("ab%{}7BD"), max_size=8))
def test_a_name_is_read_back_from_the_index(job: str) -> None:
    """
    A name with what keys encode, and one without, both survive.
    """
    assert job == Keys.decoded(Keys.encoded(job))


ODD: list[dict[str, object]] = [
    {"job": ""},
    {"job": "x" * 256},
    {"job": "ä" * 200},
    {"job": 1},
    {"job": "\ud800"},
    {"slot": 2**53},
    {"slot": True},
    {"slot": 1.0},
    {"slot": -1},
    {"attempt": 0},
    {"attempt": 10**9 + 1},
    {"token": ""},
    {"token": b"token"},
    {"instance_id": None},
    {"lease_ms": -1},
    {"lease_ms": 10**13 + 1},
    {"max_crashes": 2**60},
    {"not_after_ms": "soon"},
    {"not_after_ms": 2**60},
    {"max_lateness_ms": 2**60},
    {"fingerprint": 7},
    {"zone_digests": "\udfff"},
]


@pytest.mark.parametrize("change", ODD, ids=str)
def test_no_claim_passes_at_a_glance_that_breaks_a_rule(change: dict[str, object]) -> None:
    """
    With the glance and without it, the answer is the same.
    """
    request = replace(PLAIN, **change)  # type: ignore[arg-type] # what a caller without types may give
    at_a_glance = check_request(request, least_slot=0)
    with mock.patch.object(requests, "_is_plain", return_value=False):
        by_the_rules = check_request(request, least_slot=0)

    assert str(by_the_rules) == str(at_a_glance)
    assert by_the_rules is not None


def test_an_ordinary_claim_needs_no_more_than_a_glance() -> None:
    """
    The glance is what makes a batch cheap: it takes what schedulers send.
    """
    with mock.patch.object(requests, "unfit_job", side_effect=AssertionError):
        assert check_request(replace(PLAIN, fingerprint="f", not_after_ms=PLAIN.slot)) is None
