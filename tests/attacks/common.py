# SPDX-License-Identifier: Apache-2.0
"""Shared by the attacks on the program: the harness of the command-line tests, and small data."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from harness import DPMF, Case, run  # noqa: E402,F401
from verify_cases import File  # noqa: E402,F401


def table(count, seed, users=0, hostile=None):
    """CSV of points in the square, their class the quadrant; row 17 has the hostile words instead of its features."""
    numbers = random.Random(seed)
    lines = ["x,y,label" + (",who" if users else "")]
    for i in range(count):
        x, y = numbers.uniform(-1, 1), numbers.uniform(-1, 1)
        words = "%.6f,%.6f" % (x, y)
        if hostile is not None and i == 17:
            words = "%s,%s" % (hostile, hostile)
        lines.append("%s,%d" % (words, (x > 0) + 2 * (y > 0)) + (",u%d" % numbers.randrange(users) if users else ""))
    return "\n".join(lines) + "\n"
