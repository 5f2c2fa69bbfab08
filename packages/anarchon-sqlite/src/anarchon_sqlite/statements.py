"""
The SQL of one prefix, written once so that SQLite prepares each statement once.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JOB_COLUMNS", "READ_SIZES", "RECORD_COLUMNS", "Statements", "statements_for"]

JOB_COLUMNS = (
    "job",
    "high",
    "live_slot",
    "live_attempt",
    "live_token",
    "live_instance_id",
    "live_lease_ms",
    "live_lease_until_ms",
    "live_lease_clock",
    "live_lease_elsewhere",
    "live_crashes",
    "live_previous_high",
    "skip_slot",
    "skip_token",
    "skip_previous_high",
    "fingerprint",
    "zone_digests",
    "since_ms",
    "records",
)

RECORD_COLUMNS = (
    "job",
    "slot",
    "attempt",
    "instance_id",
    "status",
    "reason",
    "claimed_ms",
    "started_ms",
    "finished_ms",
    "error",
)

READ_SIZES = (1, 8, 32, 128)
"""
How many jobs one SELECT asks for; a list in between is padded with NULL, which is never equal.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """
    Every statement on the tables of one prefix.

    The reads by job come in several lengths, in the order of READ_SIZES.
    """

    prefix: str
    now: str
    read_jobs: tuple[str, ...]
    read_live: tuple[str, ...]
    read_all_jobs: str
    write_job: str
    open_record: str
    close_record: str
    start_record: str
    read_record: str
    history_of_job: str
    history: str
    surplus_records: str
    old_records: str
    delete_record: str
    count_records: str
    read_meta: str
    write_meta: str


def statements_for(prefix: str) -> Statements:
    """
    Write the statements for *prefix*, which has been checked.
    """
    jobs, runs, meta = f"{prefix}_jobs", f"{prefix}_runs", f"{prefix}_meta"
    columns = ", ".join(JOB_COLUMNS)
    live = "job, live_slot, live_attempt, live_token IS NOT NULL"
    kept = ", ".join(f"{name} = excluded.{name}" for name in JOB_COLUMNS[1:])
    record = ", ".join(RECORD_COLUMNS)
    key = "job = ? AND slot = ? AND attempt = ?"
    return Statements(
        prefix=prefix,
        # Julian days as a float are exact to 0.05 ms; unixepoch() with fractions is younger than what we support.
        now="SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
        read_jobs=tuple(
            f"SELECT {columns} FROM {jobs} WHERE job IN ({_marks(size)})" for size in READ_SIZES
        ),
        read_live=tuple(
            f"SELECT {live} FROM {jobs} WHERE job IN ({_marks(size)})" for size in READ_SIZES
        ),
        read_all_jobs=f"SELECT {columns} FROM {jobs} ORDER BY job",
        write_job=f"INSERT INTO {jobs} ({columns}) VALUES ({_marks(len(JOB_COLUMNS))})"
        f" ON CONFLICT (job) DO UPDATE SET {kept}",
        open_record=f"INSERT OR REPLACE INTO {runs} ({record}, token) VALUES ({_marks(len(RECORD_COLUMNS) + 1)})",
        close_record=f"UPDATE {runs} SET status = ?, reason = ?, started_ms = COALESCE(started_ms, ?),"
        f" finished_ms = ?, error = ? WHERE {key} AND status = 'running'",
        start_record=f"UPDATE {runs} SET started_ms = ? WHERE {key} AND started_ms IS NULL",
        read_record=f"SELECT token, status, reason FROM {runs} WHERE {key}",
        history_of_job=f"SELECT {record} FROM {runs} WHERE job = ? ORDER BY slot DESC, attempt DESC LIMIT ?",
        history=f"SELECT {record} FROM {runs} ORDER BY slot DESC, job, attempt DESC LIMIT ?",
        surplus_records=f"SELECT job, slot, attempt FROM {runs} WHERE job = ? AND status <> 'running'"
        " ORDER BY slot, attempt LIMIT ?",
        old_records=f"SELECT job, slot, attempt FROM {runs} WHERE slot < ? AND finished_ms < ? ORDER BY slot LIMIT ?",
        delete_record=f"DELETE FROM {runs} WHERE {key}",
        count_records=f"UPDATE {jobs} SET records = records - ? WHERE job = ?",
        read_meta=f"SELECT value FROM {meta} WHERE key = ?",
        write_meta=f"INSERT OR REPLACE INTO {meta} (key, value) VALUES (?, ?)",
    )


def _marks(count: int) -> str:
    return ", ".join("?" * count)
