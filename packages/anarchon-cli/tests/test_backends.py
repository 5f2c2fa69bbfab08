"""
`anarchon backends` shows what is installed, and survives what is broken.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from anarchon import __version__

Anarchon = Callable[..., Result]


@pytest.fixture
def third_party(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Install a distribution whose backend cannot be imported.
    """
    info = folder / "acme_anarchon-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-anarchon\nVersion: 2.5\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[anarchon.backends]\nacme = acme_anarchon:AcmeBackend\n", encoding="utf-8"
    )
    (folder / "acme_anarchon.py").write_text(
        "raise OSError('no driver\\nhere')\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


def test_installed_backends_are_shown(anarchon: Anarchon) -> None:
    """
    Each scheme has its class, its distribution, and whether it keeps leases.
    """
    result = anarchon("backends")

    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}

    assert 0 == result.exit_code
    assert ["anarchon_sqlite.SqliteBackend", "anarchon-sqlite", __version__, "yes"] == rows[
        "sqlite"
    ]
    assert ["anarchon", __version__, "yes"] == rows["memory"][1:]
    assert ["no:", "claim", "only"] == rows["memory-claim"][-3:]


@pytest.mark.usefixtures("third_party")
def test_a_broken_backend_is_shown_with_its_error(anarchon: Anarchon) -> None:
    """
    What a third party's module raises stands in its row; the others are shown as ever.
    """
    table = anarchon("backends")
    told = {
        entry["scheme"]: entry
        for entry in map(json.loads, anarchon("backends", "--json").stdout.splitlines())
    }

    assert 0 == table.exit_code
    assert any(
        line.startswith("acme ") and line.endswith("OSError: no driver here")
        for line in table.stdout.splitlines()
    )
    assert ("acme-anarchon", "2.5", None) == tuple(
        told["acme"][key] for key in ("distribution", "version", "leases")
    )
    assert (True, None) == (told["sqlite"]["leases"], told["sqlite"]["error"])
