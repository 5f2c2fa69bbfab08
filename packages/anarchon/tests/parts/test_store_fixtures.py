"""
What the stores' tests share with each other holds what it says.
"""

from __future__ import annotations

import subprocess
import sys

from store_fixtures import line

TWO_LINES = "import sys; sys.stdout.write('first\\nsecond\\n')"


def test_a_line_is_read_and_no_more() -> None:
    """
    What a worker says right after a line is still there for communicate(), which reads the pipe itself.
    """
    process = subprocess.Popen([sys.executable, "-c", TWO_LINES], stdout=subprocess.PIPE, text=True)
    first = line(process)
    rest, _ = process.communicate()

    assert ("first", "second\n") == (first, rest)
