# SPDX-License-Identifier: Apache-2.0
"""Two hundred kills at random moments: the story of test_replay.py, at length."""

import unittest

from story import Case, torch
from test_replay import kills


@unittest.skipIf(torch is None, "torch is not installed")
class KillsLong(Case):
    def test_two_hundred_kills(self):
        """The same bits each time, in 200 kills."""
        kills(self, 200, 2)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
