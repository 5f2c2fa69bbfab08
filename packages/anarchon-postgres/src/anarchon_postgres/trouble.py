"""
PostgreSQL's errors in the protocol's words: what may pass, and what will not.
"""

from __future__ import annotations

import ssl

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon_postgres.driver import is_misconfiguration

__all__ = ["WRONG_ISOLATION", "is_for_data", "keeps_connection", "sqlstate_of", "store_error"]

WRONG_ISOLATION = "AN001"
"""
What our functions raise under another isolation than READ COMMITTED.
"""

_UPGRADE = (
    "have somebody who may create tables run the SQL of anarchon_postgres.migration_sql(), which `anarchon migrate"
    " --sql` prints, with its grant_to for this user's rights"
)
_READ_ONLY = (
    "this server takes no writes; where it is a standby, name the primary, or several hosts with"
    " target_session_attrs=read-write"
)

# The codes, or the classes of them (their first two characters), after which asking again will not help by itself.
_REFUSED = {
    "25006": _READ_ONLY,
    "28": "the login was refused: look at user, password and pg_hba.conf",
    "3D000": "there is no such database: create it, or name another one",
    "3F000": _UPGRADE,
    "42501": _UPGRADE,
    "42704": "a parameter of the DSN is none of the server's",
    "42883": f"a function is missing; {_UPGRADE}",
    "42P01": f"a table is missing; {_UPGRADE}",
    "53100": "there is no room left; nothing was changed, and free space lifts it",
    "22": "nothing was changed",
    "23": "nothing was changed",
    "42": "nothing was changed",
}

# What passes, where the server's own words do not say what to do.
_EXPLAINED = {
    "53300": "raise max_connections, or put a pooler between; a scheduler holds three connections",
    "55P03": "another transaction held a row of ours for that long: somebody writes to the tables by hand",
    "57014": "a statement_timeout of the server, the database or the user was in the way",
}

# After these the connection is as good as before: the server has rolled back and waits for the next statement.
_HARMLESS = ("22", "23", "40", "55P03", "57014", "AN")


def sqlstate_of(error: BaseException) -> str:
    """
    Return the server's code; empty for an error that is not the server's.
    """
    return str(getattr(error, "sqlstate", None) or "")


def is_for_data(error: BaseException) -> bool:
    """
    Say whether the server, or the driver, refused a value: another item may be fine.
    """
    return sqlstate_of(error)[:2] in ("22", "23")


def keeps_connection(error: BaseException) -> bool:
    """
    Say whether a connection is worth keeping after *error*.
    """
    code = sqlstate_of(error)
    return code[:2] in _HARMLESS or code in _HARMLESS


def store_error(error: Exception, place: str) -> BackendError:
    """
    Turn an error of the driver or the system into one of the protocol's, with the server's own words in it.
    """
    code = sqlstate_of(error)
    words = str(error) or type(error).__name__
    detail = getattr(error, "detail", None)
    if detail:
        words = f"{words} ({detail})"
    for key in (code, code[:2]):
        if key in _REFUSED:
            return StoreRefusedError(f"{place}: {words}; {_REFUSED[key]}")
    if code:
        explained = _EXPLAINED.get(code)
        return StoreUnavailableError(f"{place}: {words}" + (f"; {explained}" if explained else ""))
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreRefusedError(f"{place}: the server's certificate was refused: {words}")
    if is_misconfiguration(error):
        return StoreRefusedError(f"{place}: {words}")
    return StoreUnavailableError(f"{place}: {words}")
