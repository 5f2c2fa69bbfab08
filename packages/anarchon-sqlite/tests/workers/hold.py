"""
Take the file's write lock and keep it: `hold.py PATH` says "held", and never lets go.
"""

from __future__ import annotations

import signal
import sqlite3
import sys

raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
raw.execute("INSERT INTO anarchon_jobs (job, high, records) VALUES ('held', 1, 0)")
sys.stdout.write("held\n")
sys.stdout.flush()
signal.pause()
