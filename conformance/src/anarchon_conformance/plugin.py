"""
Load the conformance kit into pytest.

Every pytest run on a machine where the kit is installed imports this module, so that it
imports pytest and the standard library alone; the rest comes when the kit is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from anarchon_conformance.session import KitSession

pytest.register_assert_rewrite(
    "anarchon_conformance.children", "anarchon_conformance.harness", "anarchon_conformance.model"
)

_KIT = Path(__file__).resolve().parent
_NAME = "anarchon_conformance_session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    Add the kit's options.
    """
    group = parser.getgroup("anarchon", "conformance of an anarchon backend")
    group.addoption(
        "--anarchon-backend",
        action="append",
        default=[],
        metavar="NAME|MODULE:ATTRIBUTE",
        help="judge this backend; may be given several times",
    )
    group.addoption(
        "--anarchon-report",
        action="append",
        default=[],
        metavar="PATH",
        help="write the certificate to PATH, as .json or .md; may be given several times",
    )
    group.addoption(
        "--anarchon-strict",
        action="store_true",
        default=False,
        help="let SHOULD clauses decide the verdict too",
    )
    parser.addini(
        "anarchon_backends", "backends that the conformance kit judges", type="args", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """
    Register the kit's marker, which strict markers ask for.
    """
    config.addinivalue_line(
        "markers", "anarchon_clause(id): the clause that a test of the conformance kit checks"
    )


@pytest.fixture
def anarchon_figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """
    Take the figures of a test into the certificate.

    pytest's own record_property warns beside a JUnit file, which is an error where
    warnings are.
    """

    def note(figures: str) -> None:
        request.node.user_properties.append(("anarchon_figures", figures))

    return note


def pytest_sessionstart(session: pytest.Session) -> None:
    """
    Load the profiles early, where a mistake costs one line and not a traceback.
    """
    if _selected(session.config):
        _begin(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Run each test of the kit once a backend.
    """
    if _is_ours(metafunc.definition) and "bench" in metafunc.fixturenames:
        kit = _begin(metafunc.config)
        metafunc.parametrize("bench", kit.benches, ids=kit.names, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Note each test's clause, and refuse to run with none of the kit's tests.
    """
    ours = [item for item in items if _is_ours(item)]
    if ours:
        _begin(config).note(ours)
    elif (
        _selected(config)
        and not config.option.collectonly
        and config.pluginmanager.has_plugin(_NAME)
    ):
        _begin(config).refuse_empty_collection()


def _selected(config: pytest.Config) -> bool:
    """
    Say whether an argument names the kit, as a package or by a path.
    """
    for argument in config.args:
        name = argument.partition("::")[0].partition("[")[0]
        if config.option.pyargs and name.partition(".")[0] == "anarchon_conformance":
            return True
        path = (config.invocation_params.dir / name).resolve()
        if path == _KIT or _KIT in path.parents:
            return True
    return False


def _is_ours(item: pytest.Item) -> bool:
    return item.path.parent.resolve() == _KIT


def _begin(config: pytest.Config) -> KitSession:
    """
    Register the part that judges, once.
    """
    kit: KitSession | None = config.pluginmanager.get_plugin(_NAME)
    if kit is None:
        from anarchon_conformance.session import KitSession  # noqa: PLC0415 - loaded only when the kit is asked for

        kit = KitSession(config)
        config.pluginmanager.register(kit, _NAME)
    return kit
